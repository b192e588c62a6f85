"""Whose code failed: what somebody else's code raised, told as one error with the last frames of that code."""

from __future__ import annotations

import contextlib
import linecache
import os
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path

from proctor.errors import ProctorError, UsageError

_OURS = str(Path(__file__).parent) + os.sep
_LIBRARY = str(Path(sysconfig.get_path("stdlib"))) + os.sep
_INSTALLED = f"{os.sep}site-packages{os.sep}"


class UserCodeError(UsageError):
    """A user's own code, or another package's, failed while it was loaded or asked; says where."""


@contextlib.contextmanager
def users_code(what: str) -> Iterator[None]:
    """Turn whatever somebody else's code raises in here into one `UserCodeError` that begins with `what`.

    Also `SystemExit`, and any other way to leave: none of them ends a command. Only Ctrl-C passes, and what says
    itself what is wrong.
    """
    try:
        yield
    except (ProctorError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise UserCodeError(f"{what}: {described(error)}") from error


def described(error: BaseException, most: int = 3) -> str:
    """Return an error in a line, and below it where the user's own code raised it.

    >>> described(ValueError("no wind"))
    'ValueError: no wind'
    """
    line = named(error)
    if isinstance(error, SystemExit):
        line = f"it called sys.exit({error.code!r})" if error.code is not None else "it called sys.exit()"
    return "\n".join([line, *frames_of(error, most)])


def named(error: BaseException) -> str:
    """Return the kind of an error and what it says, in a line that is never long.

    >>> named(KeyboardInterrupt())
    'KeyboardInterrupt'
    """
    try:
        text = str(error.msg if isinstance(error, SyntaxError) and error.filename else error)
    except BaseException:  # it is somebody else's class
        text = "(its message cannot be shown)"
    line = " ".join(f"{type(error).__name__}: {text}".split()).removesuffix(":")
    return line if len(line) <= 500 else f"{line[:500]}..."


def frames_of(error: BaseException, most: int = 3) -> list[str]:
    """Return the last frames of an error that are neither Proctor's nor Python's own, the innermost last.

    Where all of the user's frames are in installed packages, those count.
    """
    if isinstance(error, SyntaxError) and error.filename:
        text = (error.text or "").strip() or linecache.getline(error.filename, error.lineno or 0).strip()
        return [_frame(error.filename, error.lineno, "", text)]
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_OURS, "<frozen"))
        and (not frame.filename.startswith(_LIBRARY) or _INSTALLED in frame.filename)
    ]
    own = [frame for frame in frames if _INSTALLED not in frame.filename] or frames
    return [_frame(frame.filename, frame.lineno, frame.name, frame.line or "") for frame in own[-most:]]


def _frame(file: str, line: int | None, name: str, text: str) -> str:
    where = f"  {file}, line {line}" + (f", in {name}" if name and name != "<module>" else "")
    return f"{where}\n    {text[:200]}" if text else where
