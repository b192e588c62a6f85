"""What the episodes of a run came to: the one aggregation, which everything that shows a result asks.

Rates, intervals, steps and rewards of a run, its groups and its tasks, from what `store/outcomes.py` keeps of each
episode. Terminal, report, viewer, `eval_info.json`, trackers and Python show the same numbers: they are these.

Two decisions are made here and nowhere else. *What counts:* every finished episode of a task that reports success
(`Task.reports_success`, known before the first episode); errors are outside. *What is shown while episodes run:*
the estimate over all started ones (`proctor.stats.unfinished`), once enough has ended.
"""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.errors import ProctorError
from proctor.plan import Plan
from proctor.stats.intervals import INTERVAL, Estimate, Rate, rate_interval, success_rate
from proctor.stats.macro import stratified
from proctor.stats.steps import StepCurve, curve_of_successes
from proctor.stats.unfinished import Endings, redistribute
from proctor.store.outcomes import ERROR, FAILURE, SUCCESS, Outcomes
from proctor.store.schema import SPANS, RunningEpisode
from proctor.store.stored_run import StoredRecords, StoredRun
from proctor.types import Task

TaskKey = tuple[str, int]

MOST_RUNNING = 1 / 3
MOST_UNKNOWN = 0.05
"""A rate is shown when at most so many episodes run for each that has ended, and when at most this share of the
weight of all started ones is undetermined. With these the value is off by less than a point on average, for rates
from 0.05 to 0.95, 1 to 64 workers and 1 to 50 tasks (`benchmarks/incomplete_runs.py`)."""


def task_key(task: Task) -> TaskKey:
    """Return what identifies a task inside its run."""
    return (task.group, task.task_id)


def reporting(tasks: Iterable[Task]) -> set[TaskKey]:
    """Return the tasks whose success counts. All others have rewards, and no rate."""
    return {task_key(task) for task in tasks if task.reports_success}


def started_rate(endings: Endings, ages: Sequence[int], elsewhere: Endings | None = None) -> Rate:
    """Return the rate over all episodes that were started; without running ones it is k / n.

    Args:
        endings: those that have ended.
        ages: the steps that each running one has made.
        elsewhere: the endings of the whole run, where `endings` are those of a part of it.
    """
    successes, ended = endings.successes, endings.ended
    if not ages:
        return success_rate(successes, ended)
    if not ended:
        return Rate(0, 0, 0.0, 1.0, len(ages), None, 1.0)
    share, unknown = redistribute(endings, ages, elsewhere)
    low, high = rate_interval(share, ended)[0], rate_interval(min(1.0, share + unknown), ended)[1]
    known = len(ages) <= MOST_RUNNING * ended and unknown <= MOST_UNKNOWN
    # Whoever has outlasted everything that has ended hardly ever succeeds: it counts as a failure, and the upper
    # end of the interval as if it were none.
    return Rate(successes, ended, low, high, len(ages), share if known else None, unknown)


@dataclass(frozen=True)
class Aggregate:
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


@dataclass(frozen=True)
class Results:
    """What the episodes of a run came to, as a whole and in parts.

    Attributes:
        ended: the episodes that have ended, those of a stopped run up to where it stopped.
        running: those that were started and have not ended.
        stopped: where and why a rule ended the run, if one did.
    """

    ended: Outcomes
    running: Sequence[RunningEpisode] = ()
    stopped: Mapping[str, Any] | None = None

    @property
    def tasks(self) -> Sequence[Task]:
        """All tasks of the run."""
        return self.ended.plan.all_tasks

    @cached_property
    def reporting(self) -> set[TaskKey]:
        """The tasks whose success counts."""
        return reporting(self.tasks)

    @cached_property
    def _places(self) -> dict[TaskKey, NDArray[np.int64]]:
        return {task_key(task): self.ended.of_task(number) for number, task in enumerate(self.tasks)}

    @cached_property
    def _ages(self) -> dict[TaskKey, list[int]]:
        found: dict[TaskKey, list[int]] = {}
        for key, steps in self.running:
            if self.ended.state(key) <= ERROR:
                found.setdefault(key[:2], []).append(steps)
        return found

    @cached_property
    def _all_endings(self) -> Endings:
        return self.endings(self.reporting)

    def have(self, tasks: Iterable[TaskKey]) -> bool:
        """Whether any episode of some tasks has ended."""
        return any(len(self._places[key]) for key in tasks)

    @cached_property
    def overall(self) -> Rate:
        """The run's rate. One that a rule has stopped has the rule's interval, wherever it is shown."""
        rate = self.of(self.reporting)
        return self._at_the_stop(rate) or rate

    @property
    def method(self) -> str:
        """How the interval of the run's rate was made."""
        rule = self._at_the_stop(self.of(self.reporting))
        return str((self.stopped or {})["interval"]["method"]) if rule is not None else INTERVAL

    def _at_the_stop(self, rate: Rate) -> Rate | None:
        told = (self.stopped or {}).get("interval")
        # What was counted at the stop may have changed since: an error that ended well in another run.
        if told is None or (told["successes"], told["n_episodes"]) != rate[:2]:
            return None
        return rate._replace(low=told["low"], high=told["high"])

    def of(self, tasks: Collection[TaskKey]) -> Rate:
        """Return the rate over some tasks."""
        return self._rate(tasks, self.endings(tasks))

    def if_errors_failed(self, tasks: Collection[TaskKey]) -> Rate:
        """Return the rate that would hold if every error had been a failure: the pessimist's bound."""
        return self._rate(tasks, self.endings(tasks, errors=True))

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

    def average_over_tasks(self) -> Estimate | None:
        """Return the mean of the tasks' rates, for more than one task; `None` while episodes run."""
        counts = [(successes, episodes) for successes, episodes in self.counts() or () if episodes]
        return stratified(counts) if len(counts) > 1 else None

    def step_curve(self, group: str | None = None) -> StepCurve:
        """Return how many episodes of the run, or of a group, had succeeded by each step.

        Success ends an episode early, so of a run that is not complete it is over the finished prefix of its plan:
        the episodes that happen to have ended hold too many successes.
        """
        places = self.places_of(key for key in self.reporting if group in (None, key[0]))
        places = places[places < self.ended.prefix]
        state, steps = self.ended["state"][places], self.ended["steps"][places]
        won = state == SUCCESS
        return curve_of_successes(steps[won].tolist(), int((won | (state == FAILURE)).sum()))

    def steps_to_success(self, tasks: Collection[TaskKey]) -> NDArray[np.int64]:
        """Return after how many steps the episodes of some tasks succeeded, the quickest first."""
        places = self.places_of(key for key in tasks if key in self.reporting)
        steps: NDArray[np.int64] = np.sort(self.ended["steps"][places[self.ended["state"][places] == SUCCESS]])
        return steps

    def seconds_by_span(self) -> dict[str, float]:
        """Return the workers' seconds by what they were spent on."""
        places = self.places_of(self._places)
        return {span: float(sum(self.ended[span][places].tolist())) for span in SPANS}

    def seconds_by_use(self, startup: float) -> dict[str, float]:
        """Return the same as people ask for it; `startup` are the seconds in which processes started."""
        spans = self.seconds_by_span()
        return {
            "simulate": spans["simulate"] + spans["reset"],
            "draw": spans["draw"] + spans["encode"],
            "wait": spans["wait"],
            "start": startup + spans["build"],
        }

    @property
    def steps(self) -> int:
        """How many steps all episodes took that have ended."""
        return int(self.ended["steps"].sum())

    def _rate(self, tasks: Collection[TaskKey], endings: Endings) -> Rate:
        ages = [age for key in tasks if key in self.reporting for age in self._ages.get(key, ())]
        return started_rate(endings, ages, self._all_endings)

    def endings(self, tasks: Collection[TaskKey], errors: bool = False) -> Endings:
        """Return after how many steps the episodes of some tasks succeeded or failed."""
        places = self.places_of(key for key in tasks if key in self.reporting)
        state, steps = self.ended["state"][places], self.ended["steps"][places]
        won = state == SUCCESS
        lost = ~won if errors else ~won & (state != ERROR)
        return Endings(steps[won].tolist(), steps[lost].tolist())

    def places_of(self, tasks: Iterable[TaskKey]) -> NDArray[np.int64]:
        """Return where the ended episodes of some tasks are in the plan: task by task, by their index."""
        nothing = np.zeros(0, np.int64)
        return np.concatenate([nothing, *(self._places.get(key, nothing) for key in tasks)])

    @cached_property
    def result(self) -> Aggregate:
        """What the whole run came to."""
        return self._result(list(self._places), self.overall)

    def result_of(self, tasks: Collection[TaskKey]) -> Aggregate:
        """Return what some tasks came to."""
        return self._result(tasks, self.of(tasks))

    def _result(self, tasks: Collection[TaskKey], rate: Rate) -> Aggregate:
        places = self.places_of(tasks)
        finished = places[self.ended["state"][places] != ERROR]
        reported = any(key in self.reporting for key in tasks)
        counted = finished[self.ended["state"][finished] == SUCCESS] if reported else finished
        return Aggregate(
            rate=rate,
            errors=len(places) - len(finished),
            if_errors_failed=self.if_errors_failed(tasks),
            steps=_median(self.ended["steps"][counted]),
            reward=_mean(self.ended["sum_reward"][finished]),
            best_reward=_mean(self.ended["max_reward"][finished]),
            finished=len(finished),
        )


def _median(steps: NDArray[np.int64]) -> int | None:
    """The lower of the two in the middle."""
    middle = (len(steps) - 1) // 2
    return int(np.partition(steps, middle)[middle]) if len(steps) else None


def _mean(values: NDArray[np.float64]) -> float | None:
    # By Python's own sum, in the order of the plan: NumPy's has other last digits.
    known: list[float] = values[~np.isnan(values)].tolist()
    return sum(known) / len(known) if known else None


class ScoredRun(StoredRun):
    """A stored run, and what its episodes came to."""

    @cached_property
    def results(self) -> Results:
        """What they came to; of a run that a rule has stopped, up to there."""
        return Results(self.ended, self.running, self.stopped)


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation came to. `error` and `stopped_by` say why it may be incomplete."""

    run: ScoredRun
    info: dict[str, Any]
    """What `eval_info.json` says; empty if it could not be written."""
    stopped_by: signal.Signals | None = None
    error: ProctorError | None = None
    recorded: int = 0
    """How many episodes the run's dataset has; 0 where nothing is recorded."""
    unfilmed: int = 0
    """How many videos it was to have and does not, where they were to be made after its last episode."""
    nothing_to_do: bool = False
    """Whether everything that was asked for had ended before."""

    @property
    def directory(self) -> Path:
        """Where everything of it lies."""
        return self.run.path

    @property
    def plan(self) -> Plan:
        """The episodes that count: all, or those up to where a rule ended the run."""
        return self.run.plan

    @property
    def results(self) -> Results:
        """What the episodes came to."""
        return self.run.results

    @property
    def records(self) -> StoredRecords:
        """The episodes that have ended, in plan order."""
        return self.run.records


def describe_running(rate: Rate) -> str:
    """Return one sentence on a rate that is an estimate because episodes were running; empty if it is none."""
    if not rate.running:
        return ""
    running = "1 episode was" if rate.running == 1 else f"{rate.running} episodes were"
    if rate.value is None:
        return (
            f"Incomplete: {running} still running, and too few have ended to estimate a rate. No rate is shown: "
            "the episodes that end first hold too many quick successes."
        )
    alone = f" The finished episodes alone ({100 * rate.successes / rate.episodes:.1f} %) favour quick successes."
    return f"Incomplete: {running} still running; each counts like the episodes that ran longer." + (
        alone if abs(rate.successes / rate.episodes - rate.value) >= 0.0005 else ""
    )
