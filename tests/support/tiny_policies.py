"""Policies for the tiny benchmark: good ones that use everything the protocol offers, and bad ones."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from proctor.config.settings import PolicySettings
from proctor.policies.protocol import Actions, Memory, Policy, PolicySpec, Window
from proctor.types import BenchmarkSpec, Task


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

    def begin(self, task: Task) -> Memory:
        return [float(len(task.prompt))]

    def act(
        self, windows: Sequence[Window], memories: Sequence[Memory], generators: Sequence[np.random.Generator]
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
    """Thoughtful, and killed at its n-th call (`at`), once: whoever starts it again has a healthy one.

    `once` is a path that is no setting's value as it stands (see `aside`).
    """

    def __init__(self, at: int, once: str) -> None:
        super().__init__()
        self._at, self._once, self._calls = at, _path(once), 0

    def act(
        self, windows: Sequence[Window], memories: Sequence[Memory], generators: Sequence[np.random.Generator]
    ) -> Actions:
        self._calls += 1
        if self._calls == self._at and _first_time(self._once):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().act(windows, memories, generators)


class Forking(Thoughtful):
    """Thoughtful, and forks once; both go on, or the child exits. See `aside`."""

    def __init__(self, once: str, exits: bool = False) -> None:
        super().__init__()
        self._once, self._exits = _path(once), exits

    def act(
        self, windows: Sequence[Window], memories: Sequence[Memory], generators: Sequence[np.random.Generator]
    ) -> Actions:
        if _first_time(self._once) and os.fork() == 0 and self._exits:
            sys.exit(3)
        return super().act(windows, memories, generators)


class Rounded(Thoughtful):
    """Thoughtful, in numbers that a dataset's float32 holds exactly."""

    def act(
        self, windows: Sequence[Window], memories: Sequence[Memory], generators: Sequence[np.random.Generator]
    ) -> Actions:
        chunks, after = super().act(windows, memories, generators)
        return Actions([np.asarray(chunk, np.float32) for chunk in chunks], after)


class Renamed(Thoughtful):
    """Thoughtful, with other names for what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self._keys = ("robot/state", "robot/image")


class Gated(Policy):
    """Answers only when the file `gate` is there; `entered` tells that it was asked."""

    def __init__(self, entered: str, gate: str) -> None:
        self._entered, self._gate = Path(entered), Path(gate)

    @property
    def spec(self) -> PolicySpec:
        return PolicySpec(observation_keys=(), action_size=2)

    def act(
        self, windows: Sequence[Window], memories: Sequence[Memory], generators: Sequence[np.random.Generator]
    ) -> Actions:
        self._entered.touch()
        while not self._gate.exists():
            time.sleep(0.01)
        return Actions([np.zeros((1, 2)) for _ in windows], memories)


class Patient(Thoughtful):
    """Thoughtful, and answers only when the file `gate` is there; `asked` tells that it was asked. See `aside`."""

    def __init__(self, gate: str, asked: str = "") -> None:
        super().__init__()
        self._gate, self._asked = _path(gate), _path(asked) if asked else None

    def act(
        self, windows: Sequence[Window], memories: Sequence[Memory], generators: Sequence[np.random.Generator]
    ) -> Actions:
        if self._asked is not None:
            self._asked.touch()
        while not self._gate.exists():
            time.sleep(0.01)
        return super().act(windows, memories, generators)


class Weighted(Thoughtful):
    """Thoughtful, and needs a file; tells in another where it found it."""

    def __init__(self, weights: str, note: str) -> None:
        super().__init__()
        _path(note).write_text(f"{weights}\n{Path(weights).read_text()}")


class FromFolder(Thoughtful):
    """Thoughtful, and a kind of policy of its own: its path is a folder with weights, as a checkpoint is."""

    Settings = PolicySettings

    @classmethod
    def from_settings(cls, settings: PolicySettings, benchmark: BenchmarkSpec) -> FromFolder:
        (Path(str(settings.path)) / "weights").read_text()
        return cls()


class Constant:
    """Pushes with the same force all the time: with 3 it succeeds, with 0 only where it begins well."""

    observation_keys = ()

    def __init__(self, push: float) -> None:
        self._push = push

    def act(self, observation: dict[str, Any]) -> Any:
        return np.full((5, 2), float(self._push))


class Counting:
    """A plain policy with hidden state: it must see only its own episode's steps."""

    def __init__(self) -> None:
        self.count = 0

    def reset(self) -> None:
        self.count = 0

    def act(self, observation: dict[str, Any]) -> np.ndarray[Any, Any]:
        self.count += 1
        return np.array([np.sin(self.count), observation["observation.state"][0]])


def plain(observation: dict[str, Any]) -> list[float]:
    return [float(observation["observation.state"][0]), 0.5]


class MuteError(Exception):
    """An error that cannot be told."""

    def __str__(self) -> str:
        sys.exit(5)


class Faulty:
    """Plain, and wrong at its n-th call of a process (`at`), in the way that `how` says."""

    def __init__(self, how: str, at: int = 5, once: str = "") -> None:
        self.how, self.at, self.once, self.calls = how, at, once, 0

    def act(self, observation: dict[str, Any]) -> Any:
        self.calls += 1
        if self.calls != self.at or (self.once and not _first_time(_path(self.once))):
            return [0.3, 0.1]
        match self.how:
            case "raise":
                raise ValueError("I cannot see")
            case "nan":
                return [np.nan, 0.0]
            case "shape":
                return [0.1, 0.2, 0.3]
            case "text":
                return ["left", "right"]
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                time.sleep(3600)
            case "exit":
                sys.exit(0)
            case "interrupt":
                raise KeyboardInterrupt
            case "stop":
                raise GeneratorExit
            case "none":
                return None
            case "mute":
                raise MuteError
        raise AssertionError(self.how)


def aside(path: Path) -> str:
    """Return an argument that a policy finds a file by, and that is not taken for one: its content may change."""
    return f"aside:{path}"


def _path(argument: str) -> Path:
    return Path(argument.removeprefix("aside:"))


def _first_time(marker: Path) -> bool:
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class Mannered(Policy):
    """Looks at the picture once in five steps, and says so beforehand."""

    @property
    def spec(self) -> PolicySpec:
        return PolicySpec(observation_keys=("observation.image",), action_size=2, action_steps=5, fingerprint="m")

    def act(
        self, windows: Sequence[Window], memories: Sequence[Memory], generators: Sequence[np.random.Generator]
    ) -> Actions:
        return Actions([np.zeros((5, 2)) for _ in windows], memories)


class Slow(Thoughtful):
    """Thoughtful, and takes its time over every call, until the file `hurry` is there.

    `processes`: or until so many have answered, of which each leaves a file in the folder `hurry`. `alone` names a
    file of which there can be one: a second copy cannot be made. `port`: it listens at one.
    """

    def __init__(self, hurry: str, processes: int = 0, alone: str | None = None, port: bool = False) -> None:
        super().__init__(drawn=False)
        self._hurry, self._processes = _path(hurry), processes
        if processes:
            self._hurry.mkdir(exist_ok=True)
        if alone is not None:
            _path(alone).touch(exist_ok=False)
        self._listener = socket.create_server(("127.0.0.1", 0)) if port else None

    def act(
        self, windows: Sequence[Window], memories: Sequence[Memory], generators: Sequence[np.random.Generator]
    ) -> Actions:
        if self._processes:
            (self._hurry / str(os.getpid())).touch()
        if not self._hurry.exists() or len([*self._hurry.glob("*")]) < self._processes:
            time.sleep(0.05)
        return super().act(windows, memories, generators)


class Expectant(Thoughtful):
    """Thoughtful, and loaded only when a file is there; see `aside`."""

    def __init__(self, file: str) -> None:
        super().__init__()
        deadline = time.monotonic() + 60
        while not _path(file).exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{file} never came")
            time.sleep(0.01)
