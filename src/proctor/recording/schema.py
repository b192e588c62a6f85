"""What is recorded of a step, under which name and type.

Names are the benchmark's own, whatever `--rename_map` calls them for a policy. Floats are kept as float32, as
LeRobot's own recordings are: its training takes nothing wider.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.config.plain_values import from_plain
from proctor.files import clip
from proctor.types import BenchmarkSpec

ACTION, REWARD, SUCCESS, DONE = "action", "next.reward", "next.success", "next.done"

WANTED = "policy_action"
"""What the policy wanted, where the simulator clips it. What begins with `action` is what LeRobot trains on."""

EXECUTED = "executed_action"
"""What the simulator was given, where noise was added to it."""


@dataclass(frozen=True)
class Column:
    """One feature of the dataset; `video` if it is stored as one."""

    dtype: str
    shape: tuple[int, ...]
    video: bool = False

    def stack(self, values: list[NDArray[Any]]) -> NDArray[Any]:
        """Return one array of all steps."""
        return np.asarray(values, self.dtype).reshape(len(values), *self.shape)


@dataclass(frozen=True)
class DatasetSchema:
    """What must be the same for all episodes of a dataset."""

    benchmark: str
    fps: int
    columns: dict[str, Column]

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> DatasetSchema:
        """Rebuild it from plain values, which somebody else may have written."""
        for name in wire["columns"]:  # each is a file's and a folder's name too
            if not name or name.startswith(".") or "/" in name or "\0" in name:
                raise ValueError(f"a feature called {clip(name, 60)!r}")
        return cls(wire["benchmark"], wire["fps"], from_plain(dict[str, Column], wire["columns"]))

    @property
    def videos(self) -> list[str]:
        """The columns that are stored as videos."""
        return [name for name, column in self.columns.items() if column.video]

    @property
    def values(self) -> dict[str, Column]:
        """The columns that are stored as numbers."""
        return {name: column for name, column in self.columns.items() if not column.video}


def numbered_file(chunk: int, file: int, ending: str) -> str:
    """Return where LeRobot looks for a file of a dataset, below the folder of its kind."""
    return f"chunk-{chunk:03d}/file-{file:03d}.{ending}"


def observed_columns(spec: BenchmarkSpec) -> dict[str, Column]:
    """Return a column for every observation key that the settings offer, by the simulator's own key."""
    return {spec.sources.get(key, key): _column(f.shape, f.dtype) for key, f in spec.features.items()}


def step_columns(spec: BenchmarkSpec, noisy: bool = False) -> dict[str, Column]:
    """Return the columns of what was done in a step, with noise or without, and what came of it."""
    action = Column("float32", (spec.action_size,))
    return {
        ACTION: action,
        **({WANTED: action} if spec.clips_actions else {}),
        **({EXECUTED: action} if noisy else {}),
        REWARD: Column("float32", (1,)),
        SUCCESS: Column("bool", (1,)),
        DONE: Column("bool", (1,)),
    }


def dataset_name(key: str) -> str:
    """Return a key as LeRobot takes it: without slashes.

    >>> dataset_name("robot/state")
    'robot.state'
    """
    return key.replace("/", ".")


def _column(shape: tuple[int, ...], dtype: str) -> Column:
    if dtype == "uint8" and len(shape) == 3 and shape[2] == 3:
        return Column("uint8", shape, video=True)
    kind = np.dtype(dtype)
    return Column("float32" if kind.kind == "f" else kind.name, shape or (1,))
