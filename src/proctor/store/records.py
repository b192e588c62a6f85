"""What is known of an episode that has ended, and of each attempt at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from proctor.types import Episode, EpisodeKey

Status = Literal["finished", "error"]

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
        """Return what people and JSON read: all but the packed rewards."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "rewards"}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at an episode that did not end it, and why."""

    key: EpisodeKey
    number: int
    reason: str
    worker: int


class Running(NamedTuple):
    """An episode that was started and has not ended, and the most steps that it was seen to make."""

    key: EpisodeKey
    steps: int
