"""A run's episodes and rates as CSV, RFC 4180: for spreadsheets and scripts. Columns are only ever added."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO

from proctor.results import Aggregate, Results, ScoredRun, task_key
from proctor.store.schema import EpisodeRecord

EPISODE_COLUMNS = (
    "task_group", "task_id", "task", "episode_index", "seed", "status", "success", "sum_reward", "max_reward",
    "steps", "attempts", "seconds", "digest", "pixel_digest", "video_path", "error", "metrics",
)  # fmt: skip
RATE_COLUMNS = (
    "kind", "task_group", "task_id", "name", "success_rate", "low", "high", "successes", "episodes", "running",
    "errors", "success_rate_if_errors_failed", "median_steps", "avg_sum_reward", "avg_max_reward",
)  # fmt: skip


def write_episodes(run: ScoredRun, file: TextIO) -> None:
    """Write a row for every episode that has ended, in plan order."""
    _write(file, EPISODE_COLUMNS, map(_episode, run.records))


def write_rates(run: ScoredRun, file: TextIO) -> None:
    """Write a row for every task, every group and the whole."""
    _write(file, RATE_COLUMNS, _rates(run.results))


TABLES: dict[str, Callable[[ScoredRun, TextIO], None]] = {"episodes": write_episodes, "rates": write_rates}


def _write(file: TextIO, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    writer = csv.writer(file)  # by its default as RFC 4180 has it: commas, CRLF, quotes where they are needed
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_text(value) for value in row])


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return value.replace("\0", "?") if isinstance(value, str) else value


def _episode(record: EpisodeRecord) -> Sequence[Any]:
    values = {name: getattr(record, name) for name in EPISODE_COLUMNS}
    return [*{**values, "metrics": json.dumps(record.metrics) if record.metrics else ""}.values()]


def _rates(results: Results) -> Iterator[Sequence[Any]]:
    for task in results.tasks:
        key = task_key(task)
        yield ["task", task.group, task.task_id, task.name, *_aggregate(results.result_of([key]))]
    for group in dict.fromkeys(task.group for task in results.tasks):
        yield ["group", group, None, group, *_aggregate(results.result_of(results.in_group(group)))]
    yield ["all", None, None, "all", *_aggregate(results.result)]


def _aggregate(one: Aggregate) -> Sequence[Any]:
    rate = one.rate
    known = rate.value is not None
    return [
        rate.value,
        rate.low if known else None,
        rate.high if known else None,
        rate.successes,
        rate.episodes,
        rate.running,
        one.errors,
        one.if_errors_failed.value,
        one.steps,
        one.reward,
        one.best_reward,
    ]
