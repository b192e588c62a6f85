"""The runs below a folder, found by their `run.sqlite`, and each in a line."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

from proctor.store.lock import writer_of
from proctor.store.run_directory import DATABASE
from proctor.viewer.files import inside
from proctor.viewer.readers import BusyError, Readers
from proctor.viewer.summaries import SOURCES, RunSummary, summarise, unreadable

_OF_A_RUN = ("videos", "logs", "dataset", "recording")
_MOST_FOLDERS = 100_000

_PATIENCE, _LEAST_PATIENCE, _PATIENCE_WITH_ALL = 2.0, 0.05, 5.0
"""Seconds that a list waits for one run, for one more when it has waited long, and before it has waited long."""

_LONG, _REST = 1.0, 4.0
"""A run that goes on and took longer than so many seconds to read is not read again for so many times as long: one
of a million episodes takes many, and a page asks every second."""

Signature = tuple[tuple[int, int, int] | None, ...]


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
