"""A benchmark for Proctor, to begin with: a dot on a plane that is pushed to a goal. Replace world and drawing.

More: docs/add-a-benchmark.md (the contract, packages, cameras that draw on a look, downloads).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from proctor import (
    Benchmark,
    BenchmarkSpec,
    EnvSettings,
    Episode,
    Feature,
    Look,
    Observation,
    Outcome,
    Simulator,
    Task,
    UsageError,
)

STATE, IMAGE = "observation.state", "observation.image"
SIDE = 64
TASKS = {"near": 0.3, "far": 0.8}
"""Each task, and how far away its goal is."""


@dataclass(frozen=True, kw_only=True)
class MySettings(EnvSettings):
    """Flags of its own: --env.wind=0.5. They are checked, are in --help, and belong to a run's identity."""

    wind: Annotated[float, "strength of the gusts that push the dot"] = 0.1


class MyBenchmark(Benchmark):
    """Says which tasks there are. Made in the main process too: import a heavy simulator in `make_simulator`."""

    Settings = MySettings

    @property
    def spec(self) -> BenchmarkSpec:
        """What a policy sees and does. `drawn`: it costs a picture, which is made only when somebody looks."""
        features = {STATE: Feature((4,), "float64"), IMAGE: Feature((SIDE, SIDE, 3), "uint8", drawn=True)}
        return BenchmarkSpec(name="my_benchmark", features=features, action_size=2, clips_actions=True)

    def tasks(self) -> Sequence[Task]:
        """Return the tasks that --env.task names; all of them where it names none."""
        names = [name.strip() for name in self.settings.task.split(",") if name.strip()] or list(TASKS)
        for name in names:
            if name not in TASKS:
                raise UsageError(f"--env.task={name}: unknown. There are {', '.join(TASKS)}.")
        numbers = {name: number for number, name in enumerate(TASKS)}
        return [Task("my_benchmark", numbers[name], name, f"go to the {name} goal", 100) for name in names]

    def make_simulator(self, task: Task) -> Simulator:
        """Build the simulator of a task, in the worker that will use it for many episodes."""
        return MySimulator(TASKS[task.name], self.settings.wind)


class MySimulator:
    """One task, episode after episode."""

    def __init__(self, distance: float, wind: float) -> None:
        self.distance, self.wind = distance, wind

    def reset(self, episode: Episode, look: Look) -> None:
        """Begin an episode: from its seed and index alone, whatever ran before."""
        self.random = np.random.default_rng([episode.seed, episode.index])
        angle = self.random.uniform(0, 2 * np.pi)
        self.place = np.zeros(2)
        self.goal = self.distance * np.array([np.cos(angle), np.sin(angle)])
        self.look = look

    def step(self, action: NDArray[Any], look: Look) -> Outcome:
        """Take one action. `look` names what will be observed after it, usually nothing: draw only then."""
        gust = self.wind * self.random.normal(size=2)
        self.place = np.clip(self.place + 0.1 * (np.clip(action, -1, 1) + gust), -1, 1)
        self.look = look
        left = float(np.linalg.norm(self.goal - self.place))
        reached = left < 0.05
        # Success ends an episode only if `terminated` says so. `metrics` are stored with it.
        return Outcome(
            reward=-left, terminated=reached, truncated=False, success=reached, metrics={"distance": left}
        )

    def observe(self) -> Observation:
        """Return what the last look named, in arrays that are never written to again."""
        makers = {STATE: lambda: np.concatenate([self.place, self.goal]), IMAGE: self.render}
        return {key: makers[key]() for key in self.look}

    def render(self) -> NDArray[np.uint8]:
        """Return a frame for videos; it changes nothing."""
        picture = np.full((SIDE, SIDE, 3), 240, np.uint8)
        for (x, y), colour in ((self.goal, (40, 160, 60)), (self.place, (200, 60, 40))):
            column, row = (round((1 + part) / 2 * (SIDE - 1)) for part in (x, -y))
            picture[max(0, row - 2) : row + 3, max(0, column - 2) : column + 3] = colour
        return picture

    def close(self) -> None:
        """Free everything; another simulator may be built afterwards."""


def scripted(observation: dict[str, Any]) -> NDArray[np.float64]:
    """Go straight to the goal: a policy that can do the tasks shows that they can be done."""
    place, goal = np.split(observation[STATE], 2)
    return np.asarray(np.clip(10 * (goal - place), -1, 1))
