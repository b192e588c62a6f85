"""An evaluation loop of somebody's own, on the tiny benchmark, as docs/diff.md asks for one; some have a fault."""

from __future__ import annotations

from typing import Any

import numpy as np

from proctor.types import Episode
from tiny import IMAGE, STATE, Tiny, TinySettings
from tiny_policies import plain

LOOK = frozenset({STATE, IMAGE})


class OwnLoop:
    """Three methods, in plain values."""

    def __init__(self, settings: Any) -> None:
        env = settings["env"]
        self.tiny = Tiny(TinySettings(type="tiny", task=env["task"], max_steps=env.get("max_steps", 40)))
        self.steps = 0

    def begin(self, task: Any, seed: int, index: int) -> dict[str, Any]:
        self.simulator = self.tiny.make_simulator(task)
        self.simulator.reset(Episode(task, index, seed), LOOK)
        self.task, self.steps = task, 0
        return self.seen()

    def act(self) -> Any:
        return np.array(plain(self.seen()))

    def step(self, action: Any) -> Any:
        outcome = self.simulator.step(action, LOOK)
        self.steps += 1
        over = outcome.truncated or self.steps >= self.task.max_steps
        return self.seen(), outcome.reward, outcome.terminated, over, {"is_success": outcome.success}

    def seen(self) -> dict[str, Any]:
        return dict(self.simulator.observe())


class Mirrored(OwnLoop):
    def seen(self) -> dict[str, Any]:
        seen = super().seen()
        return {**seen, IMAGE: seen[IMAGE][:, ::-1]}


class Backwards(OwnLoop):
    def act(self) -> Any:
        return -np.array(plain(self.seen()))


class Noisy(OwnLoop):
    """Nobody could say why."""

    def act(self) -> Any:
        return np.array(plain(self.seen())) + np.random.default_rng(self.steps).normal(size=2)

    def seen(self) -> dict[str, Any]:
        seen = super().seen()
        return {**seen, IMAGE: np.random.default_rng(7).integers(0, 255, (8, 6, 3), np.uint8)}


class Unlimited(OwnLoop):
    def step(self, action: Any) -> Any:
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, False, info


class Seedless(OwnLoop):
    def begin(self, task: Any, seed: int, index: int) -> dict[str, Any]:
        return super().begin(task, 0, index)


class TwoFaults(Mirrored, Backwards):
    pass


class Broken(OwnLoop):
    def act(self) -> Any:
        raise KeyError("no such camera")


class NoNumbers(OwnLoop):
    def act(self) -> Any:
        return np.array([np.nan, 1.0])


def not_a_loop(settings: Any) -> object:
    return object()
