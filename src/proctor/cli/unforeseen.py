"""The outermost net: whatever a command raises becomes one line, with everything else in a file beside.

Mistakes that were foreseen are `ProctorError`s and say themselves what to do. This is for all others: ours, those
of packages, and those of a user's own code that runs in this process.
"""

from __future__ import annotations

import contextlib
import errno
import platform
import re
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import proctor
from proctor.blame import frames_of, named
from proctor.errors import EXIT_FAILED
from proctor.files import clip

_ENDLESS = re.compile(r"\S{600,}")
_MOST_SAID = 8_000
"""Characters of a message: a page of differences between two runs, and no more."""


def say(message: str) -> None:
    """Write a message to standard error, whatever it quotes: bounded, and with no control code in it."""
    message = _ENDLESS.sub(lambda found: f"{found[0][:200]}...", message)
    if len(message) > _MOST_SAID:
        message = f"{message[:_MOST_SAID]}..."
    sys.stderr.write("".join(map(_printed, f"proctor: {message}\n")))
    sys.stderr.flush()


def report_unforeseen(error: BaseException, arguments: Sequence[str]) -> int:
    """Tell of an error that nobody foresaw, and keep what is needed to mend it; returns the exit status."""
    story = _story(error, arguments)
    try:
        descriptor, path = tempfile.mkstemp(prefix="proctor-", suffix=".txt", text=True)
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(story)
    except OSError:
        say(f"{_words(error)} The traceback follows.\n{story.rstrip()}")
    else:
        say(f"{_words(error)} The traceback is in {path}")
    return EXIT_FAILED


def _words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return "too many files are open at once. Raise the limit, for example: ulimit -n 4096."
    if isinstance(error, MemoryError):
        return "there is no memory left."
    if isinstance(error, SystemExit):
        return f"{_place(error)} called sys.exit({clip(error.code, 60)}), which ends no command of Proctor's."
    return f"unforeseen {named(error)}. Please report it."


def _place(error: BaseException) -> str:
    frames = frames_of(error, 1)
    return frames[-1].partition("\n")[0].strip() if frames else "something"


def _story(error: BaseException, arguments: Sequence[str]) -> str:
    facts = {
        "command": shlex.join(["proctor", *arguments]),
        "directory": _directory(),
        "time": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "proctor": proctor.__version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "packages": _packages(),
    }
    lines = [f"{name}: {value}" for name, value in facts.items()]
    return "\n".join([*lines, "", *traceback.format_exception(error)])


def _directory() -> str:
    try:
        return str(Path.cwd())
    except OSError as error:
        return f"gone ({error.strerror})"


def _packages() -> str:
    from importlib import metadata

    with contextlib.suppress(Exception):  # one damaged package must not hide the rest of the story
        loaded = {name.partition(".")[0] for name in sys.modules}
        owners = metadata.packages_distributions()
        found = sorted({owner for name in loaded for owner in owners.get(name, ())})
        return ", ".join(f"{name} {metadata.version(name)}" for name in found)
    return "unknown"


def _printed(letter: str) -> str:
    return letter if letter.isprintable() or letter in "\n\t" else ascii(letter)[1:-1]
