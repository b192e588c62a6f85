"""Packages: what is absent, what is of a wrong version, what cannot be imported, and what to type then."""

from __future__ import annotations

import os
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from proctor.doctor.findings import Finding
from proctor.doctor.imports import try_imports
from proctor.doctor.packages import (
    PACKAGES,
    Package,
    absent,
    cuda_in,
    is_there,
    look_at_package,
    with_environments,
)
from proctor.installation import install_command

BY_NAME = {package.name: package for package in PACKAGES}
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def fake_version(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr("proctor.doctor.packages.version_of", lambda name: version)


def requirement(package: Package) -> str:
    return f"{package.name}{package.bounds}"


def test_the_bounds_are_those_of_pyproject() -> None:
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    extras = project["optional-dependencies"]
    assert {requirement(p) for p in PACKAGES if p.section == "core"} == set(project["dependencies"])
    for extra in ("metaworld", "video", "remote", "stats", "pandas", "lerobot"):
        ours = {requirement(package) for package in PACKAGES if package.extra == extra}
        assert ours == {line.partition(";")[0] for line in extras[extra]}
    assert requirement(BY_NAME["hf-libero"]) in extras["libero"]


@pytest.mark.parametrize(
    ("name", "version", "state"),
    [
        ("mujoco", "3.3.0", "ok"),
        ("mujoco", "3.3", "ok"),
        ("mujoco", "3.16.9", "ok"),
        ("mujoco", "3.17.0", "broken"),
        ("mujoco", "4.0.0", "broken"),
        ("mujoco", "3.2.7", "broken"),
        ("metaworld", "2.0.0", "broken"),
        ("metaworld", "3.1.1", "ok"),
        ("numpy", "1.26.4", "ok"),
        ("numpy", "1.9.1", "broken"),
    ],
)
def test_a_version_outside_the_bounds_is_broken(
    name: str, version: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_version(monkeypatch, version)
    finding = look_at_package(BY_NAME[name], True, {})
    assert finding.state == state
    assert version in finding.text
    assert finding.in_the_way is (state == "broken")
    assert bool(finding.remedy) is (state == "broken")


def test_a_wrong_version_comes_with_the_command_that_mends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_version(monkeypatch, "3.17.0")
    finding = look_at_package(BY_NAME["mujoco"], True, {})
    assert finding.text == "3.17.0 is too new, must be below 3.17"
    assert finding.remedy == install_command("metaworld")
    fake_version(monkeypatch, "1.0.0")
    assert look_at_package(BY_NAME["numpy"], True, {}).remedy == "pip install 'numpy>=1.26'"


@pytest.mark.parametrize(
    ("name", "needed", "remedy"),
    [
        ("msgpack", True, "pip install 'msgpack>=1.0.5'"),
        ("packaging", True, "pip install 'packaging>=23'"),
        ("av", False, "[video]"),
        ("websockets", False, "[remote]"),
        ("lerobot", False, "[lerobot]"),
        ("ray", False, "[ray]"),
    ],
)
def test_what_is_absent_comes_with_the_command_that_gets_it(name: str, needed: bool, remedy: str) -> None:
    if remedy.startswith("["):  # an extra; how that is installed depends on where the user stands
        remedy = install_command(remedy.strip("[]"))
    finding = absent(BY_NAME[name], (3, 12))
    assert (finding.state, finding.needed, finding.remedy) == ("absent", needed, remedy)


def test_lerobot_is_not_to_be_installed_into_a_python_that_is_too_old_for_it() -> None:
    assert "pip" not in absent(BY_NAME["lerobot"], (3, 11)).remedy
    assert "3.12" in absent(BY_NAME["lerobot"], (3, 11)).remedy


def test_a_package_whose_files_are_gone_is_installed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_version(monkeypatch, "12.1")
    finding = look_at_package(BY_NAME["av"], False, {})
    assert finding.state == "broken"
    assert finding.remedy == "pip install --force-reinstall --no-deps av==12.1"


def test_a_package_that_misses_another_one_is_not_itself_installed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_version(monkeypatch, "3.1.1")
    complaint = "ModuleNotFoundError: No module named 'scipy'"
    finding = look_at_package(BY_NAME["metaworld"], True, {"metaworld": complaint})
    assert (finding.state, finding.text) == ("broken", f"3.1.1 {complaint}")
    assert finding.remedy == install_command("metaworld")


def test_a_folder_of_that_name_is_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "no_code_in_here").mkdir()
    (tmp_path / "some_code.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert not is_there("no_code_in_here")
    assert is_there("some_code")


def test_one_import_that_crashes_exits_hangs_or_chatters_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = {
        "good_one": "print('chatter')",
        "crashing": "import os; os.abort()",
        "leaving": "raise SystemExit(0)",
        "hanging": "import signal; signal.pause()",
        "raising": "1 / 0",
        "good_two": "import os; os.write(1, b'chatter')",
    }
    for name, source in sources.items():
        (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert try_imports(list(sources), seconds=3) == {
        "good_one": "",
        "crashing": "its import was killed by SIGABRT",
        "leaving": "SystemExit: 0",
        "hanging": "its import did not end within 3 s",
        "raising": "ZeroDivisionError: division by zero",
        "good_two": "",
    }


@pytest.mark.parametrize(
    ("text", "cuda"),
    [
        ("__version__ = '2.7.1+cu126'\ncuda: Optional[str] = '12.6'\nhip: Optional[str] = None", "12.6"),
        ("cuda = '11.8'", "11.8"),
        ("__version__ = '2.7.1+cpu'\ncuda: Optional[str] = None", ""),
        ("", ""),
    ],
)
def test_torchs_cuda_is_read_from_its_version_file(text: str, cuda: str) -> None:
    assert cuda_in(text) == cuda


def test_the_doctor_says_which_environments_meta_worlds_tasks_run_in(monkeypatch: pytest.MonkeyPatch) -> None:
    where = "proctor.benchmarks.metaworld.environments.why_stock"
    fine = Finding("Meta-World", "metaworld", "ok", "3.1.1", needed=True)
    monkeypatch.setattr(where, lambda: "")
    assert with_environments([fine]) == [replace(fine, text="3.1.1, in quick environments")]
    monkeypatch.setattr(where, lambda: "mujoco is 3.8.1, not 3.3.0")
    (finding,) = with_environments([fine])
    assert finding.state == "note"
    assert finding.text == "3.1.1, its own environments, half as quick: mujoco is 3.8.1, not 3.3.0"
    assert finding.remedy == "pip install metaworld==3.1.1 mujoco==3.3.0"
    assert not finding.in_the_way
    broken = replace(fine, name="mujoco", state="broken")
    assert with_environments([broken, fine]) == [broken, fine]
