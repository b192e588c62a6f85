"""What a run has come to so far: counts, costs, and the rate over all that was started."""

from __future__ import annotations

from collections.abc import Iterable

from proctor.events import Progress
from proctor.results import Results, reporting, started_rate
from proctor.stats.intervals import Rate
from proctor.store.outcomes import ERROR, SUCCESS, Outcomes, state_of
from proctor.store.schema import EpisodeRecord, RunningEpisode

SHORT_EPISODE = 0.5
"""Seconds below which an episode is short: the coordinator's turn-round matters, and orders are given ahead."""


class Tally:
    """Sums over a run.

    Args:
        before: the episodes that ended in earlier sessions, of the whole plan.
        cut_short: those that were running when earlier sessions ended, and how far they had come.
    """

    def __init__(self, before: Outcomes, cut_short: Iterable[RunningEpisode] = ()) -> None:
        self._plan = before.plan
        self._reporting = reporting(self._plan.tasks)
        self._states = bytearray(before["state"].tobytes())
        self._ended, self._errors = before.ended, before.errors
        self._endings = Results(before).endings(self._reporting)
        self._running = {key: steps for key, steps in cut_short if not before.state(key)}
        self._episode_seconds = 0.0
        self.finished = 0
        self.build_seconds = 0.0

    def knows(self, record: EpisodeRecord) -> bool:
        """Whether it has been told of this ending before, or of a better one."""
        place = self._plan.place_of(record.key)
        return place is not None and self._states[place] > (0 if record.status == "error" else ERROR)

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

    def progress(
        self, steps: int, busy: int, workers: int, running: Iterable[RunningEpisode] = (), seconds: float = 0.0
    ) -> Progress:
        """Return this moment, so many seconds after the start; `running` are the episodes in flight."""
        for key, age in running:
            place = self._plan.place_of(key)
            if place is None or self._states[place] <= ERROR:  # what is told of it may be older than its end
                # One that starts again comes to where it was: what was seen of it before still holds.
                self._running[key] = max(age, self._running.get(key, 0))
        started = [RunningEpisode(key, age) for key, age in self._running.items()]
        return Progress(
            ended=self._ended,
            total=len(self._plan),
            errors=self._errors,
            rate=self._rate(started) if self._reporting else None,
            running=started,
            steps=steps,
            seconds=seconds,
            busy=busy,
            workers=workers,
            episodes_here=self.finished,
        )

    def _rate(self, started: Iterable[RunningEpisode]) -> Rate:
        return started_rate(self._endings, [one.steps for one in started if one.key[:2] in self._reporting])

    def _count(self, record: EpisodeRecord) -> None:
        key = record.key
        self._running.pop(key, None)
        place = self._plan.place_of(key)
        if place is None or self._states[place] > ERROR:
            return
        state = state_of(record.status, record.success)
        self._ended += self._states[place] == 0
        self._errors += (state == ERROR) - (self._states[place] == ERROR)
        self._states[place] = state
        if state != ERROR and key[:2] in self._reporting:
            self._endings.add(record.steps, state == SUCCESS)
