"""What a command spent its time on, from its first moment to its last line."""

from __future__ import annotations

import time
from collections.abc import Sequence

from proctor.events import Progress, RunOutline, RunStart, Stage, Watcher
from proctor.machine.processes import process_age
from proctor.report.console import duration
from proctor.store.schema import EpisodeRecord

STARTING, BUILDING, EPISODES = "starting", "building simulators", "episodes"
_LEAST_SHARE, _LEAST_SECONDS = 0.02, 0.5


class CommandClock(Watcher):
    """Watches a run and notes when the command came to what. It began when its process did."""

    def __init__(self) -> None:
        self._spans: dict[str, float] = {}
        self._at, self._since = STARTING, time.monotonic() - process_age()

    def enter(self, name: str) -> None:
        """Begin something else."""
        if name != self._at:
            moment = time.monotonic()
            self._spans[self._at] = self._spans.get(self._at, 0.0) + moment - self._since
            self._at, self._since = name, moment

    def planned(self, outline: RunOutline) -> None:
        """What comes next has a name, or is part of the start."""

    def doing(self, stage: Stage) -> None:
        """Note what is waited for."""
        self.enter(stage.name)

    def started(self, start: RunStart) -> None:
        """Until something has moved, simulators are built."""
        self.enter(BUILDING)

    def progress(self, progress: Progress) -> None:
        """See whether something has moved."""
        if progress.steps and self._at == BUILDING:
            self.enter(EPISODES)

    def episode(self, record: EpisodeRecord) -> None:
        """One has ended already."""
        if self._at == BUILDING:
            self.enter(EPISODES)

    def spans(self) -> Sequence[tuple[str, float]]:
        """Return what took how many seconds so far, in the order in which it began."""
        spans = {**self._spans, self._at: self._spans.get(self._at, 0.0) + time.monotonic() - self._since}
        return list(spans.items())

    def words(self) -> str:
        """Account for the whole command in one line."""
        spans = self.spans()
        total = sum(seconds for _, seconds in spans)
        least = max(_LEAST_SECONDS, _LEAST_SHARE * total)
        parts = [f"{name} {duration(seconds)}" for name, seconds in spans if seconds >= least]
        rest = sum(seconds for _, seconds in spans if seconds < least)
        if rest >= least:
            parts.append(f"the rest {duration(rest)}")
        return f"{duration(total)} in all" + (f": {', '.join(parts)}." if parts else ".")
