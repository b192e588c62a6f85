"""What Proctor's processes live on: cores, memory, the kernel's anonymous files, descriptors."""

from __future__ import annotations

import fcntl
import mmap
import os
import resource

from proctor.doctor.findings import Finding
from proctor.machine.cores import usable_cores
from proctor.machine.memory import available_memory

SECTION = "machine"

WORKER_BYTES = 380_000_000
"""What a worker takes that draws, as measured for the README."""

WORKER_DESCRIPTORS, OWN_DESCRIPTORS = 8, 64
"""Descriptors per worker (memory, bell, socket, pidfd, and room to replace it), and of the rest of a run."""

_ENOUGH_FILES = 4096


def look_at_cores() -> list[Finding]:
    """Return the cores that may be used beside those that the machine has."""
    usable, all_of_them = usable_cores(), os.cpu_count() or 1
    text = f"{usable} of {all_of_them} usable; a run begins with a worker for each"
    return [Finding(SECTION, "cores", "ok", text)]


def look_at_memory() -> list[Finding]:
    """Return the memory that can still be taken beside what the default number of workers takes."""
    return [memory_finding(available_memory(), usable_cores())]


def memory_finding(available: int, workers: int) -> Finding:
    """Judge so many bytes for so many workers."""
    if not available:
        return Finding(SECTION, "memory", "note", "the system does not tell how much is free")
    need = workers * WORKER_BYTES
    text = f"{available / 2**30:.1f} GiB free; drawing workers take about {need / 2**30:.1f}"
    if available >= need:
        return Finding(SECTION, "memory", "ok", text)
    fewer = max(1, available // WORKER_BYTES)
    return Finding(SECTION, "memory", "note", text, f"proctor eval --eval.batch_size={fewer} ...")


def look_at_kernel() -> list[Finding]:
    """Make one of each thing that Proctor's processes talk through."""
    refused = []
    for name, make in (("memfd", _make_memfd), ("eventfd", _make_eventfd), ("pidfd", _make_pidfd)):
        try:
            make()
        except (OSError, AttributeError) as error:  # AttributeError: a Python or a system without it
            refused.append(f"{name}: {error}")
    if not refused:
        return [Finding(SECTION, "kernel", "ok", "memfd, eventfd and pidfd work", needed=True)]
    remedy = "use Linux 5.3 or later, or a sandbox that allows these calls"
    return [Finding(SECTION, "kernel", "broken", "; ".join(refused), remedy, needed=True)]


def _make_memfd() -> None:
    descriptor = os.memfd_create("proctor-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, mmap.PAGESIZE)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        with mmap.mmap(descriptor, mmap.PAGESIZE) as memory:
            memory[0] = 1
    finally:
        os.close(descriptor)


def _make_eventfd() -> None:
    descriptor = os.eventfd(0, os.EFD_CLOEXEC)
    try:
        os.eventfd_write(descriptor, 1)
        os.eventfd_read(descriptor)
    finally:
        os.close(descriptor)


def _make_pidfd() -> None:
    os.close(os.pidfd_open(os.getpid()))


def look_at_open_files() -> list[Finding]:
    """Return the limit on descriptors beside what the default number of workers needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return [open_files_finding(soft, hard, usable_cores())]


def open_files_finding(soft: int, hard: int, workers: int) -> Finding:
    """Judge a soft and a hard limit for so many workers."""
    need = WORKER_DESCRIPTORS * workers + OWN_DESCRIPTORS
    many = "unlimited" if soft == resource.RLIM_INFINITY else f"{soft}"
    text = f"{many} allowed, about {need} needed"
    if soft == resource.RLIM_INFINITY or soft >= need:
        return Finding(SECTION, "open files", "ok", text)
    wanted = max(_ENOUGH_FILES, need)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        text += f", hard limit {hard}"
    return Finding(SECTION, "open files", "note", text, f"ulimit -n {wanted}")
