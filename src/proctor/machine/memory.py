"""The memory that this process may still take: what the machine has free, and what its cgroup leaves."""

from __future__ import annotations

from pathlib import Path

from proctor.machine import cgroup

MEMINFO = Path("/proc/meminfo")

_FILES = {1: ("memory.limit_in_bytes", "memory.usage_in_bytes"), 2: ("memory.max", "memory.current")}


def available_memory(meminfo: Path = MEMINFO, root: Path = cgroup.ROOT, own: Path = cgroup.OWN) -> int:
    """Return the bytes that can still be taken, 0 where nobody tells."""
    free = _machine_free(meminfo)
    for version, level in cgroup.levels("memory", root, own):
        try:
            limit, used = ((level / name).read_text().strip() for name in _FILES[version])
            cache = _reclaimable(level)
            if limit != "max":
                free = min(free, max(0, int(limit) - int(used) + cache))
        except (OSError, ValueError):
            continue
    return free


def _machine_free(meminfo: Path) -> int:
    try:
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
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
