"""A benchmark whose successes are quick and whose failures are slow, in real time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor import Benchmark, BenchmarkSpec, Episode, Feature, Look, Observation, Outcome, Task

STATE = "observation.state"
QUICK, SLOW = 4, 40
SECONDS = 0.02


def succeeds(seed: int) -> bool:
    """Whether the episode with this seed is a success, whatever the policy does."""
    return bool(np.random.default_rng(seed).uniform() < 0.45)


class QuickAndSlow(Benchmark):
    @property
    def spec(self) -> BenchmarkSpec:
        return BenchmarkSpec("quick and slow", {STATE: Feature((1,), "float64")}, action_size=1)

    def tasks(self) -> Sequence[Task]:
        return [Task("only", 0, "only", "", SLOW)]

    def make_simulator(self, task: Task) -> World:
        return World()


class World:
    def reset(self, episode: Episode, look: Look) -> None:
        self._step, self._success = 0, succeeds(episode.seed)

    def step(self, action: NDArray[Any], look: Look) -> Outcome:
        time.sleep(SECONDS)
        self._step += 1
        done = self._success and self._step == QUICK
        return Outcome(0.0, done, False, done)

    def observe(self) -> Observation:
        return {STATE: np.zeros(1)}

    def render(self) -> NDArray[np.uint8]:
        return np.zeros((8, 8, 3), np.uint8)

    def close(self) -> None:
        pass
