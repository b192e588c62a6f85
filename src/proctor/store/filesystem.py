"""What the run directory's file system is and can take."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from proctor.errors import StoreError, UsageError
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
