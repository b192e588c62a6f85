"""Every `pip install` line that is printed fits how Proctor is installed; the distribution has one name."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import proctor
from harness import run_cli
from proctor import installation
from proctor.installation import DISTRIBUTION, clone, install_command, missing_package

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_in_a_clone_the_clone_is_installed_wherever_the_user_stands(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert clone() == ROOT
    monkeypatch.chdir(ROOT)
    assert install_command("view") == "pip install -e '.[view]'"
    monkeypatch.chdir(tmp_path)
    assert install_command("view", "python3 -m pip") == f"python3 -m pip install -e '{ROOT}[view]'"


def test_an_installation_from_a_release_is_added_to_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_ROOT", Path(sys.prefix) / "lib" / "site-packages")
    assert clone() is None
    assert install_command() == "pip install 'proctor-eval'"
    assert (
        str(missing_package("proctor view", "uvicorn", "view"))
        == "proctor view needs the package uvicorn. Run: pip install 'proctor-eval[view]'"
    )


def test_a_folder_called_src_alone_is_no_clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(installation, "_ROOT", tmp_path / "src")
    assert clone() is None


def test_another_version_is_told_with_the_name_of_the_distribution() -> None:
    assert installation.other_version(proctor.__version__) is None
    assert (installation.other_version("9.9") or "").endswith(f"-m pip install {DISTRIBUTION}==9.9")


def test_the_project_its_extras_and_the_example_use_the_one_name() -> None:
    assert PYPROJECT["name"] == DISTRIBUTION
    text = (ROOT / "pyproject.toml").read_text()
    assert not re.findall(r'"proctor\[', text)
    example = tomllib.loads((ROOT / "examples/proctor-breeze/pyproject.toml").read_text())
    assert DISTRIBUTION in example["project"]["dependencies"]


def test_every_extra_that_code_and_docs_name_exists() -> None:
    extras = set(PYPROJECT["optional-dependencies"])
    calls = r'(?:install_command\(|missing_package\([^)]*, |extra=)"(\w+)"'
    for file in (ROOT / "src").rglob("*.py"):
        assert set(re.findall(calls, file.read_text())) <= extras, file
    documents = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*/README.md")]
    for file in documents:
        lines = [line for line in file.read_text().splitlines() if "pip install" in line]
        assert not [line for line in lines if re.search(r"install '?proctor\b(?!-)", line)], file
        named = re.findall(r"(?:proctor-eval|-e '\.)\[([\w,]+)\]", "\n".join(lines))
        assert {extra for names in named for extra in names.split(",")} <= extras, file


@pytest.mark.parametrize("program", [[sys.executable, "-m", "proctor"]])
def test_the_module_is_the_program(program: list[str]) -> None:
    told = subprocess.run([*program, "--version"], capture_output=True, text=True, check=True)
    assert told.stdout == f"proctor {proctor.__version__}\n"
    assert run_cli("evil").returncode == 2
