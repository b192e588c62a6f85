"""The curve of a training, and which point of it is the best."""

from __future__ import annotations

import json

import pytest

from proctor.stats.intervals import success_rate
from proctor.training.curve import Curve, CurvePoint


def point(step: int, successes: int, episodes: int) -> CurvePoint:
    rate = success_rate(successes, episodes)
    return CurvePoint(
        step=step, successes=successes, episodes=episodes, low=rate.low, high=rate.high, errors=0,
        mean_reward=None, run=f"eval/{step:06d}",
    )  # fmt: skip


def test_the_best_has_the_highest_lower_end_and_not_the_highest_rate() -> None:
    few, many = point(1, 3, 3), point(2, 45, 50)
    assert Curve((few, many)).best == many


def test_of_equals_the_earlier_is_the_best() -> None:
    assert Curve((point(1, 1, 10), point(2, 7, 10), point(3, 7, 10))).best == point(2, 7, 10)


def test_without_a_rate_there_is_no_best() -> None:
    assert Curve().best is None
    assert Curve((point(1, 0, 0),)).best is None


def test_points_are_in_the_order_of_their_steps_and_one_of_each() -> None:
    curve = Curve().with_point(point(20, 1, 2)).with_point(point(3, 1, 2)).with_point(point(20, 2, 2))
    assert [(one.step, one.successes) for one in curve.points] == [(3, 1), (20, 2)]


def test_a_curve_is_read_as_it_was_written() -> None:
    curve = Curve((point(1, 1, 10), point(2, 0, 0)))
    assert Curve.from_json(json.loads(json.dumps(curve.to_json()))) == curve


@pytest.mark.parametrize("told", [[{}], [{"step": "x"}], [3], {"a": 1}])
def test_what_is_no_curve_is_refused(told: object) -> None:
    with pytest.raises((TypeError, ValueError, LookupError)):
        Curve.from_json(told)  # type: ignore[arg-type]
