"""What a file or folder holds, in one hash: where it lies does not matter."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path


def content_hash(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, or of a folder's relative names and bytes.

    Links are followed. Compiled Python is left out: it says nothing that its source does not.

    Raises:
        OSError: something in it cannot be read.
    """
    if not path.is_dir():
        return _file_hash(path)
    whole = hashlib.sha256()
    for name in sorted(_names(path)):
        whole.update(f"{name}\0{_file_hash(path / name)}\n".encode())
    return whole.hexdigest()


def _names(folder: Path) -> Iterator[str]:
    for place, folders, files in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in files:
            yield str((Path(place) / name).relative_to(folder))


def _file_hash(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
