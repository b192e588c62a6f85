"""Folders for a while. They are known here, so that none stays also when the process ends in the middle.

It imports little, and nothing of ours: whoever ends the process at once looks whether it is loaded.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_folders: set[Path] = set()

_TRIES = 5
"""Somebody may still write into one while it is removed."""


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """Make a folder, and remove it with all that is in it, unless it was handed over by `keep`."""
    folder = Path(tempfile.gettempdir()) / f"{prefix}{secrets.token_hex(8)}"
    _folders.add(folder)  # before it is there: what ends the process may come in between
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        if folder in _folders:
            _remove(folder)


def keep(folder: Path) -> None:
    """Leave a folder to the user, who was told to look there."""
    _folders.discard(folder)


def remove_all() -> None:
    """Remove every folder that is still there: the process is about to end."""
    for folder in list(_folders):
        _remove(folder)


def _remove(folder: Path) -> None:
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            break
    _folders.discard(folder)
