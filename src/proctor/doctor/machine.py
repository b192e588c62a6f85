"""What the main job needs besides packages: Python, Linux, a GL that draws, memory, descriptors, a directory."""

from __future__ import annotations

import fcntl
import mmap
import os
import platform
import resource
import shutil
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from proctor import __version__
from proctor.benchmarks.rendering import BACKENDS, FRAME_SIDE, INSTALL_HINT, Renderer, candidates, try_backend
from proctor.doctor.findings import Finding
from proctor.machine.gpus import visible_gpus
from proctor.machine.resources import available_memory, usable_cores

OLDEST, NEWEST = (3, 11), (3, 13)
SUPPORTED = "3.11, 3.12 or 3.13"

WORKER_BYTES = 380_000_000
"""What a worker takes that draws, as measured for docs/speed.md."""

WORKER_DESCRIPTORS, OWN_DESCRIPTORS = 8, 64
"""Descriptors per worker (memory, bell, socket, pidfd, and room to replace it), and of the rest of a run."""

_ENOUGH_FILES = 4096

_LITTLE = 1 << 30
_REMEDY = "cd to a directory that can be written, or give --output_dir=DIRECTORY"

_proctor, _drawing, _gpu, _machine = (partial(Finding, part) for part in ("proctor", "drawing", "GPU", "machine"))


def look_at_interpreter() -> list[Finding]:
    """Return the versions of Proctor and Python, and whether this is Linux."""
    return [
        _proctor("version", "ok", __version__),
        python_finding(sys.version_info[:2], platform.python_version(), sys.executable),
        system_finding(platform.system(), platform.release(), platform.machine()),
    ]


def python_finding(version: tuple[int, int], text: str, executable: str) -> Finding:
    """Judge an interpreter."""
    remedy = "" if OLDEST <= version <= NEWEST else f"install Proctor for Python {SUPPORTED}"
    return _proctor("Python", "broken" if remedy else "ok", f"{text}, {executable}", remedy, needed=True)


def system_finding(system: str, release: str, machine: str) -> Finding:
    """Judge an operating system."""
    remedy = "" if system == "Linux" else "run Proctor on Linux; a container or WSL 2 will do"
    return _proctor("system", "broken" if remedy else "ok", f"{system} {release}, {machine}", remedy, needed=True)


def look_at_drawing(mujoco: Finding) -> list[Finding]:
    """Return whether pictures can be drawn, and a finding per backend.

    Args:
        mujoco: what was found about MuJoCo, which draws.
    """
    if mujoco.in_the_way:
        return [_drawing("pictures", "broken", "not tried: needs mujoco", mujoco.remedy, needed=True)]
    return judge([try_backend(backend) for backend in candidates()])


def judge(trials: Sequence[Renderer]) -> list[Finding]:
    """Say what trials mean, in the order in which Proctor prefers them."""
    used = next((trial for trial in trials if not trial.complaint), None)
    return [_pictures(trials, used), *(_backend(trial, used) for trial in trials)]


def _pictures(trials: Sequence[Renderer], used: Renderer | None) -> Finding:
    if used is not None:
        text = f"Proctor uses {used.backend}; times are for {FRAME_SIDE}×{FRAME_SIDE} pixels"
        return _drawing("pictures", "ok", text, needed=True)
    chosen = len(trials) == 1
    # What is missing can be installed for EGL; any other choice is better not made.
    remedy = "unset MUJOCO_GL" if chosen and trials[0].backend != BACKENDS[0] else INSTALL_HINT
    text = f"nothing can draw; MUJOCO_GL={trials[0].backend} allows no other" if chosen else "no GL can draw here"
    return _drawing("pictures", "broken", text, remedy, needed=True)


def _backend(trial: Renderer, used: Renderer | None) -> Finding:
    if trial.complaint:
        if used is not None:
            return _drawing(trial.backend, "absent", f"cannot draw here; not needed beside {used.backend}")
        return _drawing(trial.backend, "broken", trial.complaint)
    kind = "software" if trial.software else "GPU"
    text = f"{trial.name}, {kind}, {trial.milliseconds:.1f} ms"
    return _drawing(trial.backend, "ok", text)


def look_at_gpus() -> list[Finding]:
    """Return a finding per GPU that CUDA would see, or one that says why there is none."""
    gpus = visible_gpus()
    if gpus:
        return [
            _gpu(
                f"cuda:{number}",
                "ok",
                f"{gpu.name}, {(gpu.memory - gpu.used) / 2**30:.1f} of {gpu.memory / 2**30:.1f} GiB free",
            )
            for number, gpu in enumerate(gpus)
        ]
    if shutil.which("nvidia-smi") is None:
        return [_gpu("none", "absent", "not needed")]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        text = f"CUDA_VISIBLE_DEVICES={visible} leaves none"
        return [_gpu("none", "note", text, "unset CUDA_VISIBLE_DEVICES")]
    return [_gpu("none", "note", "nvidia-smi is there and tells of none", "nvidia-smi")]


def look_at_cores() -> list[Finding]:
    """Return the cores that may be used beside those that the machine has."""
    usable, all_of_them = usable_cores(), os.cpu_count() or 1
    text = f"{usable} of {all_of_them} usable; a run begins with a worker for each"
    return [_machine("cores", "ok", text)]


def look_at_memory() -> list[Finding]:
    """Return the memory that can still be taken beside what the default number of workers takes."""
    return [memory_finding(available_memory(), usable_cores())]


def memory_finding(available: int, workers: int) -> Finding:
    """Judge so many bytes for so many workers."""
    if not available:
        return _machine("memory", "note", "the system does not tell how much is free")
    need = workers * WORKER_BYTES
    text = f"{available / 2**30:.1f} GiB free; drawing workers take about {need / 2**30:.1f}"
    if available >= need:
        return _machine("memory", "ok", text)
    fewer = max(1, available // WORKER_BYTES)
    return _machine("memory", "note", text, f"proctor eval --eval.batch_size={fewer} ...")


def look_at_kernel() -> list[Finding]:
    """Make one of each thing that Proctor's processes talk through."""
    refused = []
    for name, make in (("memfd", _make_memfd), ("eventfd", _make_eventfd), ("pidfd", _make_pidfd)):
        try:
            make()
        except (OSError, AttributeError) as error:  # AttributeError: a Python or a system without it
            refused.append(f"{name}: {error}")
    if not refused:
        return [_machine("kernel", "ok", "memfd, eventfd and pidfd work", needed=True)]
    remedy = "use Linux 5.3 or later, or a sandbox that allows these calls"
    return [_machine("kernel", "broken", "; ".join(refused), remedy, needed=True)]


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
        return _machine("open files", "ok", text)
    wanted = max(_ENOUGH_FILES, need)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        text += f", hard limit {hard}"
    return _machine("open files", "note", text, f"ulimit -n {wanted}")


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
        return [_machine("directory", "broken", text, _REMEDY, needed=True)]
    return [space_finding(here, free)]


def space_finding(here: Path, free: int) -> Finding:
    """Judge the bytes that are left in a directory that can be written."""
    text = f"{free / 2**30:.1f} GiB free in {here}"
    if free >= _LITTLE:
        return _machine("directory", "ok", text, needed=True)
    return _machine("directory", "note", text, "free some space: videos need it", needed=True)
