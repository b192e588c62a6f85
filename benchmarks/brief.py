"""Episodes of a single step on several tasks: whatever grows with them is the engine's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.protocol import Benchmark, Simulator
from proctor.config.settings import EnvSettings
from proctor.types import BenchmarkSpec, Episode, Feature, Look, Observation, Outcome, Task

KEY = "observation.state"


@dataclass(frozen=True, kw_only=True)
class BriefSettings(EnvSettings):
    n_tasks: int = 10


class Brief(Benchmark):
    Settings = BriefSettings
    settings: BriefSettings

    @property
    def spec(self) -> BenchmarkSpec:
        return BenchmarkSpec("brief", {KEY: Feature((1,), "float32")}, action_size=1)

    def tasks(self) -> Sequence[Task]:
        return [Task("brief", number, f"brief-{number}", "", 1) for number in range(self.settings.n_tasks)]

    def make_simulator(self, task: Task) -> Simulator:
        return BriefSimulator()


class BriefSimulator:
    """Succeeds on seven seeds of ten, whatever the policy does."""

    def __init__(self) -> None:
        self._seed = 0

    def reset(self, episode: Episode, look: Look) -> None:
        self._seed = episode.seed

    def step(self, action: NDArray[Any], look: Look) -> Outcome:
        return Outcome(self._seed / 7, True, False, self._seed % 10 < 7)

    def observe(self) -> Observation:
        return {KEY: np.array([self._seed], np.float32)}

    def render(self) -> NDArray[np.uint8]:
        return np.zeros((8, 8, 3), np.uint8)

    def close(self) -> None:
        pass


def rest(observation: Observation) -> NDArray[np.float32]:
    """The policy: do nothing."""
    return np.zeros(1, np.float32)
