"""A finished run of a checkpoint is known again without loading it, and only if nothing has changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import flags, run_cli
from lerobot_runs import settings_tree
from proctor.store.stored_run import StoredRun

Checkpoint = Callable[[str], Path]


@pytest.fixture
def command(checkpoint: Checkpoint, tmp_path: Path) -> list[str]:
    """The command of a run that has finished."""
    own = Path(shutil.copytree(checkpoint("act"), tmp_path / "act"))
    tree = settings_tree(tmp_path / "run", own, display="plain", eval={"n_episodes": 1, "batch_size": 1})
    arguments = ["eval", *flags(tree)]
    done = run_cli(*arguments)
    assert done.returncode == 0, done.stderr
    return arguments


def sessions(tmp_path: Path) -> int:
    """How often a process has got the policy ready for this run."""
    return len(StoredRun.open(tmp_path / "run").sessions)


def test_nothing_is_loaded_if_all_is_as_it_was(command: list[str], tmp_path: Path) -> None:
    done = run_cli(*command, "--tags=later")
    assert done.returncode == 0, done.stderr
    assert "nothing to do: all 2 episodes had ended before" in done.stdout
    assert sessions(tmp_path) == 1
    assert StoredRun.open(tmp_path / "run").tags == ["later"]


def test_a_checkpoint_that_has_changed_is_refused(command: list[str], tmp_path: Path) -> None:
    config = tmp_path / "act" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"n_action_steps": 1}))
    done = run_cli(*command)
    assert done.returncode == 2
    assert "holds a run with other settings" in done.stderr
    assert "nothing to do" not in done.stdout


@pytest.mark.parametrize("more", ["--seed=1", "--env.episode_length=20"])
def test_other_settings_are_refused(command: list[str], more: str) -> None:
    done = run_cli(*command, more)
    assert done.returncode == 2
    assert "holds a run with other settings" in done.stderr


def test_more_episodes_are_run(command: list[str], tmp_path: Path) -> None:
    done = run_cli(*command, "--eval.n_episodes=2")
    assert done.returncode == 0, done.stderr
    assert "nothing to do" not in done.stdout
    assert sessions(tmp_path) == 2


def test_a_checkpoint_that_names_something_outside_is_loaded(checkpoint: Checkpoint, tmp_path: Path) -> None:
    own = Path(shutil.copytree(checkpoint("act"), tmp_path / "act"))
    (own / "notes.json").write_text(json.dumps({"backbone": str(tmp_path)}))
    arguments = flags(settings_tree(tmp_path / "run", own, display="plain", eval={"n_episodes": 1}))
    for times in (1, 2):
        done = run_cli("eval", *arguments)
        assert done.returncode == 0, done.stderr
        assert ("nothing to do" in done.stdout) == (times == 2)
        assert sessions(tmp_path) == times
