"""A policy in another interpreter: same results, and plain words where that cannot work."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from harness import Digests, digests, run_tiny

import proctor
from proctor.errors import UsageError


def test_the_same_results(tmp_path: Path, reference: Digests) -> None:
    evaluation = run_tiny(tmp_path / "run", policy={"python": sys.executable})
    assert evaluation.error is None
    assert digests(evaluation) == reference


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--policy.python=.*/nowhere/python: there is no such program"):
        run_tiny(tmp_path / "run", policy={"python": "/nowhere/python"})


def test_an_interpreter_without_proctors_core(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    python = tmp_path / "bare/bin/python"
    with pytest.raises(UsageError) as caught:
        run_tiny(tmp_path / "run", policy={"python": str(python)})
    assert str(caught.value).endswith(f"Run: {python} -m pip install proctor")
    assert "No module named" in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_another_version_of_proctor(tmp_path: Path) -> None:
    source = Path(proctor.__file__).parent
    old = Path(shutil.copytree(source, tmp_path / "old" / "proctor", ignore=shutil.ignore_patterns("__pycache__")))
    init = (old / "__init__.py").read_text()
    (old / "__init__.py").write_text(init.replace(f'"{proctor.__version__}"', '"0.0.7"'))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "old"} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with pytest.raises(UsageError, match=rf"has Proctor 0\.0\.7, this is {proctor.__version__}"):
        run_tiny(tmp_path / "run", policy={"python": str(python)})


def test_it_cannot_be_combined_with_copies_in_workers(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--policy\.placement=worker"):
        run_tiny(tmp_path / "run", policy={"python": sys.executable, "placement": "worker"})
