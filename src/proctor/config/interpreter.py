"""How another Python process finds this very package, and how it ended."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from proctor import __version__


def package_environment() -> dict[str, str]:
    """Return the PYTHONPATH a child needs when Proctor runs from a source tree instead of an installation."""
    root = str(Path(__file__).parents[2])
    if Path(root).name in ("site-packages", "dist-packages"):
        return {}
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def other_version(asked: str) -> str | None:
    """Say what to do if another process wants another Proctor than this interpreter has; `None` if all is well."""
    if asked == __version__:
        return None
    return (
        f"{sys.executable} has Proctor {__version__}, this is {asked}. "
        f"Run: {sys.executable} -m pip install proctor=={asked}"
    )


def describe_exit(code: int | None) -> str:
    """Say in words how a process ended; `None` is an exit code that nobody can know.

    >>> describe_exit(-9)
    'was killed by SIGKILL (out of memory, or by hand)'
    >>> describe_exit(1)
    'exited with status 1'
    """
    if code is None:
        return "ended, how is unknown (the process that runs the evaluation ignores SIGCHLD)"
    if code >= 0:
        return f"exited with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}" + (" (out of memory, or by hand)" if code == -signal.SIGKILL else "")
