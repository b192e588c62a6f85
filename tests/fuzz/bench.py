"""What fuzzed commands evaluate: a benchmark that costs milliseconds, and a policy for it that nothing upsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from proctor import Policy, PolicySpec
from proctor.benchmarks.protocol import Benchmark, Simulator
from proctor.config.settings import AtLeast, AtMost, EnvSettings
from proctor.errors import UsageError
from proctor.policies.protocol import Actions, Memory, Window
from proctor.types import NO_LOOK, BenchmarkSpec, Episode, Feature, Look, Observation, Outcome, Task

STATE, IMAGE = "observation.state", "observation.image"
REACHED = "the fuzzer's benchmark was reached"


@dataclass(frozen=True, kw_only=True)
class FuzzSettings(EnvSettings):
    """A setting of every type that there is."""

    wind: Annotated[float, AtLeast(-1), AtMost(1), "a number"] = 0.0
    kind: Literal["soft", "hard"] = "soft"
    extras: dict[str, Any] | None = None
    place: Path | None = None
    sizes: tuple[int, ...] = ()
    loud: bool = False
    most: int | None = None


class OneStep(Benchmark):
    """Episodes of one step."""

    Settings = FuzzSettings
    fps = 30
    settings: FuzzSettings

    @property
    def spec(self) -> BenchmarkSpec:
        features = {STATE: Feature((3,), "float64"), IMAGE: Feature((8, 6, 3), "uint8", drawn=True)}
        return BenchmarkSpec(name="fuzz", features=features, action_size=2)

    def tasks(self) -> Sequence[Task]:
        names = [name for name in self.settings.task.split(",") if name] or ["a"]
        return [Task(name, 0, name, f"do {name}", 1) for name in names]

    def distributions(self) -> Sequence[str]:
        return ("numpy",)

    def make_simulator(self, task: Task) -> Simulator:
        return OneStepSimulator()


class Reached(OneStep):
    """One that settings can only come as far as."""

    def tasks(self) -> Sequence[Task]:
        raise UsageError(REACHED)


class OneStepSimulator:
    def __init__(self) -> None:
        self._look: Look = NO_LOOK

    def reset(self, episode: Episode, look: Look) -> None:
        self._look, self._state = look, np.array([episode.index, 0.0, 1.0])

    def step(self, action: NDArray[Any], look: Look) -> Outcome:
        self._look = look
        return Outcome(float(np.sum(action)), True, False, bool(self._state[0] % 2), {})

    def observe(self) -> Observation:
        return {key: self.render() if key == IMAGE else self._state for key in self._look}

    def render(self) -> NDArray[np.uint8]:
        return np.full((8, 6, 3), 7, np.uint8)

    def close(self) -> None:
        pass


class Still(Policy):
    """The same action whatever it sees."""

    spec = PolicySpec(observation_keys=(STATE,), action_steps=1, fingerprint="still")

    def act(
        self, windows: Sequence[Window], memories: Sequence[Memory], generators: Sequence[np.random.Generator]
    ) -> Actions:
        return Actions([np.zeros((1, 2)) for _ in windows], memories)
