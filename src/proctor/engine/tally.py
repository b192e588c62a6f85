"""What a run has come to so far: counts, costs, and the rate over all that was started."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from proctor.benchmarks.protocol import Episode, EpisodeKey
from proctor.engine.events import Progress
from proctor.results import Counter
from proctor.store.records import EpisodeRecord, Running

SHORT_EPISODE = 0.5
"""Seconds below which an episode is short: the coordinator's turn-round matters, and orders are given ahead."""


class Tally:
    """Sums over a run.

    Args:
        plan: the whole plan.
        before: the episodes that ended in earlier sessions.
        cut_short: those that were running when earlier sessions ended, and how far they had come.
    """

    def __init__(
        self, plan: Sequence[Episode], before: Iterable[EpisodeRecord], cut_short: Iterable[Running] = ()
    ) -> None:
        self._total = len(plan)
        self._counter = Counter({episode.task: None for episode in plan})
        self._running = dict(cut_short)
        self._errors: dict[EpisodeKey, bool] = {}
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

    def progress(self, steps: int, busy: int, workers: int, running: Iterable[Running] = ()) -> Progress:
        """Return this moment, for whoever watches; `running` are the episodes in flight."""
        for key, age in running:
            if self._errors.get(key) is not False:  # what is told of it may be older than its end
                # One that starts again comes to where it was: what was seen of it before still holds.
                self._running[key] = max(age, self._running.get(key, 0))
        started = [Running(key, age) for key, age in self._running.items()]
        return Progress(
            ended=len(self._errors),
            total=self._total,
            errors=sum(self._errors.values()),
            rate=self._counter.rate(started) if self._counter.reports_success else None,
            running=started,
            steps=steps,
            seconds=time.monotonic() - self._began,
            busy=busy,
            workers=workers,
            episodes_here=self.finished,
        )

    def _count(self, record: EpisodeRecord) -> None:
        self._errors[record.key] = record.status == "error"
        self._running.pop(record.key, None)
        self._counter.add(record)
