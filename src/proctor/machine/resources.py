"""The cores and the memory that this process may really use, by affinity and control groups."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")
MEMINFO = Path("/proc/meminfo")

_CORE_FILES = {1: ("cpu.cfs_quota_us", "cpu.cfs_period_us"), 2: ("cpu.max",)}
_MEMORY_FILES = {1: ("memory.limit_in_bytes", "memory.usage_in_bytes"), 2: ("memory.max", "memory.current")}


def usable_cores(root: Path = CGROUPS, own: Path = OWN_CGROUPS) -> int:
    """Return the cores that can work for this process, at least 1."""
    cores = len(os.sched_getaffinity(0))
    for version, level in _levels("cpu", root, own):
        try:
            quota, period = " ".join((level / name).read_text() for name in _CORE_FILES[version]).split()
            if quota not in ("max", "-1"):
                cores = min(cores, math.ceil(int(quota) / int(period)))
        except (OSError, ValueError):
            continue
    return max(1, cores)


def available_memory(meminfo: Path = MEMINFO, root: Path = CGROUPS, own: Path = OWN_CGROUPS) -> int:
    """Return the bytes that can still be taken, 0 where nobody tells."""
    free = kernel_bytes(meminfo, "MemAvailable")
    for version, level in _levels("memory", root, own):
        try:
            limit, used = ((level / name).read_text().strip() for name in _MEMORY_FILES[version])
            cache = _reclaimable(level)
            if limit != "max":
                free = min(free, max(0, int(limit) - int(used) + cache))
        except (OSError, ValueError):
            continue
    return free


def kernel_bytes(file: Path, name: str) -> int:
    """Return a number of bytes that the kernel tells under that name, in a file of lines; 0 if it does not."""
    try:
        for line in file.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 0


def _reclaimable(level: Path) -> int:
    # Cached files count as used; the kernel drops them before it kills anybody.
    try:
        rows = dict(line.split() for line in (level / "memory.stat").read_text().splitlines())
        return int(rows.get("inactive_file", rows.get("total_inactive_file", 0)))
    except (OSError, ValueError):
        return 0


def _levels(controller: str, root: Path, own: Path) -> Iterator[tuple[int, Path]]:
    """Yield the version (1 or 2) and the folder of each control group that this process is in, innermost first.

    Limits of a container or a batch job stand there.
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            yield from ((2, level) for level in _up(root, path))
        elif controller in controllers.split(","):
            yield from ((1, level) for level in _up(root / controller, path))


def _up(root: Path, path: str) -> list[Path]:
    here = root / path.strip("/")
    return [here, *(parent for parent in here.parents if parent == root or root in parent.parents)]
