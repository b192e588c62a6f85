"""The policies and the tracker of the reference runs. They import nothing but public names."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from proctor import Actions, Policy, PolicySpec, Task, Tracker


class Thoughtful(Policy):
    """Uses windows, memory, randomness, prompts and chunks of changing length: all show in its actions."""

    def __init__(self, batch: int = 1, drawn: bool = True, lanes: int = 1) -> None:
        self._batch, self._lanes = batch, lanes
        self._keys = ("observation.state", "observation.image") if drawn else ("observation.state",)

    @property
    def spec(self) -> PolicySpec:
        return PolicySpec(
            observation_keys=self._keys,
            action_size=2,
            observation_offsets=(-2, -1, 0),
            stochastic=True,
            batch=self._batch,
            lanes=self._lanes,
            fingerprint="thoughtful",
        )

    def begin(self, task: Task) -> Any:
        return [float(len(task.prompt))]

    def act(
        self, windows: Sequence[Any], memories: Sequence[Any], generators: Sequence[np.random.Generator]
    ) -> Actions:
        chunks, after = [], []
        for window, memory, generator in zip(windows, memories, generators, strict=True):
            assert len(window) == 3
            seen = sum(float(np.asarray(shown[key], np.float64).mean()) for shown in window for key in self._keys)
            length = int(generator.integers(1, 5))
            base = np.tanh(seen / 100 + memory[-1] / 50 + len(window[-1]["task"]))
            chunks.append(base + generator.normal(scale=0.5, size=(length, 2)))
            after.append([*memory[-3:], seen])
        return Actions(chunks, after)


class Mortal(Thoughtful):
    """Thoughtful, and killed at its n-th call, once: whoever starts it again has a healthy one."""

    def __init__(self, at: int, once: str) -> None:
        super().__init__()
        self._at, self._once, self._calls = at, once.removeprefix("aside:"), 0

    def act(
        self, windows: Sequence[Any], memories: Sequence[Any], generators: Sequence[np.random.Generator]
    ) -> Actions:
        self._calls += 1
        if self._calls == self._at and not Path(self._once).exists():
            Path(self._once).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().act(windows, memories, generators)


class Doomed(Thoughtful):
    """Thoughtful, and killed at its third call, always."""

    calls = 0

    def act(
        self, windows: Sequence[Any], memories: Sequence[Any], generators: Sequence[np.random.Generator]
    ) -> Actions:
        self.calls += 1
        if self.calls == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().act(windows, memories, generators)


class Constant:
    """Pushes with the same force all the time: with 3 it succeeds, with 0 only where it begins well."""

    observation_keys = ()

    def __init__(self, push: float) -> None:
        self._push = push

    def act(self, observation: dict[str, Any]) -> Any:
        return np.full((5, 2), float(self._push))


class Counting:
    """Has state of its own: it must see only its own episode's steps."""

    def __init__(self) -> None:
        self.count = 0

    def reset(self) -> None:
        self.count = 0

    def act(self, observation: dict[str, Any]) -> np.ndarray[Any, Any]:
        self.count += 1
        return np.array([np.sin(self.count), observation["observation.state"][0]])


def plain(observation: dict[str, Any]) -> list[float]:
    return [float(observation["observation.state"][0]), 0.5]


class Faulty:
    """Plain, and wrong at its fifth call of a process, in the way that `how` says."""

    def __init__(self, how: str) -> None:
        self.how, self.calls = how, 0

    def act(self, observation: dict[str, Any]) -> Any:
        self.calls += 1
        if self.calls != 5:
            return [0.3, 0.1]
        match self.how:
            case "raise":
                raise ValueError("I cannot see")
            case "nan":
                return [np.nan, 0.0]
            case "shape":
                return [0.1, 0.2, 0.3]
        raise AssertionError(self.how)


class Follows:
    """Acts on the sum, which only the benchmark's own processor gives."""

    observation_keys = ("observation.sum", "observation.image")

    def act(self, observation: dict[str, Any]) -> Any:
        return np.array([observation["observation.sum"][0] + observation["observation.image"][0, 0, 0] / 255])


class WithoutAny:
    """Wants the simulator as it is, without processors."""

    observation_keys = ("observation.state",)
    env_processors: tuple[Any, ...] = ()

    def act(self, observation: dict[str, Any]) -> Any:
        return np.asarray(observation["observation.state"][:2])


class Renamed(Thoughtful):
    """Thoughtful, with other names for what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self._keys = ("robot/state", "robot/image")


class Walker:
    """Looks at everything there is, and answers with a chunk that depends on all of it."""

    fingerprint = "walker"

    def act(self, observation: dict[str, Any]) -> Any:
        seen = sum(float(np.asarray(v, np.float64).mean()) for k, v in sorted(observation.items()) if k != "task")
        side = np.tanh(seen / 50) + np.zeros(4)
        return np.stack([side, 1 + side], axis=1)


class Balancer:
    """Returns a bare index, as `action_space.sample()` does."""

    fingerprint = "balancer"

    def act(self, observation: dict[str, Any]) -> int:
        return int(observation["observation.state"][2] > 0)


class Pixels:
    """For Meta-World: pushes as the picture's brightness says."""

    observation_keys = ("observation.image",)

    def act(self, observation: dict[str, Any]) -> Any:
        bright = np.asarray(observation["observation.image"], np.float64).mean(axis=(0, 1)) / 255
        return np.tile(np.r_[bright - 0.5, 0.1], (10, 1))


class Notebook(Tracker):
    """Writes all it is told into the run directory, a line of JSON each."""

    def start(self, run: Any) -> str | None:
        self._file = run.directory / "told.jsonl"
        self._note(kind="start")
        return "see told.jsonl"

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._note(kind="log", names=sorted(values))

    def conclude(self, outcome: Any) -> None:
        self._note(kind="conclude")

    def _note(self, **what: Any) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps(what, default=str) + "\n")
