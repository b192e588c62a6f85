"""Files that somebody else may have put where ours are expected: read only if regular, and never without a bound.

A pipe or a device would be waited for, a link may lead anywhere, and a size may be more than the memory. A path
that a user gives may be anything at all: what the system says against it becomes one line here.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from proctor.errors import StoreError, UsageError

MOST_JSON = 64 << 20
"""Bytes of a JSON file that is read as a whole."""

_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW


_REASONS = {
    errno.ENOENT: "there is no such file or folder",
    errno.ENOTDIR: "a part of this path is a file, not a folder",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ENAMETOOLONG: "the name is too long for the file system",
    errno.ELOOP: "its links lead in a circle",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EMFILE: "too many files are open (ulimit -n)",
}


def reason(error: BaseException) -> str:
    """Say in a few words what the system has against a path.

    >>> reason(OSError(errno.ENOSPC, "No space left on device"))
    'the disk is full'
    """
    if isinstance(error, OSError):
        return _REASONS.get(error.errno or 0) or clip(error.strerror or str(error))
    if isinstance(error, UnicodeError):
        return "the name has characters that file names cannot have here"
    return "the name has a zero byte in it" if "null" in str(error) else clip(str(error))


@contextlib.contextmanager
def given_path(path: Path | str, flag: str = "", remedy: str = "") -> Iterator[None]:
    """Turn what the system says against a path that the user gave into one `UsageError`.

    Args:
        path: as the user wrote it.
        flag: the flag it was given with, without dashes; empty: none.
        remedy: what to do, where there is more to say than that another path is needed.
    """
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:  # a zero byte; `~nobody`, or links in a circle
        raise UsageError(
            f"{f'--{flag}=' if flag else ''}{clip(str(path), 300)}: {reason(error)}.{remedy and f' {remedy}'}"
        ) from None


def check_folder(path: Path, what: str = "folder", remedy: str = "") -> None:
    """Raise `UsageError` if a path that the user gave is no folder that can be looked into."""
    with given_path(path, remedy=remedy):
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            raise UsageError(
                f"{clip(str(path), 300)}: there is no such {what}.{remedy and f' {remedy}'}"
            ) from None
        if not stat.S_ISDIR(mode):
            raise UsageError(f"{clip(str(path), 300)} is {_kind(mode)}, not a {what}.{remedy and f' {remedy}'}")
        with os.scandir(path):  # may be forbidden, although it is there
            pass


def check_output_file(path: Path, flag: str = "output") -> None:
    """Raise `UsageError` if no file can be written at a path that the user gave for one."""
    with given_path(path, flag):
        if path.is_dir():
            raise UsageError(f"--{flag}={path} is a directory. Name a file in it.")
        check_regular(path)
        if not path.absolute().parent.is_dir():
            raise UsageError(f"--{flag}={path}: there is no directory {path.absolute().parent}.")


def is_folder(path: Path | str) -> bool:
    """Whether there is a folder at a path, which may be any text."""
    try:
        return Path(path).expanduser().is_dir()
    except (OSError, ValueError, RuntimeError):
        return False


def is_there(path: Path | str) -> bool:
    """Whether there is anything at a path, which may be any text."""
    try:
        return Path(path).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False


class NotRegularError(OSError):
    """Where a file should be there is a pipe, a device, a folder, or a link that may not be followed."""


def check_regular(path: Path, *, follow: bool = True) -> None:
    """Raise `NotRegularError` if there is something at `path` that is no regular file; nothing at all is fine.

    Args:
        path: where the file is, or will be made.
        follow: whether a link to a regular file will do. What is written to must be no link.
    """
    try:
        mode = path.stat(follow_symlinks=follow).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise NotRegularError(f"{path} is a link to nothing") from None
        return
    if not stat.S_ISREG(mode):
        raise NotRegularError(f"{path} is {_kind(mode)}, not a regular file")


def open_regular(path: Path, *, follow: bool = True, folder: int | None = None) -> int:
    """Open a regular file for reading, without ever waiting for it; returns its descriptor."""
    # Looked at before, because opening a device can do something; and after, because it may have been replaced.
    mode = os.stat(path, dir_fd=folder, follow_symlinks=follow).st_mode
    if not stat.S_ISREG(mode):
        raise NotRegularError(f"{path} is {_kind(mode)}, not a regular file")
    descriptor = os.open(path, _READING | (0 if follow else os.O_NOFOLLOW), dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegularError(f"{path} is no regular file")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def open_below(root: Path, relative: str) -> Iterator[int]:
    """Open the regular file that a foreign run names, following no link below `root`. Raises `OSError`."""
    parts = PurePosixPath(relative).parts
    if not parts or relative.startswith("/") or ".." in parts or "\0" in relative:
        raise NotRegularError(f"{relative[:200]!r} does not lie below {root}")
    with contextlib.ExitStack() as stack:
        folder = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
        stack.callback(os.close, folder)
        for part in parts[:-1]:
            folder = os.open(part, _FOLDER, dir_fd=folder)
            stack.callback(os.close, folder)
        descriptor = open_regular(Path(parts[-1]), follow=False, folder=folder)
        stack.callback(os.close, descriptor)
        yield descriptor


def is_below(root: Path, relative: str) -> bool:
    """Whether there is a regular file at `relative`, with no link on the way to it."""
    try:
        with open_below(root, relative):
            return True
    except (OSError, ValueError):
        return False


def read_regular(path: Path, most: int) -> bytes:
    """Return the content of a regular file of at most `most` bytes. Raises `OSError`."""
    descriptor = open_regular(path)
    try:
        return read_descriptor(descriptor, most, path)
    finally:
        os.close(descriptor)


def read_descriptor(descriptor: int, most: int, path: Path) -> bytes:
    """Return what an open file holds, if that is no more than `most` bytes. Raises `OSError`."""
    pieces, left = [], most + 1
    while left and (piece := os.read(descriptor, min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    if not left:
        raise OSError(f"{path} is larger than {_size(most)}")
    return b"".join(pieces)


def read_json(path: Path, most: int = MOST_JSON) -> Any:
    """Return what a JSON file holds. Raises `OSError`, or `ValueError` if it is no JSON."""
    return parse_json(read_regular(path, most))


def parse_json(text: str | bytes) -> Any:
    """Return JSON as values. Raises `ValueError`, also for one that is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def special_file_in(directory: Path, folders: Sequence[str]) -> str | None:
    """Say what in these folders of a directory would make a writer wait, or write elsewhere; `None`: nothing.

    Links that stay inside are fine: packages that log into a run make some.
    """
    root = directory.resolve()
    waiting = [directory / name for name in folders]
    while waiting:
        entry = waiting.pop()
        try:
            mode = entry.lstat().st_mode
            if stat.S_ISDIR(mode):
                waiting += [Path(found.path) for found in os.scandir(entry)]
            elif stat.S_ISLNK(mode):
                if not entry.resolve(strict=True).is_relative_to(root):
                    return f"{entry} is a link that leads out of {directory}"
            elif not stat.S_ISREG(mode):
                return f"{entry} is {_kind(mode)}"
        except (OSError, RuntimeError):
            if entry.is_symlink():
                return f"{entry} is a link that leads nowhere"
            continue  # not there, or gone meanwhile
    return None


@contextlib.contextmanager
def as_written_by_proctor(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong in reading a run that somebody else may have made into one line about it."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError, OSError) as error:
        reason = clip(f"{type(error).__name__}: {error}")
        raise StoreError(f"{path} is not as Proctor writes it ({reason}).") from None


def clip(value: Any, most: int = 200) -> str:
    """Return a value as text in one line that is never long, whatever the value is."""
    text = value if isinstance(value, str) else _brief(value)
    text = " ".join(text[: 4 * most].split()) if len(text) > most or "\n" in text else text
    return text if len(text) <= most else f"{text[:most]}..."


def _brief(value: Any) -> str:
    import reprlib

    if value is None or isinstance(value, (bool, float)):
        return str(value)
    brief = reprlib.Repr()
    brief.maxstring = brief.maxother = 120
    brief.maxdict = brief.maxlist = brief.maxtuple = 8
    brief.maxlevel = 3
    try:
        return brief.repr(value)
    except ValueError:  # Python writes no number of thousands of digits
        return f"{'' if isinstance(value, int) else 'something with '}a number of thousands of digits"


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFDIR: "a folder",
        stat.S_IFLNK: "a link",
        stat.S_IFREG: "a file",
    }
    return kinds.get(stat.S_IFMT(mode), "something else")


def _size(number: int) -> str:
    return f"{number >> 20} MiB" if number >= 1 << 20 else f"{number >> 10} KiB"
