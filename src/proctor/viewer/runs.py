"""The runs below a folder, found by their `run.sqlite` and read without touching it."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

from proctor.store.lock import writer_of
from proctor.store.run_directory import DATABASE
from proctor.viewer.safety import inside
from proctor.viewer.summary import SOURCES, Summary, summarise

_OF_A_RUN = ("videos", "logs")

_Signature = tuple[tuple[int, int, int] | None, ...]


class Runs:
    """All runs below `root`. A summary is read again only when a file that it was read from has changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[Path, tuple[_Signature, Summary]] = {}
        self._lock = threading.Lock()

    def all(self) -> list[Summary]:
        """Return a summary of every run, the newest first."""
        found = [self.summary(directory) for directory in find(self.root)]
        with self._lock:
            there = {self.root / summary.path for summary in found}
            self._known = {path: kept for path, kept in self._known.items() if path in there}
        return sorted(found, key=lambda summary: (-summary.began, summary.path))

    def at(self, relative: str) -> Path | None:
        """Return the run directory that a request names, if there is one."""
        directory = inside(self.root, relative)
        return directory if directory is not None and (directory / DATABASE).is_file() else None

    def summary(self, directory: Path) -> Summary:
        """Return what is known of one run."""
        writer = writer_of(directory)
        if writer is not None:
            return summarise(self.root, directory, writer)  # it changes all the time
        signature = _signature(directory)
        with self._lock:
            known = self._known.get(directory)
        if known is not None and known[0] == signature:
            return known[1]
        summary = summarise(self.root, directory, None)
        with self._lock:
            self._known[directory] = (signature, summary)
        return summary


def find(root: Path) -> Iterator[Path]:
    """Yield every folder with a run, at any depth. Links to folders are not followed, hidden ones left out."""
    waiting = [root]
    while waiting:
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


def _signature(directory: Path) -> _Signature:
    return tuple(_mark(directory / name) for name in SOURCES)


def _mark(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.lstat()
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else (0, 0, 0)
