"""LeRobot's rule for the number of environments."""

from __future__ import annotations

import pytest

from proctor.errors import UsageError
from proctor.machine.resources import usable_cores
from proctor.vector.make import batch_size


@pytest.mark.parametrize(
    ("cores", "episodes", "expected"),
    [(1, 50, 1), (2, 50, 1), (3, 50, 2), (16, 50, 11), (16, 4, 4), (128, 500, 64), (128, 20, 20)],
)
def test_seven_tenths_of_the_cores_at_most_the_episodes_and_64(cores: int, episodes: int, expected: int) -> None:
    assert batch_size(0, episodes, cores) == expected


def test_the_cores_are_those_that_this_process_may_use() -> None:
    assert batch_size(0) == batch_size(0, cores=usable_cores())


def test_a_number_that_is_asked_for_is_kept_but_for_episodes_that_do_not_exist() -> None:
    assert batch_size(100, cores=2) == 100
    assert batch_size(100, 7, 2) == 7


@pytest.mark.parametrize(("envs", "episodes"), [(-1, 1), (1, 0)])
def test_numbers_that_cannot_be(envs: int, episodes: int) -> None:
    with pytest.raises(UsageError, match="must be at least 1"):
        batch_size(envs, episodes)
