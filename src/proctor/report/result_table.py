"""The table of results, task by task: its columns and rows are decided here, for the terminal and for HTML."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from proctor.report.console import count, interval, percent
from proctor.results import Aggregate, Results, TaskKey, task_key
from proctor.types import Task


class ResultColumn(NamedTuple):
    """One column after the task's name."""

    heading: str
    cell: Callable[[Aggregate], str]
    order: Callable[[Aggregate], float | None] | None = None
    """By what a page sorts it; not at all if there is nothing."""
    narrow: Callable[[Aggregate], str] = lambda _: ""
    """What a narrow page says beside the cell, of columns that it leaves out."""
    only_wide: bool = False
    """Whether a narrow page leaves it out."""


def columns_for(shown: Sequence[Results]) -> list[ResultColumn]:
    """Return the columns that say something about these runs.

    `steps` is the median over successes, or over all episodes where success is not reported; only there is the
    mean sum of rewards shown. With all of them the table fits into 80 columns with Meta-World's longest names.
    """
    with_rates = any(results.reporting for results in shown)
    with_rewards = any(len(results.reporting) < len(results.tasks) for results in shown)
    with_errors = any(results.result.errors for results in shown)
    every = [
        (with_rates, ResultColumn("success", lambda one: percent(one.rate), lambda one: one.rate.value, _range)),
        (True, ResultColumn("k/n" if with_rates else "n", _counts, lambda one: one.rate.episodes, _errors)),
        (with_rates, ResultColumn("95 % interval", _range, only_wide=True)),
        (with_rewards, ResultColumn("reward", _reward, lambda one: one.reward)),
        (
            with_errors,
            ResultColumn("errors", lambda one: str(one.errors or ""), lambda one: one.errors, only_wide=True),
        ),
        (True, ResultColumn("steps", _steps, lambda one: one.steps, only_wide=True)),
    ]
    return [column for wanted, column in every if wanted]


def _range(one: Aggregate) -> str:
    return interval(one.rate)


def _counts(one: Aggregate) -> str:
    return f"{one.rate.successes}/{one.rate.episodes}" if one.rate.episodes else str(one.finished or "")


def _errors(one: Aggregate) -> str:
    return f"+{count(one.errors, 'error')}" if one.errors else ""


def _reward(one: Aggregate) -> str:
    return f"{one.reward:.4g}" if one.reward is not None else ""


def _steps(one: Aggregate) -> str:
    return str(one.steps) if one.steps is not None else ""


@dataclass(frozen=True)
class TaskRow:
    """A task in the table, with a result for each run; `None` where a run has nothing of it."""

    number: int
    """Names its row inside of a page."""
    name: str
    prompt: str
    results: Sequence[Aggregate | None]
    keys: Sequence[Sequence[TaskKey]]
    """What it is in each run; nothing in one that does not have it."""


@dataclass(frozen=True)
class GroupRows:
    """A group of tasks; one without a name holds tasks that are groups of their own."""

    name: str
    rows: Sequence[TaskRow]
    results: Sequence[Aggregate | None]

    @property
    def keys(self) -> list[list[TaskKey]]:
        """The tasks of each run that are in it."""
        return [[key for row in self.rows for key in row.keys[place]] for place in range(len(self.results))]


def worst_first(rows: Sequence[TaskRow], run: int) -> list[TaskRow]:
    """Return the tasks of which fewer than all episodes succeeded in a run, those that failed most first.

    Of tasks with the same rate the one with more episodes comes first: it is known better.
    """

    def rate(row: TaskRow) -> tuple[float, int]:
        one = row.results[run]
        value = None if one is None else one.rate.value
        return (2.0, 0) if one is None or value is None else (value, -one.rate.episodes)

    return sorted((row for row in rows if rate(row)[0] < 1), key=rate)


def rows_for(shown: Sequence[Results]) -> list[GroupRows]:
    """Return every task of some runs in the order of the plan, group after group.

    In several runs a task is known by its name: it may lie in another group of the other run's choice of tasks.
    """
    alone = len(shown) == 1

    def known_as(group: str, task_id: int, name: str) -> Hashable:
        return (group, task_id) if alone else name

    found: list[defaultdict[Hashable, list[TaskKey]]] = [defaultdict(list) for _ in shown]
    for results, own in zip(shown, found, strict=True):
        for task in results.tasks:
            own[known_as(task.group, task.task_id, task.name)].append(task_key(task))
    members: dict[str, dict[Hashable, Task]] = {}
    numbers: dict[Hashable, int] = {}
    for task in (task for results in shown for task in results.tasks):
        key = known_as(task.group, task.task_id, task.name)
        if key not in numbers:
            numbers[key] = len(numbers)
            members.setdefault(task.group, {})[key] = task
    groups: list[GroupRows] = []
    for group, tasks in members.items():
        rows = [
            TaskRow(
                numbers[key],
                task.name,
                task.prompt,
                [_maybe(results, own[key]) for results, own in zip(shown, found, strict=True)],
                [own[key] for own in found],
            )
            for key, task in tasks.items()
        ]
        if len(rows) > 1:
            totals = [
                _maybe(results, [one for key in tasks for one in own[key]])
                for results, own in zip(shown, found, strict=True)
            ]
            groups.append(GroupRows(group, rows, totals))
        elif groups and not groups[-1].name:
            groups[-1] = GroupRows("", [*groups[-1].rows, *rows], [])
        else:
            groups.append(GroupRows("", rows, []))
    return groups


def _maybe(results: Results, tasks: Sequence[TaskKey]) -> Aggregate | None:
    if not results.have(tasks):
        return None
    return results.result if len(tasks) == len(results.tasks) else results.result_of(tasks)
