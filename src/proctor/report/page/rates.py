"""The numbers of a report: rates of tasks, groups and runs, and success against steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from proctor.report.page.run import Run
from proctor.results import Result, TaskKey, task_key
from proctor.stats.intervals import Estimate
from proctor.stats.macro import stratified
from proctor.stats.steps import StepCurve, curve_of_successes
from proctor.store.outcomes import FAILURE, SUCCESS
from proctor.types import Task


def average_over_tasks(run: Run) -> Estimate | None:
    """Return the mean of the tasks' rates, for more than one task; none while episodes run."""
    counts = [(successes, episodes) for successes, episodes in run.results.counts() or () if episodes]
    return stratified(counts) if len(counts) > 1 else None


def curve_of(run: Run, group: str | None = None) -> StepCurve:
    """Return how many episodes of a run, or of a group of it, had succeeded by each step."""
    tasks = [key for key in run.results.reporting if group in (None, key[0])]
    places = run.results.places_of(tasks)
    places = places[places < run.prefix]
    state, steps = run.results.ended["state"][places], run.results.ended["steps"][places]
    won = state == SUCCESS
    return curve_of_successes(steps[won].tolist(), int((won | (state == FAILURE)).sum()))


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

    found: list[defaultdict[Hashable, list[TaskKey]]] = [defaultdict(list) for _ in runs]
    for run, own in zip(runs, found, strict=True):
        for task in run.tasks:
            own[known_as(task.group, task.task_id, task.name)].append(task_key(task))
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
            TaskRow(
                task.name,
                task.prompt,
                [_maybe(run, own[key]) for run, own in zip(runs, found, strict=True)],
            )
            for key, task in tasks.items()
        ]
        if len(rows) > 1:
            totals = [
                _maybe(run, [one for key in tasks for one in own[key]])
                for run, own in zip(runs, found, strict=True)
            ]
            groups.append(GroupRows(group, rows, totals))
        elif groups and not groups[-1].name:
            groups[-1] = GroupRows("", [*groups[-1].rows, *rows], [])
        else:
            groups.append(GroupRows("", rows, []))
    return groups


def _maybe(run: Run, tasks: Sequence[TaskKey]) -> Result | None:
    if not run.results.have(tasks):
        return None
    whole = len(tasks) == len(run.tasks)
    return run.results.result if whole else run.results.result_of(tasks)
