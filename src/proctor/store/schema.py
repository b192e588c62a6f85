"""What `run.sqlite` holds: its tables, their columns, and what a row of each becomes.

A field of `EpisodeRecord` is a column of the table `episodes`; whoever reads a run gets it with the record.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from proctor.types import Episode, EpisodeKey

SCHEMA_VERSION = 6

Status = Literal["finished", "error"]

PACKED = ("rewards", "trajectory")
"""Of a record, what is read on its own when it is asked for."""

SPANS = ("build", "reset", "simulate", "draw", "wait", "encode")
"""Where an episode's time goes: seconds each, summed over the episode."""


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """The result of one episode. A record exists if and only if its episode ended.

    `success`, `rewards` and `digests` depend on (task, index, seed, policy) alone. `seconds`, `attempts`,
    `timing`, `worker`, `started_at` and `video_path` tell how it was run. An `error` is the infrastructure's,
    never counted as a failure. A finished episode has a `success` if and only if its task reports success: which
    tasks do is known before the first episode, never read from outcomes.
    """

    task_group: str
    task_id: int
    task: str
    episode_index: int
    seed: int
    status: Status
    success: bool | None
    sum_reward: float | None
    max_reward: float | None
    steps: int
    metrics: dict[str, float] = field(default_factory=dict)
    layout: dict[str, float] = field(default_factory=dict)
    """Named numbers of the state that it began with, where its simulator gives them."""
    attempts: int = 1
    seconds: float = 0.0
    digest: str | None = None
    """Of physics: what the policy saw but cameras did not draw, actions, rewards, success and how it ended."""
    pixel_digest: str | None = None
    """Of what cameras drew for the policy; `None` if it looks at no camera."""
    video_path: str | None = None
    error: str | None = None
    asks: int = 0
    looks: int = 0
    timing: dict[str, float] = field(default_factory=dict)
    worker: str = ""
    """The worker that ran it, with its node or shard if there are several: `3`, `node-2/3`."""
    started_at: float = 0.0
    """Unix seconds, by the clock of the machine that ran it."""
    rewards: bytes = field(default=b"", repr=False)
    """The reward of every step, packed, on its way to the store. One that was read back has none: see
    `EpisodeTable.reward_curves`."""
    trajectory: bytes = field(default=b"", repr=False)
    """Its actions and what else it takes to play them again, packed, on its way to a table of its own: see
    `EpisodeTable.trajectory`. Empty if they are not kept."""

    @property
    def key(self) -> EpisodeKey:
        """What identifies the episode inside its run."""
        return EpisodeKey(self.task_group, self.task_id, self.episode_index)

    @property
    def digests(self) -> tuple[str | None, str | None]:
        """Both digests: equal ones mean that the episode was the same, to the bit."""
        return self.digest, self.pixel_digest

    @classmethod
    def failed(cls, episode: Episode, attempts: int, error: str) -> EpisodeRecord:
        """Return the record of an episode that could not be run, in spite of `attempts` tries."""
        return cls(
            task_group=episode.task.group,
            task_id=episode.task.task_id,
            task=episode.task.name,
            episode_index=episode.index,
            seed=episode.seed,
            status="error",
            success=None,
            sum_reward=None,
            max_reward=None,
            steps=0,
            attempts=attempts,
            error=error,
        )

    def to_wire(self) -> dict[str, Any]:
        """Return plain values that msgpack carries. (`asdict` would copy them all, for every episode.)"""
        return {name: getattr(self, name) for name in self.__slots__}

    def to_row(self) -> dict[str, Any]:
        """Return what people and JSON read: all but what is packed."""
        return {name: getattr(self, name) for name in self.__slots__ if name not in PACKED}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One failed attempt at an episode, and why it failed."""

    key: EpisodeKey
    number: int
    reason: str
    worker: int


class RunningEpisode(NamedTuple):
    """An episode that was started and has not ended, and the most steps that it was seen to make."""

    key: EpisodeKey
    steps: int


class RunSession(NamedTuple):
    """A stretch of time in which one process worked on a run."""

    started_at: float
    ended_at: float
    workers: int
    startup: float
    ending: str | None = None
    """Why it ended before the plan did; `None` if it did not."""


class Note(NamedTuple):
    """A message that the user got during the run."""

    told_at: float
    message: str


class Ledger(Protocol):
    """Where results go: the run's table, or a node's way to it."""

    def running(self) -> list[RunningEpisode]:
        """Return every episode that was started before and has not ended, with how far it had come."""

    def write(
        self,
        records: Iterable[EpisodeRecord],
        attempts: Iterable[Attempt] = (),
        running: Iterable[RunningEpisode] = (),
    ) -> None:
        """Make results durable, all of them or none. A finished episode is never overwritten.

        Args:
            records: the episodes that have ended.
            attempts: tries that came to nothing.
            running: the episodes in flight at this moment, and how far they are.
        """

    def check(self) -> None:
        """Raise `RunGoneError` if what would be kept now is lost. Cheap: it is asked every second."""


_PYTHON: Mapping[str, type[Any]] = {"INTEGER": int, "REAL": float, "TEXT": str, "BLOB": bytes}

# As SQLite gives a value back, whatever Python type it had: that is what the checksum is made of.
_STORED: Mapping[str, Callable[[Any], Any]] = {
    "INTEGER": operator.index,
    "REAL": lambda value: float(value) + 0.0,  # SQLite keeps no sign of zero
    "TEXT": str,
    "BLOB": bytes,
}


@dataclass(frozen=True)
class Table:
    """What a table holds; it gets a column for the checksum besides.

    Attributes:
        columns: SQL definitions by name, each beginning with INTEGER, REAL, TEXT or BLOB.
        key: the columns that identify a row; none if rows are only ever added.
    """

    columns: Mapping[str, str]
    key: tuple[str, ...] = ()

    def sql(self, name: str) -> str:
        """Return the statement that makes it."""
        parts = [f"{column} {definition}" for column, definition in self.columns.items()]
        parts.append("checksum INTEGER NOT NULL")
        if self.key:
            parts.append(f"PRIMARY KEY ({', '.join(self.key)})")
        return f"CREATE TABLE {name} ({', '.join(parts)})" + (" WITHOUT ROWID" if self.key else "")

    @cached_property
    def _kinds(self) -> list[tuple[str, Callable[[Any], Any]]]:
        return [(column, _STORED[definition.partition(" ")[0]]) for column, definition in self.columns.items()]

    @cached_property
    def _types(self) -> list[tuple[type[Any], ...]]:
        kinds = [
            (_PYTHON[definition.partition(" ")[0]], "NOT NULL" in definition)
            for definition in self.columns.values()
        ]
        return [(kind,) if needed else (kind, type(None)) for kind, needed in kinds]

    def fits(self, values: Sequence[Any]) -> bool:
        """Whether a row's values are of the types of their columns: SQLite itself keeps whatever comes."""
        return all(map(isinstance, values, self._types))

    def values(self, row: Mapping[str, Any]) -> list[Any]:
        """Return a row's values as SQLite will give them back, in the order of the columns."""
        # NaN is kept as NULL.
        return [
            None if (value := row[column]) is None or value != value else stored(value)
            for column, stored in self._kinds
        ]


EPISODE_KEY = {"task_group": "TEXT NOT NULL", "task_id": "INTEGER NOT NULL", "episode_index": "INTEGER NOT NULL"}

_COLUMN_OF = {
    "str": "TEXT NOT NULL",
    "str | None": "TEXT",
    "Status": "TEXT NOT NULL CHECK (status IN ('finished', 'error'))",
    "bool | None": "INTEGER",
    "int": "INTEGER NOT NULL",
    "float": "REAL NOT NULL",
    "float | None": "REAL",
    "dict[str, float]": "TEXT NOT NULL",
    "bytes": "BLOB NOT NULL",
}
"""The column of a record's field, by the field's type. A mapping is stored as JSON."""

_FIELDS = {one.name: str(one.type) for one in fields(EpisodeRecord)}
JSON_COLUMNS = tuple(name for name, kind in _FIELDS.items() if kind == "dict[str, float]")
RESULT_COLUMNS = tuple(
    name for name in _FIELDS if name not in ("asks", "looks", "timing", "worker", "started_at", *PACKED)
)
"""Of a record, what `eval_info.json` lists: all but how it was run."""

TABLES = {
    "meta": Table({"key": "TEXT NOT NULL", "value": "TEXT NOT NULL"}, key=("key",)),
    "episodes": Table(
        {
            **EPISODE_KEY,
            **{name: _COLUMN_OF[kind] for name, kind in _FIELDS.items() if name not in (*EPISODE_KEY, *PACKED)},
            "ended_at": "REAL NOT NULL",
            "rewards": _COLUMN_OF[_FIELDS["rewards"]],
            "trajectory_bytes": "INTEGER NOT NULL",  # so that a lost one is missed; 0: none was kept
        },
        key=tuple(EPISODE_KEY),
    ),
    "trajectories": Table({**EPISODE_KEY, "trajectory": "BLOB NOT NULL"}, key=tuple(EPISODE_KEY)),
    "attempts": Table(
        {
            **EPISODE_KEY,
            "number": "INTEGER NOT NULL",
            "reason": "TEXT NOT NULL",
            "worker": "INTEGER NOT NULL",
            "ended_at": "REAL NOT NULL",
        }
    ),
    "sessions": Table(
        {
            "id": "INTEGER NOT NULL",
            "started_at": "REAL NOT NULL",
            "ended_at": "REAL",
            "workers": "INTEGER NOT NULL",
            "startup": "REAL NOT NULL",
            "ending": "TEXT",
        },
        key=("id",),
    ),
    "in_flight": Table({**EPISODE_KEY, "steps": "INTEGER NOT NULL"}, key=tuple(EPISODE_KEY)),
    "notes": Table({"told_at": "REAL NOT NULL", "message": "TEXT NOT NULL"}),
}


MOST_POINTS = 256
"""Of the rewards that are kept of an episode, which take 1 KB at most. One of up to 256 steps keeps them all. A
longer one keeps the mean of every k steps, k as small as possible, so that the curve's area stays the sum."""


class RewardCurve(NamedTuple):
    """The mean reward of each stretch of `stride` steps; the last stretch may be shorter."""

    means: NDArray[np.float32]
    stride: int
    steps: int


def stride_of(steps: int) -> int:
    """Return how many steps share a point.

    >>> stride_of(256), stride_of(257), stride_of(500)
    (1, 2, 2)
    """
    return max(1, -(-steps // MOST_POINTS))


def pack_rewards(rewards: NDArray[np.float64]) -> bytes:
    """Return the rewards of all steps of an episode, packed for the store."""
    steps, stride = len(rewards), stride_of(len(rewards))
    if stride > 1:
        starts = np.arange(0, steps, stride)
        rewards = np.add.reduceat(rewards, starts) / np.minimum(stride, steps - starts)
    with np.errstate(over="ignore"):  # beyond float32 is infinity, which no figure shows
        # Not compressed: for dense rewards that gains 5 % and costs ten times as much as all the rest.
        return rewards.astype("<f4").tobytes()


def unpack_rewards(packed: bytes, steps: int) -> RewardCurve:
    """Return what `pack_rewards` has packed, of an episode of so many steps."""
    means: NDArray[np.float32] = np.frombuffer(packed, "<f4")
    return RewardCurve(means, stride_of(steps), steps)
