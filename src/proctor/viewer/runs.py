"""The runs below a folder, found by their `run.sqlite` and read without touching it, and each in a line."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from proctor.config.yaml_files import CONFIG_FILE
from proctor.errors import ProctorError
from proctor.files import clip
from proctor.report.console import duration, interval, moment, percent
from proctor.results import ScoredRun
from proctor.stats.intervals import Rate, success_rate
from proctor.store.lock import writer_of
from proctor.store.outcomes import Outcomes
from proctor.store.run_directory import DATABASE, EVAL_INFO, Shard
from proctor.store.schema import RunSession
from proctor.viewer.files import inside, leads_out
from proctor.viewer.readers import BusyError, Readers

_OF_A_RUN = ("videos", "logs", "dataset", "recording")
_MOST_FOLDERS = 100_000

_PATIENCE, _LEAST_PATIENCE, _PATIENCE_WITH_ALL = 2.0, 0.05, 5.0
"""Seconds that a list waits for one run, for one more when it has waited long, and before it has waited long."""

_LONG, _REST = 1.0, 4.0
"""A run that goes on and took longer than so many seconds to read is not read again for so many times as long: one
of a million episodes takes many, and a page asks every second."""

Signature = tuple[tuple[int, int, int] | None, ...]


State = Literal["running", "complete", "stopped", "incomplete", "unreadable"]

_LOG, _INDEX = f"{DATABASE}-wal", f"{DATABASE}-shm"
SOURCES = (DATABASE, _LOG, CONFIG_FILE)
"""What a summary is read from."""

_NOTHING = success_rate(0, 0)


@dataclass(frozen=True)
class RunSummary:
    """What a list says of a run. `problem` says why the rest could not be read."""

    path: str
    """Relative to the folder of runs; "" if that is the run itself."""
    name: str
    state: State
    began: float
    problem: str = ""
    benchmark: str = ""
    policy: str = ""
    tasks: int = 0
    planned: int = 0
    ended: int = 0
    errors: int = 0
    rate: Rate = _NOTHING
    """Over all started episodes: an estimate as long as some are running."""
    wall: float = 0.0
    ending: str = ""
    """Why it went no further, if it is not complete and nobody writes it."""
    rule: str = ""
    """The rule that ended it early."""
    writer: str = ""
    speed: float = 0.0
    """Episodes per second of the session that goes on."""

    @property
    def folder(self) -> str:
        """The path as text that any page can hold."""
        return self.path.encode(errors="replace").decode() or "."

    @property
    def shards_of(self) -> str | None:
        """The path of the run that it is a shard of, by its own name; `None` if it is none."""
        place, _, name = self.path.rpartition("/")
        return place if Shard.named(name) else None

    @property
    def when(self) -> str:
        """When it began."""
        return moment(self.began)[:16]

    @property
    def left(self) -> float | None:
        """Seconds until all is done, if it goes on like this."""
        return (self.planned - self.ended) / self.speed if self.state == "running" and self.speed else None

    @property
    def words(self) -> dict[str, str]:
        """What is said of a run that goes on, by name."""
        rate = self.rate
        running = f", {rate.running} running" if rate.running else ""
        return {
            "ended": f"{self.ended} of {self.planned}" if self.planned else "starting",
            "rate": percent(rate) if rate.value is not None else "not known yet",
            "interval": f"{interval(rate)}{running}" if rate.value is not None else "",
            "counts": f"{rate.successes} of {rate.episodes}",
            "errors": str(self.errors) if self.errors else "none",
            "speed": f"{self.speed:.2f} episodes/s" if self.speed else "–",
            "left": duration(self.left) if self.left is not None else "–",
        }


def summarise(root: Path, directory: Path, writer: str | None) -> RunSummary:
    """Read a run's summary. If something is wrong with the run, the summary says what."""
    try:
        began = (directory / DATABASE).lstat().st_mtime
    except OSError:
        began = 0.0
    try:
        problem = _unsafe(root, directory)
        if problem:
            return unreadable(root, directory, problem, began)
        run = ScoredRun(directory)
        with run.table():
            return _read(run, _relative(root, directory), began, writer or "")
    except Exception as error:  # a stranger's file may be wrong in any way; the list must go on
        return unreadable(root, directory, _reason(error), began)


def unreadable(root: Path, directory: Path, problem: str, began: float = 0.0) -> RunSummary:
    """Return the summary of a run that cannot be read, with the reason."""
    name = directory.name.encode(errors="replace").decode()
    return RunSummary(_relative(root, directory), name, "unreadable", began, clip(problem, 500))


def _relative(root: Path, directory: Path) -> str:
    return "" if directory == root else os.path.relpath(directory, root)


def _unsafe(root: Path, directory: Path) -> str:
    for name in (DATABASE, CONFIG_FILE, EVAL_INFO):
        if leads_out(root, directory / name):
            return f"{name} is a link that leads out of {root}. It is not followed."
    if (directory / _LOG).exists() and not (directory / _INDEX).exists():
        return f"{_LOG} lies there without {_INDEX}, and reading it would write that. Copy the run with both."
    return ""


def _reason(error: Exception) -> str:
    if isinstance(error, ProctorError):
        return str(error.__cause__ or error)
    return f"it is not as Proctor writes it ({type(error).__name__}: {clip(str(error))})"


def _read(run: ScoredRun, path: str, began: float, writer: str) -> RunSummary:
    ended, stopped, sessions = run.all_ended, run.stopped, run.sessions
    complete = bool(run.planned) and ended.ended == len(run.planned)
    return RunSummary(
        path=path,
        name=clip(run.name),
        state="running" if writer else "complete" if complete else "stopped" if stopped else "incomplete",
        began=sessions[0].started_at if sessions else began,
        benchmark=clip(run.benchmark),
        policy=clip(run.policy),
        tasks=len(run.tasks),
        planned=len(run.planned),
        ended=ended.ended,
        errors=ended.errors,
        rate=run.results.overall,
        wall=max(run.wall, time.time() - sessions[-1].started_at) if writer and sessions else run.wall,
        ending="" if writer or complete or stopped else clip(run.ending or "", 500),
        rule=clip(stopped["rule"]) if stopped else "",
        writer=writer,
        speed=_speed(sessions, ended) if writer else 0.0,
    )


def _speed(sessions: Sequence[RunSession], ended: Outcomes) -> float:
    if not sessions:
        return 0.0
    began = sessions[-1].started_at
    return int((ended["ended_at"] >= began).sum()) / max(1e-3, time.time() - began)


class Runs:
    """All runs below `root`. A summary is read again only when a file that it was read from has changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[Path, tuple[Signature, RunSummary]] = {}
        self._going_on: dict[Path, tuple[float, RunSummary]] = {}
        self._lock = threading.Lock()
        self._readers = Readers()
        self._under_way: dict[Path, tuple[Future[RunSummary], float]] = {}

    def all(self) -> list[RunSummary]:
        """Return a summary of every run, the newest first. One that cannot be read in time is listed as such.

        Shards whose episodes are all in the merged run beside them are left out.
        """
        deadline = time.monotonic() + _PATIENCE_WITH_ALL
        found = [
            self.summary(directory, min(_PATIENCE, max(_LEAST_PATIENCE, deadline - time.monotonic())))
            for directory in find(self.root)
        ]
        with self._lock:
            there = {self.root / summary.path for summary in found}
            self._known = {path: kept for path, kept in self._known.items() if path in there}
            self._under_way = {path: kept for path, kept in self._under_way.items() if not kept[0].done()}
        return sorted(_without_merged_shards(found), key=lambda summary: (-summary.began, summary.path))

    def at(self, relative: str) -> Path | None:
        """Return the run directory that a request names, if there is one."""
        directory = inside(self.root, relative)
        return directory if directory is not None and (directory / DATABASE).is_file() else None

    def summary(self, directory: Path, patience: float = 10.0) -> RunSummary:
        """Return what is known of one run, after `patience` seconds at most."""
        try:
            future, started = self._read(directory)
            # Who is being read for long already is not waited for again.
            return future.result(max(0.0, started + patience - time.monotonic()))
        except TimeoutError:
            why = "Reading it takes a while. It is shown here once it is done."
        except BusyError:
            why = "Too many other runs here are still being read."
        return unreadable(self.root, directory, why)

    def _read(self, directory: Path) -> tuple[Future[RunSummary], float]:
        with self._lock:
            under_way = self._under_way.get(directory)
            if under_way is None or under_way[0].done():
                under_way = self._readers.start(directory, self._summary, directory), time.monotonic()
                self._under_way[directory] = under_way
            return under_way

    def _recent(self, directory: Path, writer: str) -> RunSummary:
        """Return the summary of a run that goes on, read anew if the last reading is some time ago."""
        known = self._going_on.get(directory)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        began = time.monotonic()
        summary = summarise(self.root, directory, writer)
        ended = time.monotonic()
        if ended - began > _LONG:
            self._going_on[directory] = ended + _REST * (ended - began), summary
        return summary

    def _summary(self, directory: Path) -> RunSummary:
        writer = writer_of(directory)
        if writer is not None:  # it changes all the time
            return self._recent(directory, writer)
        now = signature(directory)
        with self._lock:
            known = self._known.get(directory)
        if known is not None and known[0] == now:
            return known[1]
        summary = summarise(self.root, directory, None)
        with self._lock:
            self._known[directory] = (now, summary)
        return summary


def _without_merged_shards(found: Sequence[RunSummary]) -> list[RunSummary]:
    """Leave out shards that are in a merged run: nobody writes them, and together they hold no more."""
    ended = {run.path: run.ended for run in found}
    in_shards: Counter[str] = Counter()
    for run in found:
        if run.shards_of is not None:
            in_shards[run.shards_of] += run.ended

    def is_merged(run: RunSummary) -> bool:
        place = run.shards_of
        return place in ended and in_shards[place] <= ended[place] and run.state not in ("running", "unreadable")

    return [run for run in found if not is_merged(run)]


def find(root: Path) -> Iterator[Path]:
    """Yield every folder with a run, at any depth. Links to folders are not followed, hidden ones left out."""
    waiting = [root]
    for _ in range(_MOST_FOLDERS):
        if not waiting:
            return
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                inner = {entry.name: entry for entry in entries if not entry.name.startswith(".")}
                folders = [name for name, entry in inner.items() if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue  # gone meanwhile, or not ours to read
        holds_a_run = DATABASE in inner and DATABASE not in folders
        if holds_a_run:
            yield folder
        waiting += [folder / name for name in folders if not (holds_a_run and name in _OF_A_RUN)]


def signature(directory: Path) -> Signature:
    """Return what changes when a run is written to."""
    return tuple(_mark(directory / name) for name in SOURCES)


def _mark(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.lstat()
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else (0, 0, 0)
