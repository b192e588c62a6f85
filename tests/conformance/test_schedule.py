"""Actions for the suite: both ends of the bounds first, then random ones that are valid, the same every time."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from proctor.conformance.schedule import actions
from proctor.types import BenchmarkSpec


def drawn(low: Any, high: Any, key: tuple[int, int] = (7, 0)) -> np.ndarray[Any, Any]:
    spec = BenchmarkSpec("x", {}, 2, low, high)
    return np.array(list(islice(actions(spec, key), 50)))


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 512.0), ((-1.0, 0.0), (1.0, 9.0))])
def test_they_lie_between_the_bounds_and_the_first_two_on_them(low: Any, high: Any) -> None:
    found = drawn(low, high)
    assert found.dtype == np.float32
    assert found.shape == (50, 2)
    assert (found[0] == low).all()
    assert (found[1] == high).all()
    assert ((found >= low) & (found <= high)).all()
    assert len(np.unique(found[2:], axis=0)) == 48


@pytest.mark.parametrize("endless", [np.inf, float(np.finfo(np.float32).max)])
def test_where_there_is_no_bound_they_are_about_one(endless: float) -> None:
    found = drawn((-endless, 0.0), (endless, 5.0))
    assert np.abs(found[:, 0]).max() == 1
    assert found[1, 1] == 5


def test_the_same_key_gives_the_same_ones() -> None:
    assert (drawn(-1.0, 1.0) == drawn(-1.0, 1.0)).all()
    assert (drawn(-1.0, 1.0)[2:] != drawn(-1.0, 1.0, (7, 1))[2:]).any()
