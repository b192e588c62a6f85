"""When a batch that is not full is started."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.engine.policy_host import BatchHold


def after(passes: int, seconds: float, pause: float, batch: int = 8) -> tuple[BatchHold, float]:
    patience, clock = BatchHold(batch), 100.0
    for _ in range(passes):
        patience.passed(clock, clock + seconds)
        clock += seconds + pause
    return patience, clock


def test_a_device_with_time_to_spare_answers_at_once() -> None:
    patience, now = after(50, seconds=0.005, pause=0.1)
    assert not patience.busy
    assert patience.hold(waiting=1, others=7, oldest=now, now=now) == 0


def test_the_first_question_is_answered_at_once() -> None:
    assert BatchHold(8).hold(waiting=1, others=7, oldest=5.0, now=5.0) == 0


def test_a_device_that_everybody_waits_for_holds_back_for_at_most_a_pass() -> None:
    patience, now = after(50, seconds=0.03, pause=0.001)
    assert patience.hold(waiting=2, others=6, oldest=now, now=now) == pytest.approx(0.03, rel=0.05)
    assert patience.hold(waiting=2, others=6, oldest=now - 0.04, now=now) == 0


def test_a_full_batch_and_a_batch_of_all_there_are_start_at_once() -> None:
    patience, now = after(50, seconds=0.03, pause=0.0)
    assert patience.hold(waiting=8, others=4, oldest=now, now=now) == 0
    assert patience.hold(waiting=3, others=0, oldest=now, now=now) == 0


@given(
    st.lists(st.tuples(st.floats(1e-4, 2), st.floats(0, 2)), max_size=30),
    st.integers(1, 16),
    st.integers(0, 16),
    st.floats(0, 1),
)
def test_nobody_is_held_for_longer_than_the_longest_pass(
    passes: list[tuple[float, float]], waiting: int, others: int, age: float
) -> None:
    patience, clock = BatchHold(8), 0.0
    for seconds, pause in passes:
        patience.passed(clock, clock + seconds)
        clock += seconds + pause
    longest = max((seconds for seconds, _ in passes), default=0.0)
    assert 0 <= patience.hold(waiting, others, clock - age, clock) <= longest + 1e-9
