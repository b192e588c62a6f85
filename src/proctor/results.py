"""What the episodes of a run came to: the one aggregation, which everything that shows a result asks.

Rates, intervals, steps and rewards of a run, its groups and its tasks, from records alone. Terminal, report,
viewer, `eval_info.json`, trackers and Python show the same numbers because they are these.

Two decisions are made here and nowhere else. *What counts:* every finished episode of a task that reports success
(`Task.reports_success`, known before the first episode); errors are outside. *What is shown while episodes run:*
the estimate over all started ones (`proctor.stats.unfinished`), once enough has ended.
"""

from __future__ import annotations

import statistics
from bisect import insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from proctor.benchmarks.protocol import EpisodeKey, Task
from proctor.stats.intervals import Rate, score_interval, wilson
from proctor.stats.unfinished import Endings, redistribute
from proctor.store.records import EpisodeRecord, Running

TaskKey = tuple[str, int]

MOST_RUNNING = 1 / 3
MOST_UNKNOWN = 0.05
"""A rate is shown when at most so many episodes run for each that has ended, and when at most this share of the
weight of all started ones is undetermined. With these the value is off by less than a point on average, for rates
from 0.05 to 0.95, 1 to 64 workers and 1 to 50 tasks (`benchmarks/incomplete_runs.py`)."""


class EndedEpisode(Protocol):
    """What must be known of an episode that has ended to count it."""

    @property
    def key(self) -> EpisodeKey:
        """Which it was."""

    @property
    def status(self) -> str:
        """Finished, or error."""

    @property
    def success(self) -> bool | None:
        """Whether it succeeded."""

    @property
    def steps(self) -> int:
        """How many steps it took."""


Ended = TypeVar("Ended", bound=EndedEpisode)


def task_key(task: Task) -> TaskKey:
    """Return what identifies a task inside its run."""
    return (task.group, task.task_id)


def reporting(tasks: Iterable[Task]) -> set[TaskKey]:
    """Return the tasks whose success counts. All others have rewards, and no rate."""
    return {task_key(task) for task in tasks if task.reports_success}


def plain_rate(records: Iterable[EndedEpisode]) -> Rate:
    """Return the rate over finished episodes of tasks that report success, where none is running."""
    finished = [record for record in records if record.status == "finished"]
    return wilson(sum(bool(record.success) for record in finished), len(finished))


def started_rate(endings: Endings, ages: Sequence[int], elsewhere: Endings | None = None) -> Rate:
    """Return the rate over all episodes that were started; without running ones it is k / n.

    Args:
        endings: those that have ended.
        ages: the steps that each running one has made.
        elsewhere: the endings of the whole run, where `endings` are those of a part of it.
    """
    successes, ended = len(endings.successes), len(endings.all)
    if not ages:
        return wilson(successes, ended)
    if not ended:
        return Rate(0, 0, 0.0, 1.0, len(ages), None, 1.0)
    share, unknown = redistribute(endings, ages, elsewhere)
    low, high = score_interval(share, ended)[0], score_interval(min(1.0, share + unknown), ended)[1]
    known = len(ages) <= MOST_RUNNING * ended and unknown <= MOST_UNKNOWN
    # Whoever has outlasted everything that has ended hardly ever succeeds: it counts as a failure, and the upper
    # end of the interval as if it were none.
    return Rate(successes, ended, low, high, len(ages), share if known else None, unknown)


class Counter:
    """Counts episodes as they end, for a run that goes on."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._reporting = reporting(tasks)
        self._endings = Endings()
        self._counted: set[EpisodeKey] = set()

    @property
    def reports_success(self) -> bool:
        """Whether there is a rate at all."""
        return bool(self._reporting)

    def add(self, record: EndedEpisode) -> None:
        """Count an episode; one that was counted before is not counted again."""
        if record.status == "finished" and record.key[:2] in self._reporting and record.key not in self._counted:
            self._counted.add(record.key)
            insort(self._endings.all, record.steps)
            if record.success:
                insort(self._endings.successes, record.steps)

    def rate(self, running: Iterable[Running]) -> Rate:
        """Return the rate of this moment."""
        return started_rate(self._endings, [one.steps for one in running if one.key[:2] in self._reporting])


@dataclass(frozen=True)
class Rates(Generic[Ended]):
    """The episodes of a run, as rates are taken over them.

    Attributes:
        tasks: all tasks of the run.
        records: the episodes that have ended, those of a stopped run up to where it stopped.
        running: those that were started and have not ended.
        stopped: where and why a rule ended the run, if one did.
    """

    tasks: Sequence[Task]
    records: Sequence[Ended]
    running: Sequence[Running] = ()
    stopped: Mapping[str, Any] | None = None

    @cached_property
    def reporting(self) -> set[TaskKey]:
        """The tasks whose success counts."""
        return reporting(self.tasks)

    @cached_property
    def by_task(self) -> dict[TaskKey, list[Ended]]:
        """The ended episodes of every task."""
        found: dict[TaskKey, list[Ended]] = {task_key(task): [] for task in self.tasks}
        for record in self.records:
            found.setdefault(record.key[:2], []).append(record)
        return found

    @cached_property
    def _ages(self) -> dict[TaskKey, list[int]]:
        found: dict[TaskKey, list[int]] = {}
        finished = {record.key for record in self.records if record.status == "finished"}
        for key, steps in self.running:
            if key not in finished:
                found.setdefault(key[:2], []).append(steps)
        return found

    @cached_property
    def _all_endings(self) -> Endings:
        return self._endings(self.reporting)

    @cached_property
    def overall(self) -> Rate:
        """The run's rate. One that a rule has stopped has the rule's interval, wherever it is shown."""
        rate = self.of(self.reporting)
        return self._at_the_stop(rate) or rate

    @property
    def method(self) -> str:
        """How the interval of the run's rate was made."""
        rule = self._at_the_stop(self.of(self.reporting))
        return str((self.stopped or {})["interval"]["method"]) if rule is not None else "wilson"

    def _at_the_stop(self, rate: Rate) -> Rate | None:
        told = (self.stopped or {}).get("interval")
        # What was counted at the stop may have changed since: an error that ended well in another run.
        if told is None or (told["successes"], told["n_episodes"]) != rate[:2]:
            return None
        return rate._replace(low=told["low"], high=told["high"])

    def of(self, tasks: Collection[TaskKey]) -> Rate:
        """Return the rate over some tasks."""
        return self._rate(tasks, self._endings(tasks))

    def if_errors_failed(self, tasks: Collection[TaskKey]) -> Rate:
        """Return the rate that would hold if every error had been a failure: the pessimist's bound."""
        return self._rate(tasks, self._endings(tasks, errors=True))

    def of_group(self, group: str) -> Rate:
        """Return the rate over a group of tasks."""
        return self.of(self.in_group(group))

    def in_group(self, group: str) -> list[TaskKey]:
        """Return the tasks of a group."""
        return [task_key(task) for task in self.tasks if task.group == group]

    def counts(self) -> list[tuple[int, int]] | None:
        """Return successes and episodes of every task that reports success; `None` while episodes run."""
        if any(self._ages.get(key) for key in self.reporting):
            return None
        return [self.of([task_key(task)])[:2] for task in self.tasks if task.reports_success]

    def _rate(self, tasks: Collection[TaskKey], endings: Endings) -> Rate:
        ages = [age for key in tasks if key in self.reporting for age in self._ages.get(key, ())]
        return started_rate(endings, ages, self._all_endings)

    def _endings(self, tasks: Collection[TaskKey], errors: bool = False) -> Endings:
        ended = [
            record
            for key in tasks
            if key in self.reporting
            for record in self.by_task.get(key, ())
            if errors or record.status == "finished"
        ]
        return Endings(
            [record.steps for record in ended if record.success],
            [record.steps for record in ended if not record.success],
        )


@dataclass(frozen=True)
class Result:
    """What some episodes of one run came to."""

    rate: Rate
    errors: int
    if_errors_failed: Rate
    steps: int | None
    """The median over successes; over all episodes where success is not reported."""
    reward: float | None
    """The mean sum of rewards."""
    best_reward: float | None
    """The mean of the largest rewards."""
    finished: int


class Results(Rates[EpisodeRecord]):
    """The same, with all else that is told of the episodes."""

    @cached_property
    def result(self) -> Result:
        """What the whole run came to."""
        return self._result(list(self.by_task), self.overall)

    def result_of(self, tasks: Collection[TaskKey]) -> Result:
        """Return what some tasks came to."""
        return self._result(tasks, self.of(tasks))

    def _result(self, tasks: Collection[TaskKey], rate: Rate) -> Result:
        records = [record for key in tasks for record in self.by_task.get(key, ())]
        finished = [record for record in records if record.status == "finished"]
        reported = any(key in self.reporting for key in tasks)
        steps = [record.steps for record in finished if record.success or not reported]
        return Result(
            rate=rate,
            errors=len(records) - len(finished),
            if_errors_failed=self.if_errors_failed(tasks),
            steps=statistics.median_low(steps) if steps else None,
            reward=_mean(finished, lambda record: record.sum_reward),
            best_reward=_mean(finished, lambda record: record.max_reward),
            finished=len(finished),
        )


def _mean(records: Iterable[EpisodeRecord], value: Callable[[EpisodeRecord], float | None]) -> float | None:
    known = [found for record in records if (found := value(record)) is not None]
    return sum(known) / len(known) if known else None


def describe_running(rate: Rate) -> str:
    """Return one sentence on a rate that is an estimate because episodes were running; empty if it is none."""
    if not rate.running:
        return ""
    running = "1 episode was" if rate.running == 1 else f"{rate.running} episodes were"
    if rate.value is None:
        return (
            f"Not complete: {running} running, and too few have ended to say how those will. No rate is shown: "
            "among the episodes that end first there are too many quick successes."
        )
    alone = f" The ended ones alone ({100 * rate.successes / rate.episodes:.1f} %) favour quick successes."
    return f"Not complete: {running} running; each counts as those came out that ran longer." + (
        alone if abs(rate.successes / rate.episodes - rate.value) >= 0.0005 else ""
    )
