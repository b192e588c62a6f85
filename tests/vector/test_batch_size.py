"""LeRobot's rule for the number of environments."""

from __future__ import annotations

from typing import Any

import pytest

from proctor.errors import UsageError
from proctor.machine.resources import usable_cores
from proctor.vector.make import batch_size


@pytest.mark.parametrize(("cores", "expected"), [(1, 1), (2, 1), (3, 2), (16, 11), (128, 64), (500, 64)])
def test_seven_tenths_of_the_cores_and_at_most_64(
    cores: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.vector.make.usable_cores", lambda: cores)
    assert batch_size(0) == expected


def test_the_cores_are_those_that_this_process_may_use() -> None:
    assert batch_size(0) == min(64, max(1, int(0.7 * usable_cores())))


def test_a_number_that_is_asked_for_is_kept() -> None:
    assert batch_size(100) == 100


@pytest.mark.parametrize("n_envs", [-1, "2", 1.5, None])
def test_numbers_that_cannot_be(n_envs: Any) -> None:
    with pytest.raises(UsageError, match=f"n_envs={n_envs}: must be at least 1"):
        batch_size(n_envs)
