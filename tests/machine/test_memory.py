"""A container's memory limit counts, not only what the machine has free."""

from __future__ import annotations

from pathlib import Path

import pytest

from proctor.machine.memory import available_memory

GIB = 1 << 30


@pytest.fixture
def meminfo(tmp_path: Path) -> Path:
    file = tmp_path / "meminfo"
    file.write_text(f"MemTotal: {32 * GIB // 1024} kB\nMemAvailable: {16 * GIB // 1024} kB\n")
    return file


def cgroup(root: Path, place: str, **files: str) -> tuple[Path, Path]:
    own = root / "own"
    own.write_text(place + "\n")
    level = root / "cgroup" / ("memory/job" if "memory" in place else "job")
    level.mkdir(parents=True)
    for name, text in files.items():
        (level / name.replace("__", ".")).write_text(text + "\n")
    return root / "cgroup", own


def test_without_a_limit_the_machine_decides(tmp_path: Path, meminfo: Path) -> None:
    root, own = cgroup(tmp_path, "0::/job", memory__max="max", memory__current=str(GIB))
    assert available_memory(meminfo, root, own) == 16 * GIB


def test_what_a_group_leaves_counts_and_cached_files_are_free(tmp_path: Path, meminfo: Path) -> None:
    root, own = cgroup(
        tmp_path,
        "0::/job",
        memory__max=str(8 * GIB),
        memory__current=str(5 * GIB),
        memory__stat=f"anon {3 * GIB}\ninactive_file {GIB}",
    )
    assert available_memory(meminfo, root, own) == 4 * GIB


def test_the_older_hierarchy_counts_too(tmp_path: Path, meminfo: Path) -> None:
    files = {"memory__limit_in_bytes": str(2 * GIB), "memory__usage_in_bytes": str(3 * GIB)}
    root, own = cgroup(tmp_path, "5:memory:/job", **files)
    assert available_memory(meminfo, root, own) == 0


def test_where_nobody_tells_there_is_nothing(tmp_path: Path) -> None:
    assert available_memory(tmp_path / "none", tmp_path, tmp_path / "none") == 0


def test_this_machine_has_some() -> None:
    assert available_memory() > 0
