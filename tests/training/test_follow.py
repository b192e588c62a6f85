"""`proctor train --follow`: the checkpoints of somebody else's trainer, evaluated as they come."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from harness import SUPPORT, run_cli, start_cli, wait_until
from stepwise_trainer import write_checkpoint

TINY = f"{SUPPORT / 'tiny.py'}:Tiny"


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    return [
        f"--follow={tmp_path / 'theirs'}", f"--env.type={TINY}", "--env.task=a", "--eval.n_episodes=2",
        "--eval.batch_size=1",
    ]  # fmt: skip


def evaluated(training: Path) -> list[int]:
    file = training / "training.json"
    return [one["step"] for one in json.loads(file.read_text())["evaluations"]] if file.exists() else []


def test_a_folder_is_followed_from_before_its_first_checkpoint_to_its_last_step(
    tmp_path: Path, arguments: list[str]
) -> None:
    theirs = tmp_path / "theirs"
    process = start_cli("train", *arguments, "--steps=3")
    assert process.stdout is not None
    assert "waiting for" in process.stdout.readline()
    assert not theirs.exists(), "LeRobot's trainer takes no folder that is there"
    write_checkpoint(theirs, 1)
    wait_until(lambda: evaluated(theirs) == [1])
    # It is half written until `last` points to it.
    write_checkpoint(theirs, 2, last=False)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert evaluated(theirs) == [1]
    for step in (2, 3):
        write_checkpoint(theirs, step)
    done = run_cli("train", f"--resume={theirs}")
    assert done.returncode == 0, done.stderr
    assert evaluated(theirs) == [1, 2, 3]
    assert str((theirs / "checkpoints/best").readlink()) == "000002"
    assert "has not ended" not in (theirs / "report.html").read_text()


def test_the_last_step_is_the_one_that_lerobots_trainer_was_told(tmp_path: Path, arguments: list[str]) -> None:
    for step in (10, 15, 20):
        folder = write_checkpoint(tmp_path / "theirs", step)
        (folder / "pretrained_model/train_config.json").write_text('{"steps": 20}')
    done = run_cli("train", *arguments, "--eval_freq=15")
    assert done.returncode == 0, done.stderr
    assert evaluated(tmp_path / "theirs") == [15, 20], "what is due, and the last"
