"""What is wrong with a run, in short and beside its rate: tasks below 100 %, and what the rate does not say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from proctor.report.console import count
from proctor.report.result_table import GroupRows, TaskRow, worst_first
from proctor.results import Aggregate, ScoredRun, task_key

MOST_SHORTFALLS = 10
"""Tasks that are named under the headline; the table of tasks has them all."""


class Alert(NamedTuple):
    """A few words beside the rate, and the part of the page that says more."""

    kind: Literal["error", "warning"]
    words: str
    link: str


class Shortfalls(NamedTuple):
    """Where to look.

    Attributes:
        worst: the tasks below 100 % with their results, worst first; no more than `MOST_SHORTFALLS`.
        below: how many there are.
        known: of how many tasks a rate is known.
        broken: tasks with episodes that could not be run, those with most first; as many at most.
        n_broken: how many such tasks there are.
    """

    worst: Sequence[tuple[TaskRow, Aggregate]]
    below: int
    known: int
    broken: Sequence[tuple[TaskRow, Aggregate]]
    n_broken: int


def shortfalls(groups: Sequence[GroupRows], run: int) -> Shortfalls:
    """Return the tasks of a run below 100 %, worst first."""
    rows = [row for group in groups for row in group.rows]
    below = worst_first(rows, run)
    broken = [(row, one) for row in rows if (one := row.results[run]) is not None and one.errors]
    broken.sort(key=lambda found: -found[1].errors)
    return Shortfalls(
        [(row, one) for row in below[:MOST_SHORTFALLS] if (one := row.results[run]) is not None],
        len(below),
        sum((one := row.results[run]) is not None and one.rate.value is not None for row in rows),
        broken[:MOST_SHORTFALLS],
        len(broken),
    )


def alerts(run: ScoredRun, place: int, going: bool, ending: bool) -> list[Alert]:
    """Return what one has to know before one believes the rate.

    Args:
        run: whose rate it is.
        place: which of the page's runs it is.
        going: whether somebody is running it.
        ending: whether the page says why the run went no further.
    """
    found = []
    errors = run.results.result.errors
    if errors:
        found.append(Alert("error", f"{count(errors, 'episode')} could not be run", f"#errors-{place}"))
    if not run.complete:
        state = "in progress" if going else "incomplete"
        words = f"{state}: {len(run.records)} of {len(run.plan)} episodes have ended"
        found.append(Alert("warning", words, f"#ending-{place}" if ending else "#to-know"))
    if run.stopped is not None:
        words = f"stopped early, after {len(run.plan)} of {len(run.planned)} episodes"
        found.append(Alert("warning", words, "#to-know"))
    never = sum(not run.results.have([task_key(task)]) for task in run.tasks)
    if never:
        found.append(Alert("warning", f"{never} of {count(len(run.tasks), 'task')} never ran", "#tasks"))
    return found
