"""Where a container's or a batch job's limits stand: the control groups of this process, up to the root."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def levels(controller: str, root: Path = ROOT, own: Path = OWN) -> Iterator[tuple[int, Path]]:
    """Yield the version (1 or 2) and the folder of each control group that this process is in, innermost first."""
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
