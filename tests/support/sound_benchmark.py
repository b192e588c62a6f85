"""A small benchmark that keeps its contract, for others to break in one way each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

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
)

STATE, IMAGE = "observation.state", "observation.image"


@dataclass(frozen=True, kw_only=True)
class SoundSettings(EnvSettings):
    task: str = "a"
    max_steps: int = 200


class SoundSimulator:
    """Random actions succeed after about 80 steps, by pushing forward 40 times."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.look: Look = frozenset()
        self.succeeded = self.ended = False

    def reset(self, episode: Episode, look: Look) -> None:
        self.random = np.random.default_rng([episode.seed, episode.index, len(self.task.name)])
        self.state = self.random.normal(size=3)
        self.look, self.forward, self.steps = look, 0, 0

    def step(self, action: NDArray[Any], look: Look) -> Outcome:
        self.state = 0.9 * self.state + 0.1 * np.append(action, 1.0) + 0.01 * self.random.normal(size=3)
        self.look, self.steps = look, self.steps + 1
        self.forward += int(action[0] > 0)
        success = self.forward >= 40
        self.succeeded |= success
        self.ended |= self.steps == self.task.max_steps
        return Outcome(float(self.state.sum()), success, False, success, {"forward": float(self.forward)})

    def observe(self) -> Observation:
        return {key: self.draw() if key == IMAGE else self.state.copy() for key in self.look}

    def render(self) -> NDArray[np.uint8]:
        return self.draw()

    def draw(self) -> NDArray[np.uint8]:
        ramp = np.arange(8 * 6 * 3, dtype=np.float64).reshape(8, 6, 3)
        image: NDArray[np.uint8] = ((np.sin(ramp * self.state.sum()) + 1) * 127).astype(np.uint8)
        return image

    def close(self) -> None:
        pass


class Sound(Benchmark):
    """Broken nowhere."""

    Settings = SoundSettings
    simulator: type[Any] = SoundSimulator
    settings: SoundSettings

    @property
    def spec(self) -> BenchmarkSpec:
        features = {STATE: Feature((3,), "float64"), IMAGE: Feature((8, 6, 3), "uint8", drawn=True)}
        return BenchmarkSpec(name="sound", features=features, action_size=2)

    def tasks(self) -> Sequence[Task]:
        names = self.settings.task.split(",")
        return [Task(name, 0, name, f"do {name}", self.settings.max_steps) for name in names]

    def make_simulator(self, task: Task) -> Simulator:
        simulator: Simulator = self.simulator(task)
        return simulator


class Clipping(Sound):
    """Sound, and takes any action for one within its bounds."""

    class simulator(SoundSimulator):
        def step(self, action: NDArray[Any], look: Look) -> Outcome:
            return super().step(np.clip(action, -1.0, 1.0), look)

    @property
    def spec(self) -> BenchmarkSpec:
        return replace(super().spec, clips_actions=True)


class Reticent(Sound):
    """Sound, too, though it tells no success, has no prompt and cannot be filmed."""

    no_frames = "there is no camera"

    class simulator(SoundSimulator):
        def step(self, action: NDArray[Any], look: Look) -> Outcome:
            untold: Any = None
            return super().step(action, look)._replace(success=untold)

        def render(self) -> NDArray[np.uint8]:
            raise RuntimeError("there is no camera")

    def tasks(self) -> Sequence[Task]:
        return [replace(task, prompt="", reports_success=False) for task in super().tasks()]


class Speechless(Sound):
    """Broken so that nothing can be asked of it."""

    def tasks(self) -> Sequence[Task]:
        raise ValueError("no\ntasks")
