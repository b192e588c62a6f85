"""Which tasks a terminal shows while a run goes on: what runs or fails comes first, what is done well leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np
from rich.text import Text

from proctor.events import Progress, RunStart
from proctor.report.breakable_name import broken
from proctor.report.console import count, printable
from proctor.results import TaskKey, reporting, task_key
from proctor.store.outcomes import ERROR, SUCCESS
from proctor.store.schema import EpisodeRecord

_BAR = 10
_GAP = 3
_WIDEST = 68
"""Of a row: a wider terminal gets another column of them."""
_NARROWEST_NAME = 12


@dataclass
class TaskCounts:
    """How far one task is.

    Attributes:
        name: the task's.
        wanted: how many of what is counted there are to be.
        reports: whether its episodes succeed or fail at all.
        by_success: whether successes are what is wanted, and not episodes.
    """

    name: str
    wanted: int
    reports: bool
    by_success: bool = False
    ended: int = 0
    successes: int = 0
    errors: int = 0
    running: int = 0

    @property
    def done(self) -> int:
        """How many there are of what is wanted."""
        return min(self.successes if self.by_success else self.ended, self.wanted)

    @property
    def failures(self) -> int:
        """Episodes that ended without success, errors apart."""
        return self.ended - self.errors - self.successes if self.reports else 0

    @property
    def is_done_well(self) -> bool:
        """Whether there is nothing left to do and nothing to look at."""
        return self.done >= self.wanted and not self.failures and not self.errors

    @property
    def rank(self) -> tuple[int, float]:
        """Where it stands on the board: what runs before what waits, what goes wrong before what goes well."""
        group = 0 if self.running else 1 if self.failures or self.errors else 2 if self.ended else 3
        wrong = (self.failures + self.errors) / self.ended if self.ended else 0.0
        return group, -wrong


@dataclass
class TaskBoard:
    """All tasks of a run, and what of them there is room for."""

    tasks: dict[TaskKey, TaskCounts] = field(default_factory=dict)

    @classmethod
    def of(cls, start: RunStart) -> TaskBoard:
        """Return the board of a run that begins, with what earlier sessions have done."""
        plan, demonstrations = start.outline.plan, start.outline.demonstrations
        wanted = np.bincount(plan.numbers, minlength=len(plan.all_tasks))
        with_success, board = reporting(plan.tasks), cls()
        for number, task in enumerate(plan.all_tasks):
            key, state = task_key(task), start.before["state"][start.before.of_task(number)]
            board.tasks[key] = TaskCounts(
                printable(task.name).plain,
                demonstrations or int(wanted[number]),
                key in with_success,
                by_success=bool(demonstrations),
                ended=len(state),
                successes=int((state == SUCCESS).sum()),
                errors=int((state == ERROR).sum()),
            )
        return board

    def add(self, record: EpisodeRecord) -> None:
        """Count an episode that has ended."""
        task = self.tasks[record.key[:2]]
        task.ended += 1
        task.successes += bool(record.success)
        task.errors += record.status == "error"

    def look(self, progress: Progress) -> None:
        """Note which tasks are running."""
        for task in self.tasks.values():
            task.running = 0
        for key, _ in progress.running:
            if key[:2] in self.tasks:
                self.tasks[key[:2]].running += 1

    @property
    def total(self) -> TaskCounts:
        """All tasks as one."""
        found = TaskCounts("all tasks", 0, any(task.reports for task in self.tasks.values()))
        for task in self.tasks.values():
            found.wanted += task.wanted
            found.ended += task.done
            found.successes += task.successes
            found.errors += task.errors
        return found

    def rows(self, width: int, height: int, unicode: bool = True) -> list[Text]:
        """Return what fits into so many columns and rows; the last row says what is left out."""
        left = [task for task in self.tasks.values() if not task.is_done_well]
        order = sorted(left, key=lambda task: task.rank)  # stable: in the order of the plan otherwise
        columns = max(1, (width + _GAP) // (_WIDEST + _GAP)) if len(order) > height else 1
        each = (width - _GAP * (columns - 1)) // columns
        shown: list[list[Text]] = []
        room = max(1, height - 1)
        longest = max((len(task.name) for task in order), default=0)
        name_width = max(_NARROWEST_NAME, min(longest, each - _BAR - 25))
        for task in order:
            rows = _row(task, name_width, unicode)
            if len(rows) + sum(map(len, shown)) > room * columns:
                break
            shown.append(rows)
        last = _left_out(order[len(shown) :], len(self.tasks) - len(order))
        return [*_in_columns([row for rows in shown for row in rows], columns, room, each), *last]


def _in_columns(rows: Sequence[Text], columns: int, height: int, width: int) -> Iterable[Text]:
    """Yield rows beside each other, column after column."""
    height = min(height, -(-len(rows) // columns)) if rows else 0
    blocks = [rows[place * height : (place + 1) * height] for place in range(columns)]
    for beside in zip_longest(*blocks, fillvalue=Text("")):
        line = Text()
        for number, row in enumerate(beside):
            line.append(" " * (number * (width + _GAP) - len(line)))
            line.append_text(row)
        yield line


def _left_out(others: Sequence[TaskCounts], done_well: int) -> list[Text]:
    waiting = sum(not task.ended and not task.running for task in others)
    words = [
        *([f"{count(len(others) - waiting, 'more task')}"] if len(others) > waiting else []),
        *([f"{count(waiting, 'task')} not begun"] if waiting else []),
        *([f"{done_well} done without a failure"] if done_well else []),
    ]
    return [Text("; ".join(words), style="dim")] if words else []


def _row(task: TaskCounts, name_width: int, unicode: bool) -> list[Text]:
    counts = f"{task.done}/{task.wanted}"
    marks = _marks(task, unicode)
    first, *others = broken(task.name, name_width, lines=2)
    running = ("▸ " if unicode else "> ") if task.running else "  "
    row = Text.assemble(
        (f"{running}{first:<{name_width}} ", "bold" if task.running else ""),
        bar(task.done, task.wanted, _BAR, unicode),
        " ",
    )
    row.append(f"{counts:<9} ")
    row.append_text(marks)
    return [row, *(Text(f"    {other}") for other in others)]


def _marks(task: TaskCounts, unicode: bool) -> Text:
    good, bad, wrong = ("✓", "✗", "!") if unicode else ("+", "x", "!")
    found = Text()
    for number, mark, style in (
        (task.successes if task.reports else 0, good, "green"),
        (task.failures, bad, "red"),
        (task.errors, wrong, "yellow"),
    ):
        if number:
            found.append(f"{number} {mark} ", style)
    return found


def bar(done: int, wanted: int, width: int, unicode: bool = True) -> Text:
    """Return a bar that is as full as something is done."""
    full = width * done // wanted if wanted else width
    mark = ("━", "─") if unicode else ("#", "-")
    return Text.assemble((mark[0] * full, "cyan"), (mark[1] * (width - full), "dim"))
