"""Why a run went no further, and what was there at its end: its messages, its last episodes, its logs."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from proctor.files import NotRegularError, clip, open_below
from proctor.report.console import moment
from proctor.results import ScoredRun
from proctor.store.lock import writer_of
from proctor.store.videos import video_file

LAST_LINES = 12
_LAST_BYTES = 8192
_LONGEST_LINE = 300
_MOST_LOGS = 3
_LAST_MESSAGES = 5
_LAST_FILMS = 4


class LogEnd(NamedTuple):
    """The last lines of a log."""

    name: str
    lines: Sequence[str]


@dataclass(frozen=True)
class EndingSection:
    """Why a run went no further.

    Attributes:
        why: in the words of its last session.
        when: when that session ended.
        messages: what its user was told last.
        in_flight: the episodes that had begun and not ended, and how far they were.
        films: the places of the episodes that were filmed last.
        logs: the ends of its logs, the one that was written last first.
    """

    why: str
    when: str
    messages: Sequence[str]
    in_flight: Sequence[str]
    films: Sequence[int]
    logs: Sequence[LogEnd]


def goes_on(run: ScoredRun) -> bool:
    """Whether somebody is running it at this moment."""
    return not run.complete and writer_of(run.path) is not None


def ending_section(run: ScoredRun) -> EndingSection | None:
    """Return why a run went no further; `None` if it is complete, a rule has stopped it, or it still goes on."""
    if run.complete or run.stopped is not None or run.ending is None or goes_on(run):
        return None
    last = max(run.sessions, key=attrgetter("started_at"))
    numbers = {(task.group, task.task_id): task.name for task in run.tasks}
    return EndingSection(
        why=run.ending,
        when=moment(last.ended_at),
        messages=[note.message for note in run.notes if note.told_at >= last.started_at][-_LAST_MESSAGES:],
        in_flight=[
            f"{clip(numbers[key[:2]], 80)} episode {key[2]} at step {steps}" for key, steps in run.running[:20]
        ],
        films=_last_filmed(run),
        logs=[] if run.bundle is not None else _log_ends(run.path, run.directory.logs),
    )


def _last_filmed(run: ScoredRun) -> list[int]:
    filmed = np.flatnonzero(run.ended["filmed"])
    latest = filmed[np.argsort(-run.ended["ended_at"][filmed], kind="stable")].tolist()
    there = (place for place in latest if video_file(run.path, run.plan[place].key) is not None)
    return [place for place, _ in zip(there, range(_LAST_FILMS), strict=False)]


def _log_ends(run: Path, logs: Path) -> list[LogEnd]:
    """Return the ends of logs that have any words. What is no regular file, or a link, is left alone."""
    try:
        names = sorted(path.name for path in logs.iterdir() if path.suffix == ".log")
    except OSError:
        return []
    found: list[tuple[float, LogEnd]] = []
    for name in names:
        try:
            with open_below(run, f"{logs.relative_to(run)}/{name}") as log:
                state = os.fstat(log)
                text = _tail(log, state)
        except (OSError, ValueError, NotRegularError):
            continue
        lines = [clip(line.rstrip(), _LONGEST_LINE) for line in text.splitlines() if line.strip()]
        if lines:
            found.append((state.st_mtime, LogEnd(clip(name, 80), lines[-LAST_LINES:])))
    found.sort(key=lambda one: -one[0])
    return [log for _, log in found[:_MOST_LOGS]]


def _tail(log: int, state: os.stat_result) -> str:
    if not stat.S_ISREG(state.st_mode):
        raise NotRegularError
    start = max(0, state.st_size - _LAST_BYTES)
    text = os.pread(log, _LAST_BYTES, start).decode(errors="replace")
    if start:
        text = text.partition("\n")[2]
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)
