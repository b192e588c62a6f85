"""A node's own folder: unpacked files, videos on their way to the driver, and logs, which stay."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from proctor.errors import UsageError
from proctor.store.lock import RunLock
from proctor.store.run_directory import RunDirectory

_MOST_LOG = 1 << 16
_DAYS = 7
"""How long the logs of a run stay on a node."""


class NodeFolder:
    """The layout of the folder; it is a run directory without a store, and with `files`."""

    def __init__(self, path: Path) -> None:
        self.run = RunDirectory(path)
        self.files = path / "files"

    def clear(self) -> None:
        """Remove all but logs that say something."""
        path = self.run.path
        shutil.rmtree(self.files, ignore_errors=True)
        for kept in ("videos", "recording"):  # what is there was sent, or belongs to no episode that ended
            shutil.rmtree(path / kept, ignore_errors=True)
        self.run.remove_leftovers()
        if not list(self.run.logs.glob("*")):
            shutil.rmtree(path, ignore_errors=True)

    def log_ends(self) -> dict[str, bytes]:
        """Return the end of every log that says something, by its name."""
        logs = [log for log in self.run.logs.glob("*.log") if log.stat().st_size]
        return {log.name: log.read_bytes()[-_MOST_LOG:] for log in logs}


@contextmanager
def node_folder(name: str) -> Iterator[NodeFolder]:
    """Have a folder of this name, held by this process; cleared at the end, with those of processes that died."""
    home = Path(tempfile.gettempdir()) / f"proctor-nodes-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    with ExitStack() as stack:
        # One at a time: a folder that is made but not yet held looks like a dead process's.
        with (home / "door").open("w") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            for other in home.iterdir():
                _clear_if_dead(other)
            path = home / name
            path.mkdir()
            stack.enter_context(RunLock(path))
        folder = NodeFolder(path)
        try:
            yield folder
        finally:
            folder.clear()


def _clear_if_dead(path: Path) -> None:
    try:
        old = time.time() - path.stat().st_mtime > _DAYS * 86400
        with RunLock(path):
            NodeFolder(path).clear()
            if old:
                shutil.rmtree(path)
    except (UsageError, OSError):
        pass  # somebody's, no folder, or no locks here
