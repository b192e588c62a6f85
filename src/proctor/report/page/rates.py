"""The numbers of a report: rates of tasks, groups and runs, and success against steps."""

from __future__ import annotations

import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from proctor.benchmarks.protocol import Task
from proctor.report.page.run import Run
from proctor.stats.intervals import Estimate, Rate
from proctor.stats.macro import stratified
from proctor.stats.steps import StepCurve, step_curve
from proctor.store.records import EpisodeRecord, rate_if_errors_failed, silent_tasks, success_rate


@dataclass(frozen=True)
class Result:
    """What some episodes of one run came to."""

    rate: Rate
    errors: int
    if_errors_failed: Rate
    steps: int | None
    """The median over successes; over all episodes where success is not told."""
    reward: float | None
    """The mean sum of rewards."""
    finished: int


def result_of(records: Iterable[EpisodeRecord]) -> Result:
    """Return what episodes came to. Those of tasks that tell no success have rewards, and no rate."""
    known = list(records)
    counted = telling(known)
    rate = success_rate(counted)
    finished = [record for record in known if record.status == "finished"]
    steps = [record.steps for record in finished if record.success or not rate.episodes]
    rewards = [record.sum_reward for record in finished if record.sum_reward is not None]
    return Result(
        rate=rate,
        errors=len(known) - len(finished),
        if_errors_failed=rate_if_errors_failed(counted),
        steps=statistics.median_low(steps) if steps else None,
        reward=statistics.fmean(rewards) if rewards else None,
        finished=len(finished),
    )


def telling(records: Sequence[EpisodeRecord]) -> list[EpisodeRecord]:
    """Return the episodes of tasks that tell success."""
    silent = silent_tasks(records)
    return [record for record in records if record.key[:2] not in silent]


def average_over_tasks(records: Sequence[EpisodeRecord]) -> Estimate | None:
    """Return the mean of the tasks' rates, for more than one task."""
    rates = [success_rate(members) for members in _by_task(telling(records)).values()]
    counts = [(rate.successes, rate.episodes) for rate in rates if rate.episodes]
    return stratified(counts) if len(counts) > 1 else None


def curve_of(records: Sequence[EpisodeRecord]) -> StepCurve:
    """Return how many episodes had succeeded by each step."""
    known = [record for record in telling(records) if record.status == "finished"]
    return step_curve(dataclasses.replace(record, success=bool(record.success)) for record in known)


@dataclass(frozen=True)
class TaskRow:
    """A task in the table, with a result for each run; `None` where a run has nothing of it."""

    name: str
    prompt: str
    results: Sequence[Result | None]


@dataclass(frozen=True)
class GroupRows:
    """A group of tasks; one without a name holds tasks that are groups of their own."""

    name: str
    rows: Sequence[TaskRow]
    results: Sequence[Result | None]


def task_table(runs: Sequence[Run]) -> list[GroupRows]:
    """Return every task of the runs in the order of the plan, group after group.

    In several runs a task is known by its name: it may lie in another group of the other run's choice of tasks.
    """
    alone = len(runs) == 1

    def known_as(group: str, task_id: int, name: str) -> Hashable:
        return (group, task_id) if alone else name

    found: list[defaultdict[Hashable, list[EpisodeRecord]]] = [defaultdict(list) for _ in runs]
    for run, records in zip(runs, found, strict=True):
        for record in run.fair:
            records[known_as(record.task_group, record.task_id, record.task)].append(record)
    members: dict[str, dict[Hashable, Task]] = {}
    seen: set[Hashable] = set()
    for task in (task for run in runs for task in run.tasks):
        key = known_as(task.group, task.task_id, task.name)
        if key not in seen:
            seen.add(key)
            members.setdefault(task.group, {})[key] = task
    groups: list[GroupRows] = []
    for group, tasks in members.items():
        rows = [
            TaskRow(task.name, task.prompt, [_maybe(records[key]) for records in found])
            for key, task in tasks.items()
        ]
        if len(rows) > 1:
            totals = [_maybe([record for key in tasks for record in records[key]]) for records in found]
            groups.append(GroupRows(group, rows, totals))
        elif groups and not groups[-1].name:
            groups[-1] = GroupRows("", [*groups[-1].rows, *rows], [])
        else:
            groups.append(GroupRows("", rows, []))
    return groups


def _maybe(records: Sequence[EpisodeRecord]) -> Result | None:
    return result_of(records) if records else None


def _by_task(records: Iterable[EpisodeRecord]) -> dict[tuple[str, int], list[EpisodeRecord]]:
    found: dict[tuple[str, int], list[EpisodeRecord]] = {}
    for record in records:
        found.setdefault(record.key[:2], []).append(record)
    return found
