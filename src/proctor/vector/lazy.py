"""What is known of a vector environment before anything is built."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from proctor.types import BenchmarkSpec
from proctor.vector.env import metadata_of
from proctor.vector.factory import EnvFactory
from proctor.vector.spaces import action_space, observation_space

AUTORESET = AutoresetMode.NEXT_STEP
"""Gymnasium's own, and LeRobot's for Meta-World and LIBERO: an episode's last observation and frame are seen."""


class Lazy:
    """Base of both kinds: nothing is built before the first reset, and nothing is left after a close."""

    factories: Sequence[EnvFactory]
    num_envs: int
    closed: bool
    _open = False

    def _announce(self, factories: Sequence[EnvFactory]) -> None:
        self.factories = tuple(factories)
        benchmark, spec = factories[0].load(), BenchmarkSpec.from_wire(factories[0].spec)
        self.num_envs = len(factories)
        self.metadata = {**metadata_of(benchmark), "autoreset_mode": AUTORESET}
        self.render_mode = "rgb_array"
        self.single_observation_space = observation_space(spec)
        self.observation_space = observation_space(spec, self.num_envs)
        self.single_action_space = action_space(spec)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    @contextlib.contextmanager
    def _opening(self) -> Iterator[None]:
        """Let Gymnasium's own constructor run, and keep the spaces: their owner may have seeded them."""
        names = ("single_observation_space", "observation_space", "single_action_space", "action_space")
        kept = {name: getattr(self, name) for name in names}
        self.closed = False
        yield
        vars(self).update(kept)
        self._open = True

    def _answer(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Answer for environments of which none has begun: none needs a simulator for it."""
        found = [factory().get_wrapper_attr(name) for factory in self.factories]
        return tuple(value(*args, **kwargs) if callable(value) else value for value in found)

    def _check_open(self) -> None:
        if not self._open:
            raise ResetNeeded(f"{self!r} is not open. Call reset() first.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.factories[0].task['name']}, num_envs={self.num_envs})"
