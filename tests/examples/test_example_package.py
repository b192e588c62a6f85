"""The example package, installed with pip into an environment of its own, as a user would."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "proctor-breeze"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the example installed, on top of this one's packages."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling builds the example: pip install hatchling")
    folder = tmp_path_factory.mktemp("example")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    (site,) = (folder / "venv/lib").glob("python*/site-packages")
    ours = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    (site / "outer.pth").write_text(
        "".join(f"import site; site.addsitedir({path!r})\n" for path in dict.fromkeys(ours))
    )
    new = folder / "venv/bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(new), "--disable-pip-version-check", "install", "--quiet"]
    # No network: what it needs is there, and hatchling with it.
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--no-index", str(EXAMPLE)], check=True, cwd=folder)
    assert list(site.glob("proctor_breeze-1.0.0.dist-info"))
    return new


def proctor(python: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run([str(python), "-m", "proctor", *arguments], cwd)


def run(command: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env={**os.environ, "COLUMNS": "120"})


def test_it_is_listed_evaluated_and_keeps_the_contract(python: Path, tmp_path: Path) -> None:
    listed = json.loads(proctor(python, tmp_path, "list", "breeze", "--json").stdout)
    (benchmark,) = listed["benchmarks"]
    assert (benchmark["package"], benchmark["version"], benchmark["state"]) == ("proctor-breeze", "1.0.0", "ready")
    assert benchmark["groups"] == {"reach": ["reach-near", "reach-far"], "push": ["push-puck"]}
    assert "breeze-pilot" in proctor(python, tmp_path, "list", "policies").stdout

    evaluated = proctor(
        python, tmp_path, "eval", "--env.type=breeze", "--policy.type=breeze-pilot", "--eval.n_episodes=3",
        "--env.wind=0.1", "--eval.batch_size=2", "--output_dir=run", "--display=none",
    )  # fmt: skip
    assert evaluated.returncode == 0, evaluated.stderr
    info = json.loads((tmp_path / "run" / "eval_info.json").read_text())
    assert info["overall"]["n_episodes"] == 9
    assert info["overall"]["pc_success"] > 80

    checked = proctor(python, tmp_path, "check-benchmark", "breeze", "--policy.type=breeze-pilot", "--steps=8")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.splitlines()[-1] == "breeze keeps its contract: 21 passed."


def test_a_wrong_flag_of_its_own_gets_a_hint(python: Path, tmp_path: Path) -> None:
    done = proctor(python, tmp_path, "eval", "--env.type=breeze", "--env.wnd=1", "--policy.type=breeze-pilot")
    assert done.returncode == 2
    assert "Did you mean '--env.wind'?" in done.stderr
    done = proctor(python, tmp_path, "eval", "--env.type=breeze", "--env.wind=-1", "--policy.type=breeze-pilot")
    assert "--env.wind=-1: must be at least 0" in done.stderr


@pytest.mark.slow
def test_its_own_tests_pass(python: Path, tmp_path: Path) -> None:
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE / "tests")]
    done = run([*command, "--rootdir", str(EXAMPLE), "-c", os.devnull], tmp_path)
    assert done.returncode == 0, done.stdout
