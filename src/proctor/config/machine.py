"""What this process may really use: cores by affinity and cgroup quota, not what the machine has; free memory."""

from __future__ import annotations

import math
import os
from pathlib import Path


def usable_cores(cgroup_root: Path = Path("/sys/fs/cgroup"), own_cgroup: Path = Path("/proc/self/cgroup")) -> int:
    """Return the cores that can work for this process, at least 1."""
    cores = len(os.sched_getaffinity(0))
    quota = _cgroup_quota(cgroup_root, own_cgroup)
    return max(1, min(cores, math.ceil(quota)) if quota is not None else cores)


def _cgroup_quota(root: Path, own: Path) -> float | None:
    """Return the tightest CPU quota on the way from this process's cgroup to the root, in cores."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return None
    quotas = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":  # cgroup v2
            quotas += [_read_v2(level / "cpu.max") for level in _levels(root, path)]
        elif "cpu" in controllers.split(","):  # cgroup v1
            quotas += [_read_v1(level) for level in _levels(root / "cpu", path)]
    known = [quota for quota in quotas if quota is not None]
    return min(known) if known else None


def _levels(root: Path, path: str) -> list[Path]:
    here = root / path.strip("/")
    return [here, *(parent for parent in here.parents if parent == root or root in parent.parents)]


def _read_v2(file: Path) -> float | None:
    try:
        quota, period = file.read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return None


def _read_v1(directory: Path) -> float | None:
    try:
        quota = int((directory / "cpu.cfs_quota_us").read_text())
        return None if quota <= 0 else quota / int((directory / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None


def available_memory(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Return the bytes that the machine can still give, 0 where nobody tells."""
    try:
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 0
