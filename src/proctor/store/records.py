"""What is known of an episode that has ended, and of each attempt at it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from proctor.benchmarks.protocol import Episode, EpisodeKey
from proctor.stats.intervals import Rate, wilson

Status = Literal["finished", "error"]

MOST_EPISODES = 1_000_000
"""Of one run: more would not fit into memory, and no benchmark has them."""

SPANS = ("build", "reset", "simulate", "draw", "wait", "encode")
"""Where an episode's time goes: seconds each, summed over the episode."""


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """The result of one episode. A record exists if and only if its episode ended.

    `success`, `rewards` and `digest` depend on (task, index, seed, policy) alone. `seconds`, `attempts`, `timing`,
    `worker`, `started_at` and `video_path` tell how it was run. An `error` is the infrastructure's, never counted
    as a failure. A finished episode whose `success` is `None` never heard of success from its simulator.
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
    attempts: int = 1
    seconds: float = 0.0
    digest: str | None = None
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

    @property
    def key(self) -> EpisodeKey:
        """What identifies the episode inside its run."""
        return EpisodeKey(self.task_group, self.task_id, self.episode_index)

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
        """Return what people and JSON read: all but the packed rewards."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "rewards"}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at an episode that did not end it, and why."""

    key: EpisodeKey
    number: int
    reason: str
    worker: int


def success_rate(records: Iterable[EpisodeRecord]) -> Rate:
    """Return the rate over finished episodes; errors, and tasks that tell no success, are outside it."""
    everything = list(records)
    silent = silent_tasks(everything)
    counted = [r for r in everything if r.status == "finished" and r.key[:2] not in silent]
    return wilson(sum(bool(record.success) for record in counted), len(counted))


def rate_if_errors_failed(records: Iterable[EpisodeRecord]) -> Rate:
    """Return the rate that would hold if every error had been a failure: the pessimist's bound."""
    everything = list(records)
    silent = silent_tasks(everything)
    counted = [r for r in everything if r.key[:2] not in silent]
    return wilson(sum(bool(record.success) for record in counted), len(counted))


class Told(Protocol):
    """What must be known of an episode to say whether its task tells success."""

    @property
    def key(self) -> EpisodeKey:
        """Which it was."""

    @property
    def status(self) -> str:
        """Finished, or error."""

    @property
    def success(self) -> bool | None:
        """Whether it succeeded, if that is told."""


def silent_tasks(records: Iterable[Told]) -> set[tuple[str, int]]:
    """Return the tasks that tell no success: they have rewards, and no rate.

    One whose simulator speaks of success only when it happens is not among them once it has happened: its other
    episodes count as failures, as they must.
    """
    told: dict[tuple[str, int], bool] = {}
    for record in records:
        if record.status == "finished":
            key = record.key[:2]
            told[key] = told.get(key, False) or record.success is not None
    return {key for key, tells in told.items() if not tells}
