"""Promise: a run goes on from any directory, and what its settings name on disk is never looked for elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from harness import SUPPORT, digests, run_cli

POLICIES = "code/tiny_policies.py"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder to work in, with everything that a command names by a relative path."""
    home = tmp_path / "home"
    (home / "outputs" / "train").mkdir(parents=True)
    (home / "outputs" / "train" / "weights").write_text("1 2 3")
    (home / "code").mkdir()
    for name in ("tiny.py", "tiny_policies.py", "told_trackers.py"):
        shutil.copy(SUPPORT / name, home / "code")
    (tmp_path / "elsewhere").mkdir()
    return home


def begin(home: Path, *flags: str) -> Path:
    done = run_cli(
        "eval", "--env.type=code/tiny.py:Tiny", "--env.task=a", f"--env.scratch={home}", "--output_dir=run",
        "--eval.n_episodes=1", "--eval.batch_size=1", "--display=none", *flags, cwd=home,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return home / "run"


def goes_on(run: Path, way: str) -> None:
    """Ask for one episode more, from a directory in which none of the names mean anything."""
    more = ["--resume={run}"] if way == "resume" else ["--config_path={run}/config.yaml", "--output_dir={run}"]
    elsewhere = run.parent.parent / "elsewhere"
    relative = os.path.relpath(run, elsewhere)
    done = run_cli("eval", *(flag.format(run=relative) for flag in more), "--eval.n_episodes=2", cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    assert len(digests(run)) == 2
    assert "tracker" not in done.stderr


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", ["resume", pytest.param("config_path", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "flags",
    [
        ["--policy.type=code/tiny_policies.py:FromFolder", "--policy.path=outputs/train"],
        [
            f"--policy.path={POLICIES}:Weighted",
            "--policy.kwargs.weights=outputs/train/weights",
            "--policy.kwargs.note=aside:{home}/note",
        ],
        [f"--policy.path={POLICIES}:plain", "--report_to=code/told_trackers.py:Notebook"],
        [f"--policy.path={POLICIES}:plain", "--policy.python=./python"],
    ],
    ids=["a checkpoint's folder", "a file among arguments", "a tracker", "an interpreter"],
)  # fmt: skip
def test_a_run_goes_on_from_another_directory(home: Path, flags: list[str], way: str) -> None:
    (home / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (home / "python").chmod(0o755)
    goes_on(begin(home, *(flag.format(home=home) for flag in flags)), way)


def test_a_file_of_prompts_is_found_from_another_directory(home: Path) -> None:
    (home / "prompts.yaml").write_text("reach-v3: go there\n")
    kind = ["--env.type=metaworld", "--env.task=reach-v3", "--env.obs_type=state", "--env.episode_length=5"]
    done = run_cli(
        "eval", *kind, "--env.prompts=prompts.yaml", "--policy.type=zero", "--output_dir=run",
        "--eval.n_episodes=1", "--eval.batch_size=1", "--display=none", cwd=home,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    goes_on(home / "run", "resume")


def test_a_rival_is_found_from_another_directory(home: Path) -> None:
    run = begin(home, f"--policy.path={POLICIES}:plain")
    run.rename(home / "baseline")
    run = begin(home, f"--policy.path={POLICIES}:plain", "--eval.until_better_than=baseline")
    assert yaml.safe_load((run / "config.yaml").read_text())["eval"]["until_better_than"] == str(home / "baseline")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "path", ["outputs/../outputs/train", "{home}/outputs/train", "outputs/train", "./outputs/train"]
)
def test_a_run_s_settings_name_a_checkpoint_s_folder_absolutely(home: Path, path: str) -> None:
    run = begin(home, f"--policy.type={POLICIES}:FromFolder", f"--policy.path={path.format(home=home)}")
    policy = yaml.safe_load((run / "config.yaml").read_text())["policy"]
    assert Path(policy["path"]).is_absolute()
    assert Path(policy["path"]).samefile(home / "outputs" / "train")
    assert policy["type"] == f"{home / POLICIES}:FromFolder"


def test_a_checkpoint_that_was_moved_is_said_to_be_gone(home: Path) -> None:
    run = begin(home, "--policy.type=code/tiny_policies.py:FromFolder", "--policy.path=outputs/train")
    (home / "outputs" / "train").rename(home / "outputs" / "moved")
    # There is a folder of that name where the command is given, and it is another one.
    elsewhere = home.parent / "elsewhere"
    shutil.copytree(home / "outputs" / "moved", elsewhere / "outputs" / "train")
    done = run_cli("eval", f"--resume={run}", "--eval.n_episodes=2", cwd=elsewhere)
    assert done.returncode != 0
    assert str(home / "outputs" / "train") in done.stderr
