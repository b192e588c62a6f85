"""One writer per run directory: a lock that the kernel drops with its holder, however that ends.

It is `flock`'s, which belongs to the open file: two runs in one process exclude each other, and whoever else in
the process opens and closes the file (a viewer does) drops nothing. POSIX record locks would do neither. On NFS
the kernel makes of it a lock at the server, which other hosts see. The price is that a fork holds the file open,
and with it the lock, after its parent; so a fork closes it at once. One that Python does not hear of, in a C
library, cannot be helped: who comes second is told its number.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from proctor.errors import RunLockedError, UsageError
from proctor.files import NotRegularError, check_regular, given_path, open_regular, parse_json, special_file_in

_HELD: dict[int, RunLock] = {}
"""The locks of this process, by descriptor."""

FOLDERS = ("videos", "dataset", "recording", "logs")
"""What a run directory's writer, and its children, write into."""


LETTING_GO = 1.0
"""Seconds that a fork of a holder that was killed may need until it has run at all, and closed the lock."""


class RunLock:
    """An exclusive lock on a run directory that names its holder to whoever comes second.

    Args:
        directory: what is locked.
        name: the lock's file; the launcher of a run's shards has one of its own beside the writer's.
    """

    def __init__(self, directory: Path, name: str = "lock") -> None:
        self._path = directory / name
        self._descriptor = -1

    def __enter__(self) -> RunLock:
        self._descriptor = self._open()
        try:
            self._take()
        except OSError as error:
            refusal = self._refusal(error)
            os.close(self._descriptor)
            raise refusal from None
        _HELD[self._descriptor] = self
        note = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps(note).encode(), 0)
        return self

    def _take(self) -> None:
        """Lock the file, or raise `OSError`. Who holds it for a dead owner gets a moment to release it."""
        end = time.monotonic() + LETTING_GO
        while True:
            try:
                return fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end or not _has_ended(_note(self._descriptor)):
                    raise
                time.sleep(0.01)

    def _open(self) -> int:
        """Open the lock's file, and look around: whoever holds the lock writes here, and nowhere else."""
        directory = self._path.parent
        try:
            # A link would be followed to a file that is then emptied.
            check_regular(self._path, follow=False)
            special = special_file_in(directory, FOLDERS)
        except NotRegularError as error:
            special = str(error)
        if special is not None:
            raise UsageError(f"{special}. Nothing is written there: move it away, or use another --output_dir.")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        with given_path(self._path, remedy="Is it another user's? Use another --output_dir."):
            return os.open(self._path, flags, 0o644)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if _HELD.pop(self._descriptor, None) is not self:
            return  # this is a fork: the lock is its parent's
        # The file stays: removing it would let a third process lock a new inode while a second holds the old.
        with contextlib.suppress(OSError):  # a name that stays is of nobody who lives
            os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)

    def _refusal(self, error: OSError) -> UsageError:
        """Return why there is no lock, in words."""
        directory = self._path.parent
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            return UsageError(
                f"{directory} lies on a file system without locks ({error.strerror}): nothing would keep a second "
                "process from writing there. Use an --output_dir on another disk, and copy the run afterwards."
            )
        note = _note(self._descriptor)
        left = _left_holding(self._descriptor, note)
        if left:
            return RunLockedError(
                f"{directory} is still locked by {left}, which a run that has ended left behind. "
                "End that process, or choose another --output_dir."
            )
        return RunLockedError(
            f"{directory} is being written by {_words(note)}. "
            "Wait for it, stop it, or choose another --output_dir."
        )


def _let_go() -> None:
    """In a forked child: close every lock; the parent goes on holding it."""
    for descriptor in _HELD:
        os.close(descriptor)
    _HELD.clear()


os.register_at_fork(after_in_child=_let_go)


def writer_of(directory: Path) -> str | None:
    """Return who writes to a run directory right now, in words, or `None`. It writes nothing itself."""
    try:
        descriptor = open_regular(directory / "lock", follow=False)
    except OSError:
        return None
    try:
        note = _note(descriptor)
        if note is None or _has_ended(note):
            return None  # who lets go wipes its name; who is killed leaves it
        # A lock that is tried for is held for a moment, in which nobody else gets it. That is why the name is read
        # first: all that is left is a killed run whose process number is taken again, or that ran on another host.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _words(note)
    except OSError:  # a file system without locks
        return None
    finally:
        os.close(descriptor)


def _note(descriptor: int) -> dict[str, Any] | None:
    try:
        note = parse_json(os.pread(descriptor, 4096, 0))
    except (ValueError, OSError):
        return None
    return note if isinstance(note, dict) else None


def _words(note: dict[str, Any] | None) -> str:
    try:
        return f"process {note['pid']} on {note['host']} since {note['since']}" if note else "another process"
    except KeyError:
        return "another process"


def _left_holding(descriptor: int, note: dict[str, Any] | None) -> str:
    """Return the process that holds the lock's file open for an owner on this host that has ended, if any."""
    if not _has_ended(note):
        return ""
    wanted = os.fstat(descriptor)
    for open_file in Path("/proc").glob("[0-9]*/fd/*"):
        pid = int(open_file.parts[2])
        with contextlib.suppress(OSError):
            if pid != os.getpid() and os.path.samestat(open_file.stat(), wanted):
                return f"process {pid}"
    return ""


def _has_ended(note: dict[str, Any] | None) -> bool:
    """Return whether a lock's note names a process of this host that is gone."""
    if note is None or note.get("host") != socket.gethostname():
        return False
    pid = note.get("pid")
    return not (isinstance(pid, int) and Path(f"/proc/{pid}").exists())
