"""What a run has come to so far: counts, costs, and the fair rate."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from proctor.benchmarks.protocol import Episode, EpisodeKey
from proctor.engine.events import Progress
from proctor.engine.queue import Prefix
from proctor.stats.intervals import wilson
from proctor.store.records import EpisodeRecord

SHORT_EPISODE = 0.5
"""Seconds below which an episode is short: the coordinator's turn-round matters, and orders are given ahead."""


class Tally:
    """Sums over a run; `before` are the episodes that ended in earlier sessions."""

    def __init__(self, plan: Sequence[Episode], before: Iterable[EpisodeRecord]) -> None:
        self._total = len(plan)
        self._prefix = Prefix(plan)
        self._errors: dict[EpisodeKey, bool] = {}
        self._tells_success = False
        self._began = time.monotonic()
        self._episode_seconds = 0.0
        self.finished = 0
        self.build_seconds = 0.0
        for record in before:
            self._count(record)

    def add(self, record: EpisodeRecord) -> None:
        """Note an episode that ended in this session and is durable."""
        self._count(record)
        if record.status == "finished":
            self.finished += 1
            self._episode_seconds += record.seconds - record.timing.get("build", 0.0)

    def add_build(self, seconds: float) -> None:
        """Note what building a simulator took; a worker's first pays for imports, the least is a switch's cost."""
        if seconds:
            self.build_seconds = min(self.build_seconds or seconds, seconds)

    def mean_episode(self) -> float:
        """Seconds of an episode so far; not short, as long as nothing is known."""
        return self._episode_seconds / self.finished if self.finished else SHORT_EPISODE

    def progress(self, steps: int, busy: int, workers: int) -> Progress:
        """Return this moment, for whoever watches."""
        return Progress(
            ended=len(self._errors),
            total=self._total,
            errors=sum(self._errors.values()),
            prefix=wilson(self._prefix.successes, self._prefix.finished) if self._tells_success else wilson(0, 0),
            steps=steps,
            seconds=time.monotonic() - self._began,
            busy=busy,
            workers=workers,
            episodes_here=self.finished,
        )

    def _count(self, record: EpisodeRecord) -> None:
        self._errors[record.key] = record.status == "error"
        self._tells_success |= record.success is not None
        # Who has not heard of success counts as a failure, as soon as others have.
        self._prefix.add(record.key, None if record.status == "error" else bool(record.success))
