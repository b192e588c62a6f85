"""What a run tells whoever watches it. The engine knows no display; a display knows no engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from proctor.plan import Plan
from proctor.stats.intervals import Rate
from proctor.store.outcomes import Outcomes
from proctor.store.schema import EpisodeRecord, RunningEpisode
from proctor.types import Episode


@dataclass(frozen=True)
class RunOutline:
    """Known before anything is loaded."""

    plan: Plan
    """The whole plan."""
    policy: str
    benchmark: str
    directory: Path
    demonstrations: int = 0
    """How many successes of every task end the run; 0: it runs its whole plan."""


class Stage(NamedTuple):
    """What is done before the first episode, or after the last, and how far that is."""

    name: str
    detail: str = ""


@dataclass(frozen=True)
class RunStart:
    """Known before the first episode."""

    outline: RunOutline
    before: Outcomes
    """What of the plan had ended already."""
    workers: int
    placement: str
    nodes: int = 0
    undecided: bool = False
    """Whether the policy may go elsewhere, by what its first calls take."""


@dataclass(frozen=True)
class Progress:
    """A moment of a run."""

    ended: int
    total: int
    errors: int
    rate: Rate | None
    """Over all that was started; `None` where no task reports success."""
    running: Sequence[RunningEpisode]
    steps: int
    seconds: float
    busy: int
    workers: int
    episodes_here: int
    ready: int | None = None
    """Workers that have built their simulator; `None` where that is not known."""


class Watcher:
    """Base of everything that watches a run; each method may be left out."""

    def planned(self, outline: RunOutline) -> None:
        """The plan is fixed; nothing has been loaded yet."""

    def doing(self, stage: Stage) -> None:
        """What is done until the first episode; told again when it changes, and as often as one likes."""

    def started(self, start: RunStart) -> None:
        """All is loaded, and workers are about to start."""

    def begun(self, episode: Episode) -> None:
        """An episode was given to a worker."""

    def episode(self, record: EpisodeRecord) -> None:
        """An episode ended and is durable."""

    def progress(self, progress: Progress) -> None:
        """Called a few times a second."""

    def note(self, message: str) -> None:
        """Something the user should read: a retry, a restart, a stop."""

    def ended(self) -> None:
        """Nothing more will come."""


class Audience(Watcher):
    """Several watchers where one is wanted."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = watchers

    def planned(self, outline: RunOutline) -> None:
        """Pass it on."""
        for watcher in self._watchers:
            watcher.planned(outline)

    def doing(self, stage: Stage) -> None:
        """Pass it on."""
        for watcher in self._watchers:
            watcher.doing(stage)

    def started(self, start: RunStart) -> None:
        """Pass it on."""
        for watcher in self._watchers:
            watcher.started(start)

    def begun(self, episode: Episode) -> None:
        """Pass it on."""
        for watcher in self._watchers:
            watcher.begun(episode)

    def episode(self, record: EpisodeRecord) -> None:
        """Pass it on."""
        for watcher in self._watchers:
            watcher.episode(record)

    def progress(self, progress: Progress) -> None:
        """Pass it on."""
        for watcher in self._watchers:
            watcher.progress(progress)

    def note(self, message: str) -> None:
        """Pass it on."""
        for watcher in self._watchers:
            watcher.note(message)

    def ended(self) -> None:
        """Pass it on."""
        for watcher in self._watchers:
            watcher.ended()
