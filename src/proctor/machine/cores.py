"""The cores that this process may really use: by affinity and cgroup quota, not what the machine has."""

from __future__ import annotations

import math
import os
from pathlib import Path

from proctor.machine import cgroup


def usable_cores(root: Path = cgroup.ROOT, own: Path = cgroup.OWN) -> int:
    """Return the cores that can work for this process, at least 1."""
    cores = len(os.sched_getaffinity(0))
    quotas = [
        _read_v2(level / "cpu.max") if version == 2 else _read_v1(level)
        for version, level in cgroup.levels("cpu", root, own)
    ]
    tightest = min((quota for quota in quotas if quota is not None), default=float(cores))
    return max(1, min(cores, math.ceil(tightest)))


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
