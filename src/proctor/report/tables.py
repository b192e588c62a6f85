"""A run's episodes and rates as CSV, RFC 4180: for spreadsheets and scripts. Columns are only ever added."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TextIO

from proctor.report.tables_csv import EPISODE_COLUMNS, Row, csv_lines
from proctor.results import Aggregate, Results, ScoredRun, task_key

RATE_COLUMNS = (
    "kind", "task_group", "task_id", "name", "success_rate", "low", "high", "successes", "episodes", "running",
    "errors", "success_rate_if_errors_failed", "median_steps", "avg_sum_reward", "avg_max_reward",
)  # fmt: skip


def write_episodes(run: ScoredRun, file: TextIO) -> None:
    """Write a row for every episode that has ended, in plan order."""
    file.writelines(csv_lines(EPISODE_COLUMNS, (record.to_row() for record in run.records)))


def write_rates(run: ScoredRun, file: TextIO) -> None:
    """Write a row for every task, every group and the whole."""
    file.writelines(csv_lines(RATE_COLUMNS, _rates(run.results)))


TABLES: dict[str, Callable[[ScoredRun, TextIO], None]] = {"episodes": write_episodes, "rates": write_rates}


def _rates(results: Results) -> Iterator[Row]:
    for task in results.tasks:
        key = task_key(task)
        yield _row("task", task.group, task.task_id, task.name, results.result_of([key]))
    for group in dict.fromkeys(task.group for task in results.tasks):
        yield _row("group", group, None, group, results.result_of(results.in_group(group)))
    yield _row("all", None, None, "all", results.result)


def _row(kind: str, group: str | None, task_id: int | None, name: str, one: Aggregate) -> Row:
    rate = one.rate
    known = rate.value is not None
    return {
        "kind": kind,
        "task_group": group,
        "task_id": task_id,
        "name": name,
        "success_rate": rate.value,
        "low": rate.low if known else None,
        "high": rate.high if known else None,
        "successes": rate.successes,
        "episodes": rate.episodes,
        "running": rate.running,
        "errors": one.errors,
        "success_rate_if_errors_failed": one.if_errors_failed.value,
        "median_steps": one.steps,
        "avg_sum_reward": one.reward,
        "avg_max_reward": one.best_reward,
    }
