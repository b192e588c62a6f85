"""The current directory: where `outputs/` goes unless --output_dir says otherwise."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from proctor.doctor.findings import Finding

SECTION = "machine"

_LITTLE = 1 << 30
_REMEDY = "cd to a directory that can be written, or give --output_dir=DIRECTORY"


def look_at_directory() -> list[Finding]:
    """Write a file that has no name, and look at the space that is left."""
    try:
        here = Path.cwd()
        with tempfile.TemporaryFile(dir=here) as probe:
            probe.write(b"proctor")
            probe.flush()
        free = shutil.disk_usage(here).free
    except OSError as error:
        text = f"cannot be written: {error.strerror or error}"
        return [Finding(SECTION, "directory", "broken", text, _REMEDY, needed=True)]
    return [space_finding(here, free)]


def space_finding(here: Path, free: int) -> Finding:
    """Judge the bytes that are left in a directory that can be written."""
    text = f"{free / 2**30:.1f} GiB free in {here}"
    if free >= _LITTLE:
        return Finding(SECTION, "directory", "ok", text, needed=True)
    return Finding(SECTION, "directory", "note", text, "free some space: videos need it", needed=True)
