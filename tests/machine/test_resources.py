"""Cores and memory are those that this process may really use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from proctor.machine.resources import available_memory, usable_cores

HERE = len(os.sched_getaffinity(0))


class Cgroups:
    """A cgroup file system, and this process's place in it."""

    def __init__(self, root: Path) -> None:
        self.root, self.own = root / "cgroup", root / "own"
        self.root.mkdir()

    def place(self, *lines: str) -> None:
        self.own.write_text("".join(f"{line}\n" for line in lines))

    def v2(self, path: str, quota: str) -> None:
        (self.root / path).mkdir(parents=True, exist_ok=True)
        (self.root / path / "cpu.max").write_text(quota + "\n")

    def v1(self, path: str, quota: int, period: int) -> None:
        (self.root / "cpu" / path).mkdir(parents=True, exist_ok=True)
        (self.root / "cpu" / path / "cpu.cfs_quota_us").write_text(f"{quota}\n")
        (self.root / "cpu" / path / "cpu.cfs_period_us").write_text(f"{period}\n")

    def cores(self) -> int:
        return usable_cores(self.root, self.own)


@pytest.fixture
def cgroups(tmp_path: Path) -> Cgroups:
    return Cgroups(tmp_path)


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this process were allowed on eight cores: a small machine has too few to tell quotas apart."""

    def eight(pid: int) -> set[int]:
        return set(range(8))

    monkeypatch.setattr(os, "sched_getaffinity", eight)


def test_affinity_counts_and_not_what_the_machine_has() -> None:
    code = (
        "import os\n"
        "from pathlib import Path\n"
        "from proctor.machine.resources import usable_cores\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "print(usable_cores(Path('/nowhere'), Path('/nowhere')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


def test_without_cgroups_the_affinity_alone_decides(tmp_path: Path) -> None:
    assert usable_cores(tmp_path / "none", tmp_path / "none") == HERE


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000", 8),
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("50000 100000", 1),
        ("10000 1000000", 1),
        ("9900000 100000", 8),
        ("nonsense", 8),
    ],
)
def test_a_quota_of_cgroup_v2_is_kept(cgroups: Cgroups, quota: str, cores: int) -> None:
    cgroups.place("0::/job")
    cgroups.v2("job", quota)
    assert cgroups.cores() == cores


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(("quota", "cores"), [(-1, 8), (300000, 3), (250000, 3), (1000, 1)])
def test_a_quota_of_cgroup_v1_is_kept(cgroups: Cgroups, quota: int, cores: int) -> None:
    cgroups.place("3:memory:/job", "2:cpu,cpuacct:/job", "1:name=systemd:/job")
    cgroups.v1("job", quota, 100000)
    assert cgroups.cores() == cores


@pytest.mark.usefixtures("eight_cores")
def test_the_tightest_quota_on_the_way_to_the_root_counts(cgroups: Cgroups) -> None:
    cgroups.place("0::/slice/job/step")
    cgroups.v2("slice/job/step", "max 100000")
    cgroups.v2("slice/job", "500000 100000")
    cgroups.v2("slice", "300000 100000")
    cgroups.v2("other", "100000 100000")
    assert cgroups.cores() == 3


@pytest.mark.usefixtures("eight_cores")
def test_in_a_container_the_quota_stands_at_the_root_that_it_sees(cgroups: Cgroups) -> None:
    # /proc names the path on the host, and the container has its own group mounted as the root.
    cgroups.place("0::/docker/0123456789abcdef")
    cgroups.v2("", "400000 100000")
    assert cgroups.cores() == 4


@pytest.mark.usefixtures("eight_cores")
def test_other_controllers_quotas_do_not_count(cgroups: Cgroups) -> None:
    cgroups.place("2:cpuset:/job", "1:cpuacct:/job")
    cgroups.v1("job", 100000, 100000)
    assert cgroups.cores() == 8


def test_there_is_always_one_core(cgroups: Cgroups) -> None:
    cgroups.place("0::/")
    cgroups.v2("", "0 100000")
    assert cgroups.cores() == 1


def test_this_machines_own_answer_is_possible() -> None:
    assert 1 <= usable_cores() <= HERE


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
