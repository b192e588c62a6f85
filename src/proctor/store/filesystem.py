"""What the run directory's file system is and can take, and files that are either whole or not there."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from proctor.errors import RunGoneError, StoreError, UsageError
from proctor.files import clip, given_path, reason

NETWORK_FILE_SYSTEMS = {
    "9p", "afs", "beegfs", "ceph", "cifs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4",
    "orangefs", "panfs", "smb3", "smbfs", "virtiofs", "wekafs",
}  # fmt: skip

_BASE_BYTES = 2 << 20
_EPISODE_BYTES = 4 << 10


def filesystem_type(path: Path) -> str:
    """Return the type of the mount that holds `path`, or "" where /proc does not tell."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    target, best, kind = os.path.realpath(path), "", ""
    for line in lines:
        left, _, right = line.partition(" - ")
        # The kernel writes white space and backslashes in octal.
        mount = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), left.split()[4])
        inside = target == mount or target.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, right.split()[0]
    return kind


def is_network(path: Path) -> bool:
    """Whether `path` lies on a network file system, where SQLite's WAL mode is unsafe."""
    return filesystem_type(path) in NETWORK_FILE_SYSTEMS


def missing_folders(path: Path) -> list[Path]:
    """Return the folders that have to be made for `path` to be there, the deepest first. Raises `UsageError`."""
    with given_path(path, remedy="Choose another --output_dir."):
        return [folder for folder in (path, *path.parents) if not folder.exists()]


def prepare_directory(path: Path, episodes: int) -> None:
    """Create `path` and make sure that it can be written and has room for `episodes` results."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as probe:
            probe.write(b"proctor")
    except OSError as error:
        raise UsageError(
            f"cannot write to {clip(str(path), 300)}: {reason(error)}. Choose another --output_dir."
        ) from None
    free, needed = shutil.disk_usage(path).free, _BASE_BYTES + episodes * _EPISODE_BYTES
    if free < needed:
        raise StoreError(
            f"{path} has {free / 2**20:.1f} MB free and this run needs about {needed / 2**20:.1f} MB. "
            "Free some space or choose another --output_dir."
        )


class OpenFile:
    """A file that this process holds open and writes to, as long as it lies where it did.

    Whoever deletes or moves a directory does not disturb those who have its files open: they would go on writing
    into what nobody will find. The file is not opened again to look: closing it would drop SQLite's locks on it.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._known = path, _identity(path.stat())

    def check(self) -> None:
        """Raise `RunGoneError` if it has been deleted, moved away or replaced."""
        try:
            there: os.stat_result | None = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            there = None
        except OSError:
            return  # a server that does not answer at the moment; who writes is told
        if there is None or _identity(there) != self._known:
            self._look_around(there)

    def _look_around(self, there: os.stat_result | None) -> None:
        directory, now_at = self._path.parent, None
        for number in Path("/proc/self/fd").iterdir():
            try:
                held, name = number.stat(), number.readlink()
            except OSError:
                continue
            if there is not None and os.path.samestat(held, there):
                self._known = _identity(there)  # some file systems number their files anew
                return
            # NFS keeps what is deleted while it is open, under such a name.
            if _identity(held) == self._known and held.st_nlink and not name.name.startswith(".nfs"):
                now_at = name
        if now_at is not None:
            raise RunGoneError(
                f"{directory} was moved to {now_at.parent} while this run was writing to it. "
                f"What had ended by then is there. To go on: proctor eval --resume={now_at.parent}"
            )
        how = "deleted" if there is None else "deleted and made anew"
        raise RunGoneError(
            f"{directory} was {how} while this run was writing to it: the episodes that had ended are lost. "
            "The same command starts over."
        )


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def write_text(path: Path, text: str) -> None:
    """Write `text` so that a reader, or a crash, sees the old file or the new one and nothing between."""
    # Half a character, from a file name that is no text, is spelled out.
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` likewise."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "Free some space" if full else "Mend that"
        raise StoreError(f"cannot write {path}: {reason(error)}. {hint}, then try again.") from error


def write_json(path: Path, value: Any) -> None:
    """Write strict JSON: a number that is not finite becomes null."""
    write_text(path, json.dumps(finite(value), indent=2, allow_nan=False) + "\n")


def finite(value: Any) -> Any:
    """Return `value` with every NaN and infinity replaced by `None`, which JSON can hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value
