"""Errors that say the same are one line, whatever numbers are in them."""

from __future__ import annotations

from proctor.report.error_groups import error_groups
from proctor.store.schema import EpisodeRecord
from proctor.types import Episode, Task


def failed(task: str, index: int, error: str) -> EpisodeRecord:
    return EpisodeRecord.failed(Episode(Task(task, 0, task, "", 10), index, index), 3, error)


def test_equal_errors_but_for_numbers_are_told_once_with_the_first() -> None:
    records = [
        failed("reach", 4, "SimulatorError: broke at 0x7f01 after 12 steps"),
        failed("push", 5, "SimulatorError: broke at 0x9a after 7 steps"),
        failed("reach", 6, "the disk is gone"),
        failed("push", 6, "SimulatorError: broke at 0x1 after 1 steps"),
    ]
    assert [str(group) for group in error_groups(records)] == [
        "3 episodes of 2 tasks: SimulatorError: broke at 0x7f01 after 12 steps (first: reach episode 4)",
        "reach episode 6: the disk is gone",
    ]


def test_of_one_task_its_name_is_told() -> None:
    (group,) = error_groups([failed("reach", 0, "no"), failed("reach", 1, "no")])
    assert str(group) == "2 episodes of reach: no (first: reach episode 0)"
