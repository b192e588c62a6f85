"""What a tracker is: told where a run stands, and what it came to. Each runs in a process of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker is told first.

    Attributes:
        directory: the run directory.
        id: stays the same when a run is resumed.
        name: what people may call it.
        settings: the run's settings, plain and nested.
        planned: episodes in the plan.
        resumed: whether some of them ended before.
    """

    directory: Path
    id: str
    name: str
    settings: Mapping[str, Any]
    planned: int
    resumed: bool = False


@dataclass(frozen=True)
class RunOutcome:
    """What a run came to.

    Attributes:
        step: how many episodes have ended.
        status: "complete", "stopped" or "failed".
        values: numbers by name, overall and for each task and group.
        episodes: `per_episode` of eval_info.json.
        videos: some of its videos, failures first.
        error: what ended the run, if it failed.
    """

    step: int
    status: str
    values: Mapping[str, float]
    episodes: Sequence[Mapping[str, Any]] = ()
    videos: Sequence[Path] = ()
    error: str | None = None


class Tracker(ABC):
    """Base of every tracker. Whatever a method raises is told to the user once; the run goes on."""

    @abstractmethod
    def start(self, run: TrackedRun) -> str | None:
        """Begin, or go on with, the tracker's own record of the run; returns where users can see it."""

    @abstractmethod
    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take numbers at a moment of the run; `step` is the number of episodes that have ended."""

    @abstractmethod
    def conclude(self, outcome: RunOutcome) -> None:
        """Take the result. Nothing more comes."""


EPISODE_COLUMNS = ("task", "episode_index", "seed", "status", "success", "sum_reward", "steps", "error")
"""Of `per_episode`, what a table of episodes shows."""
