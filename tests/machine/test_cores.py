"""The cores are those that this process may really use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from proctor.machine.cores import usable_cores

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
        "from proctor.machine.cores import usable_cores\n"
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
