"""What `evaluate` returns: the episodes of an evaluation and their rates, for scripts and notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from proctor.report.result_table import columns_for, rows_for
from proctor.results import Aggregate, Evaluation, task_key
from proctor.stats.intervals import Rate
from proctor.store.outcomes import ERROR
from proctor.store.schema import EpisodeRecord

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class TaskResult:
    """What the episodes of one task, of a group or of all came to.

    Attributes:
        name: the task's name, or the group's; "all" for all.
        group: the group; none of all.
        rate: success over finished episodes.
        errors: how many could not be run.
        mean_reward: the mean sum of rewards of finished episodes; `None` if there is none.
        median_steps: over successes; over all episodes where success is not reported.
    """

    name: str
    group: str
    rate: Rate
    errors: int
    mean_reward: float | None
    median_steps: int | None


class EvalResult:
    """The episodes of an evaluation, with their rates.

    Iterating gives `EpisodeRecord`s in plan order; those of a run too long to be listed are read from its
    directory when they are asked for. Every rate is k out of n with a 95 % interval; errors are outside it.
    """

    def __init__(self, evaluation: Evaluation) -> None:
        self._results, self._records = evaluation.results, evaluation.records
        self._planned = len(evaluation.plan)
        self.path = evaluation.directory
        self.info = evaluation.info

    def __iter__(self) -> Iterator[EpisodeRecord]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def complete(self) -> bool:
        """Whether every planned episode ended."""
        return len(self._records) == self._planned

    @property
    def errors(self) -> list[EpisodeRecord]:
        """The episodes that could not be run."""
        return self._records.at(self._results.ended.at(ERROR))

    @property
    def success_rate(self) -> Rate:
        """The rate over all finished episodes; of a run that a rule ended, with the rule's interval."""
        return self._results.overall

    @property
    def rate_if_errors_failed(self) -> Rate:
        """The rate that would hold if every error had been a failure."""
        return self._results.result.if_errors_failed

    @property
    def overall(self) -> TaskResult:
        """What all episodes came to."""
        return _task_result("all", "", self._results.result)

    @property
    def tasks(self) -> list[TaskResult]:
        """What the episodes of each task came to, in the order of the plan."""
        results = self._results
        return [_task_result(one.name, one.group, results.result_of([task_key(one)])) for one in results.tasks]

    @property
    def groups(self) -> list[TaskResult]:
        """What the episodes of each group of tasks came to."""
        names = dict.fromkeys(task.group for task in self._results.tasks)
        found = self._results
        return [_task_result(name, name, found.result_of(found.in_group(name))) for name in names]

    def per_task(self) -> dict[str, Rate]:
        """Return the rate of each task."""
        tasks = self._results.tasks
        return {
            name: self._results.of([task_key(task) for task in tasks if task.name == name])
            for name in dict.fromkeys(task.name for task in tasks)
        }

    def per_group(self) -> dict[str, Rate]:
        """Return the rate of each group."""
        return {task.group: self._results.of_group(task.group) for task in self._results.tasks}

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per episode. Needs pandas."""
        import pandas as pd

        return pd.DataFrame([record.to_row() for record in self._records])

    def __repr__(self) -> str:
        return f"EvalResult(success {self.success_rate}, {len(self)} episodes, path={str(self.path)!r})"

    def _repr_html_(self) -> str:
        """Return the table that a notebook shows: the columns and rows of the terminal's."""
        columns = columns_for([self._results])

        def row(name: str, one: Aggregate | None, tag: str = "td") -> str:
            cells = "".join(
                f'<td style="text-align:right">{escape(column.cell(one)) if one is not None else ""}</td>'
                for column in columns
            )
            return f'<tr><{tag} style="text-align:left">{escape(name)}</{tag}>{cells}</tr>'

        heads = "".join(f'<th style="text-align:right">{escape(column.heading)}</th>' for column in columns)
        rows = []
        for group in rows_for([self._results]):
            rows += [row(task.name, task.results[0]) for task in group.rows]
            if group.name and len(self._results.tasks) > len(group.rows):
                rows.append(row(group.name, group.results[0], "th"))
        if len(self._results.tasks) > 1:
            rows.append(row("all", self._results.result, "th"))
        unfinished = "" if self.complete else f"<p>{len(self)} of {self._planned} episodes have ended.</p>"
        return (
            f'<table><thead><tr><th style="text-align:left">task</th>{heads}</tr></thead>'
            f"<tbody>{''.join(rows)}</tbody></table>{unfinished}<p><code>{escape(str(self.path))}</code></p>"
        )


def _task_result(name: str, group: str, result: Aggregate) -> TaskResult:
    return TaskResult(name, group, result.rate, result.errors, result.reward, result.steps)
