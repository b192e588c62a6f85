"""The GPUs, as the driver's own tool tells: nothing of torch or CUDA is loaded to ask."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from proctor.machine.processes import ask_program

_SECONDS, _QUICK_SECONDS = 20, 5
_FIELDS = "index,uuid,name,memory.total,memory.used,driver_version"


class Gpu(NamedTuple):
    """One GPU that this process may use; memory in bytes."""

    number: int
    uuid: str
    name: str
    memory: int
    used: int
    driver: str


class GpuLoad(NamedTuple):
    """What a GPU does at a moment: the percentage of the last moments in which it computed, and bytes in use."""

    number: int
    name: str
    busy: int
    used: int


def visible_gpus() -> list[Gpu]:
    """Return the GPUs that CUDA would number 0, 1, ... here; none where there is no driver."""
    return _chosen(
        [_gpu(row) for row in _query(f"--query-gpu={_FIELDS}", _SECONDS)], os.environ.get("CUDA_VISIBLE_DEVICES")
    )


def gpu_loads() -> list[GpuLoad]:
    """Return how busy the GPUs are that this process may use, as far as the driver tells."""
    rows = _query(f"--query-gpu={_FIELDS},utilization.gpu", _QUICK_SECONDS)
    busy = {row[1]: int(row[-1]) for row in rows if row[-1].isdigit()}
    gpus = _chosen([_gpu(row[:-1]) for row in rows], os.environ.get("CUDA_VISIBLE_DEVICES"))
    return [GpuLoad(gpu.number, gpu.name, busy[gpu.uuid], gpu.used) for gpu in gpus if gpu.uuid in busy]


def alike(gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return those of the first one's kind: another kind gives other bits."""
    return [gpu for gpu in gpus if gpu.name == gpus[0].name]


def spread_over(gpus: Sequence[Gpu], on_gpu: bool, device: str | None) -> list[Gpu]:
    """Return the GPUs that several processes can take in turn; none if one process serves as well.

    Args:
        gpus: those that there are.
        on_gpu: whether the policy uses one.
        device: the user's own choice, which stands if it names one.
    """
    same = alike(gpus)
    return same if on_gpu and len(same) > 1 and device in (None, "cuda") else []


def memory_of(pid: int) -> int | None:
    """Return the bytes that a process holds on all GPUs, or `None` where the driver does not tell."""
    rows = _query("--query-compute-apps=pid,used_memory", _SECONDS)
    found = [_mebibytes(used) for owner, used in rows if owner == str(pid)]
    return sum(found) if found else None


def _chosen(gpus: list[Gpu], visible: str | None) -> list[Gpu]:
    """Apply CUDA_VISIBLE_DEVICES: numbers or UUIDs, in its own order, cut at the first that is not there."""
    if visible is None:
        return gpus
    chosen: list[Gpu] = []
    for name in filter(None, (part.strip() for part in visible.split(","))):
        match = [gpu for gpu in gpus if name == str(gpu.number) or (name[0] == "G" and gpu.uuid.startswith(name))]
        if not match:
            break
        chosen += match[:1]
    return chosen


def _query(what: str, seconds: float) -> list[list[str]]:
    try:
        told = ask_program(["nvidia-smi", what, "--format=csv,noheader,nounits"], seconds=seconds)
    except OSError:
        return []
    if not told.may_be_well:
        return []
    return [[cell.strip() for cell in line.split(",")] for line in told.output.splitlines() if line.strip()]


def _gpu(row: list[str]) -> Gpu:
    index, uuid, name, memory, used, driver = row
    return Gpu(int(index), uuid, name, _mebibytes(memory), _mebibytes(used), driver)


def _mebibytes(cell: str) -> int:
    return int(cell) << 20 if cell.isdigit() else 0
