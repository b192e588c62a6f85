"""A policy, or the simulators, in another interpreter: same results, and plain words where that cannot work."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

import proctor
from harness import Digests, digests, run_tiny
from proctor.benchmarks.facts import learn
from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.config.registry import benchmark_path
from proctor.errors import UsageError
from proctor.installation import install_command
from proctor.results import Evaluation

SECTIONS = pytest.mark.parametrize("section", ["policy", "env"])


def run_with(tmp_path: Path, **options: Any) -> Evaluation:
    return run_tiny(tmp_path / "run", **options)


@SECTIONS
def test_the_same_results(tmp_path: Path, reference: Digests, section: str) -> None:
    evaluation = run_with(tmp_path, **{section: {"python": sys.executable}})
    assert evaluation.error is None
    assert digests(evaluation) == reference


@SECTIONS
def test_an_interpreter_that_is_not_there(tmp_path: Path, section: str) -> None:
    with pytest.raises(UsageError, match=rf"--{section}.python=.*/nowhere/python: there is no such program"):
        run_with(tmp_path, **{section: {"python": "/nowhere/python"}})


@SECTIONS
def test_an_interpreter_without_proctors_core(tmp_path: Path, section: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    python = tmp_path / "bare/bin/python"
    with pytest.raises(UsageError) as caught:
        run_with(tmp_path, **{section: {"python": str(python)}})
    assert str(caught.value).endswith(f"Run: {install_command(pip=f'{python} -m pip')}")
    assert "No module named" in str(caught.value)
    assert not (tmp_path / "run").exists()


@SECTIONS
def test_another_version_of_proctor(tmp_path: Path, section: str) -> None:
    source = Path(proctor.__file__).parent
    old = Path(shutil.copytree(source, tmp_path / "old" / "proctor", ignore=shutil.ignore_patterns("__pycache__")))
    init = (old / "__init__.py").read_text()
    (old / "__init__.py").write_text(init.replace(f'"{proctor.__version__}"', '"0.0.7"'))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "old"} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with pytest.raises(UsageError, match=rf"has Proctor 0\.0\.7, this is {proctor.__version__}"):
        run_with(tmp_path, **{section: {"python": str(python)}})


def test_it_cannot_be_combined_with_copies_in_workers(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--policy\.placement=worker"):
        run_tiny(tmp_path / "run", policy={"python": sys.executable, "placement": "worker"})


def test_a_debugger_wants_the_simulator_in_this_process(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--env\.python"):
        run_tiny(tmp_path / "run", env={"python": sys.executable}, eval={"use_async_envs": False})


def test_what_the_simulators_interpreter_has_is_what_counts(tmp_path: Path) -> None:
    """Versions are read there, and so is what is missing."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "other")], check=True)
    python = tmp_path / "other/bin/python"
    (site,) = (tmp_path / "other/lib").glob("python*/site-packages")
    # The core, and nothing of Meta-World.
    for name in ("numpy", "numpy.libs", "msgpack"):
        (site / name).symlink_to(Path(numpy.__file__).parents[1] / name)
    settings = MetaWorldSettings(type="metaworld", task="reach-v3", python=str(python))
    with pytest.raises(UsageError, match=r"needs the package metaworld"):
        learn(benchmark_path("metaworld"), settings)
    for name in ("metaworld", "mujoco", "gymnasium", "packaging"):
        (site / name).mkdir()
        (site / name / "__init__.py").touch()
    (site / "mujoco-9.9.dist-info").mkdir()
    (site / "mujoco-9.9.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: mujoco\nVersion: 9.9\n")
    facts = learn(benchmark_path("metaworld"), settings)
    assert facts.versions["mujoco"] == "9.9"
    assert [task.name for task in facts.tasks] == ["reach-v3"]
    assert facts.spec == MetaWorld(settings).spec
