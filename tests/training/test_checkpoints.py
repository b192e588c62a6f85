"""Which checkpoints of a training are whole, and which is the best."""

from __future__ import annotations

from pathlib import Path

import pytest

from proctor.training.checkpoints import Checkpoints
from stepwise_trainer import write_checkpoint


def steps(training: Path) -> list[int]:
    return [one.step for one in Checkpoints(training).whole()]


def test_a_folder_without_checkpoints_has_none(tmp_path: Path) -> None:
    assert steps(tmp_path) == []
    assert Checkpoints(tmp_path).last() is None


def test_what_comes_behind_the_last_is_half_written(tmp_path: Path) -> None:
    for step in (1, 10, 2):
        write_checkpoint(tmp_path, step)
    write_checkpoint(tmp_path, 10)
    write_checkpoint(tmp_path, 11, last=False)
    assert steps(tmp_path) == [1, 2, 10]


@pytest.mark.parametrize("target", [None, "000099", "elsewhere"])
def test_without_a_link_that_holds_the_newest_may_be_half_written(tmp_path: Path, target: str | None) -> None:
    """LeRobot removes the link before it makes the new one, and may be killed in between."""
    for step in (1, 2, 3):
        write_checkpoint(tmp_path, step, last=False)
    if target is not None:
        (tmp_path / "checkpoints/last").symlink_to(target)
    assert steps(tmp_path) == [1, 2]


def test_a_part_or_a_file_is_no_checkpoint(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1)
    (tmp_path / "checkpoints/.000002.part").mkdir()
    (tmp_path / "checkpoints/000000").touch()
    assert steps(tmp_path) == [1]


def test_the_best_is_a_relative_link_that_moves(tmp_path: Path) -> None:
    checkpoints, best = Checkpoints(tmp_path), tmp_path / "checkpoints/best"
    for step in (1, 2):
        write_checkpoint(tmp_path, step)
    checkpoints.mark_best(1)
    assert str(best.readlink()) == "000001"
    checkpoints.mark_best(2)
    assert str(best.readlink()) == "000002"
    checkpoints.mark_best(3)  # somebody has removed it
    assert str(best.readlink()) == "000002"
    assert steps(tmp_path) == [1, 2]


def test_the_last_step_is_read_from_lerobots_config(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1)
    (checkpoint,) = Checkpoints(tmp_path).whole()
    assert checkpoint.last_step is None
    for text, expected in (('{"steps": 7}', 7), ('{"steps": "7"}', None), ("[]", None), ("{", None)):
        checkpoint.train_config.write_text(text)
        assert checkpoint.last_step == expected
