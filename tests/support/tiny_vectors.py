"""Vector environments of the tiny benchmark, and the processes that they run in."""

from __future__ import annotations

import contextlib
import os
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

import psutil

from harness import SUPPORT, descendants
from proctor.config.load import make_env_config
from proctor.config.settings import EnvSettings


def tiny(scratch: Path | None = None, **fields: Any) -> EnvSettings:
    """Return settings of the tiny benchmark."""
    where = {} if scratch is None else {"scratch": str(scratch)}
    return make_env_config(f"{SUPPORT / 'tiny.py'}:Tiny", **{"task": "a", **where, **fields})


def workers() -> list[psutil.Process]:
    """Return the processes that hold environments: the fork server's children."""
    found = []
    for process in descendants(os.getpid()):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.ppid() != os.getpid():
                found.append(process)
    return found


def stop_fork_server() -> None:
    """End Python's fork server and resource tracker, which live as long as their process."""
    server: Any = forkserver._forkserver
    tracker: Any = resource_tracker._resource_tracker
    server._stop()
    tracker._stop()
