"""A Gymnasium environment as a simulator. Imported in workers only.

An ordinary environment returns its observation from `step`, drawn or not. One that can do without drawing says so
by a method `set_look(keys)`: before every reset and step it is told which observation keys will be asked for
afterwards, and may leave out, or fill with anything, all others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.gym.lazy_render import GymCameras
from proctor.benchmarks.gym.spaces import action_form, leaves, look_up
from proctor.errors import PolicyError
from proctor.types import NO_LOOK, Episode, Look, Observation, Outcome, as_flag


class GymSimulator:
    """Runs episodes on one environment, each from its seed alone.

    Args:
        open_env: makes the environment.
        task: its name, for messages.
        success: names of the entries of `info` that report success, the first that is there.
        metrics: names of numeric entries of `info` that are stored with the episode.
        render_as: observation key under which frames of `render()` are given; empty: none.
        fresh: whether every episode gets a new environment.
        layout: names where an episode begins, of the environment, if that is known.
    """

    def __init__(
        self,
        open_env: Callable[[], Any],
        task: str,
        success: Sequence[str],
        metrics: Sequence[str] = (),
        render_as: str = "",
        fresh: bool = False,
        layout: Callable[[Any], dict[str, float]] | None = None,
    ) -> None:
        self._open, self._task, self._layout = open_env, task, layout
        self._flags, self._numbers = success, metrics
        self._render_as, self._fresh = render_as, fresh
        self._look: Look = NO_LOOK
        self._observation: Any = None
        self._step = 0
        self._episode: Episode | None = None
        self._set_env()

    def _set_env(self) -> None:
        self._env: Any = self._open()
        self._leaves = leaves(self._env.observation_space, self._task)
        self._form = action_form(self._env.action_space, self._task)
        self._cameras = GymCameras(self._env, self._render_as, self._task)

    def reset(self, episode: Episode, look: Look) -> None:
        """Start an episode. Global generators are seeded too: environments draw from them, against all advice."""
        if self._fresh and self._episode is not None:
            self._env.close()
            self._set_env()
        self._episode, self._step = episode, 0
        random.seed(episode.seed)
        np.random.seed(episode.seed % 2**32)
        self._env.action_space.seed(episode.seed)
        self._expect(look)
        self._observation, _ = self._env.reset(seed=episode.seed)
        self._cameras.aim()

    def layout(self) -> dict[str, float]:
        """Return where the episode begins, where that is known of the environment."""
        return {} if self._layout is None else self._layout(self._env)

    def step(self, action: NDArray[Any], look: Look) -> Outcome:
        """Apply one action."""
        try:
            own = self._form.action(action)
        except ValueError as error:
            index = self._episode.index if self._episode is not None else None
            where = f"(task {self._task}, episode {index}, step {self._step})"
            raise PolicyError(f"the policy returned {error} are actions here {where}") from None
        self._expect(look)
        self._observation, reward, terminated, truncated, info = self._env.step(own)
        self._step += 1
        return Outcome(
            reward=float(reward),
            terminated=as_flag("terminated", terminated),
            truncated=as_flag("truncated", truncated),
            success=self._success(info),
            metrics=self._metrics(info),
        )

    def _expect(self, look: Look) -> None:
        self._look = look
        self._cameras.expect(look)

    def _success(self, info: dict[str, Any]) -> bool | None:
        for name in self._flags:
            flag = look_up(info, name)
            if flag is not None:
                return as_flag(f"info['{name}']", flag)
        return None

    def _metrics(self, info: dict[str, Any]) -> dict[str, float]:
        found = {name: look_up(info, name) for name in self._numbers}
        return {name: float(value) for name, value in found.items() if value is not None}

    def observe(self) -> Observation:
        """Return what the look named."""
        return {
            key: self._leaves[key].read(self._observation) if key in self._leaves else self._cameras.picture(key)
            for key in self._look
        }

    def render(self) -> NDArray[np.uint8]:
        """Return a frame; one step is drawn once."""
        return self._cameras.frame()

    def close(self) -> None:
        """Close the environment."""
        self._env.close()
