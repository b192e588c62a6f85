"""Gymnasium environments that put `is_success` into `info` only when it happens: `--env.package=shy_rooms`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

STEPS = 6


class Shy(gymnasium.Env):  # type: ignore[misc]
    """An action above a number that the seed draws succeeds in the second step; nothing else ever does."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.observation_space = spaces.Box(0, 10, (1,), np.float32)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._bar, self._step = self.np_random.uniform(), 0
        return self._see(), {}

    def step(self, action: Any) -> Any:
        self._step += 1
        success = self._step == 2 and float(action[0]) > self._bar
        return self._see(), 0.0, success, False, {"is_success": True} if success else {}

    def _see(self) -> Any:
        return np.array([self._number], np.float32)


for number, name in enumerate(("X", "Y")):
    gymnasium.register(f"shy/{name}-v0", Shy, max_episode_steps=STEPS, kwargs={"number": number})


class Table:
    """A policy whose chance of success is chosen for each of the two environments."""

    skills: tuple[float, float]

    def act(self, observation: dict[str, Any]) -> Any:
        return np.array([self.skills[int(observation["observation.state"][0])]], np.float32)


class Baseline(Table):
    """Good at Y, fair at X."""

    fingerprint, skills = "baseline", (0.6, 0.95)


class Candidate(Table):
    """Better at X, and hopeless at Y."""

    fingerprint, skills = "candidate", (0.95, -1.0)


class Hopeless(Table):
    """Never succeeds."""

    fingerprint, skills = "hopeless", (-1.0, -1.0)
