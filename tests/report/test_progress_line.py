"""The line that says how far a run is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.events import Progress
from proctor.report.progress_line import TimeLeft, one_line, progress_facts
from proctor.stats.intervals import success_rate

MOMENT = Progress(123, 500, 3, success_rate(100, 120), (), 48_000, 61.0, 32, 32, 123)


@pytest.mark.parametrize(
    ("width", "words"),
    [
        (
            120,
            "123/500 episodes, success 83.3 % (75.7–88.9), 3 errors, 2.02 episodes/s, 787 steps/s, "
            "32/32 workers busy, 3 min 7 s left",
        ),
        (80, "123/500 episodes, success 83.3 % (75.7–88.9), 3 errors, 3 min 7 s left"),
        (60, "123/500, 83.3 % (75.7–88.9), 3 errors, 3 min 7 s left"),
        (40, "123/500, 83.3 % (75.7–88.9), 3 errors"),
    ],
)
def test_it_fits_the_terminal_and_keeps_what_matters(width: int, words: str) -> None:
    line = one_line(progress_facts(MOMENT, 187.0), width)
    assert len(line) <= width
    assert line == words


@given(width=st.integers(1, 200), left=st.none() | st.floats(0, 1e6), errors=st.integers(0, 10**6))
def test_it_fits_any_terminal(width: int, left: float | None, errors: int) -> None:
    assert len(one_line(progress_facts(replace(MOMENT, errors=errors), left), width)) <= width


def test_until_something_moves_it_says_how_many_simulators_are_built() -> None:
    moment = replace(MOMENT, ended=0, steps=0, episodes_here=0, workers=8, ready=3, errors=0)
    assert one_line(progress_facts(moment, None)).endswith("building simulators 3/8")


def at(seconds: float, here: int, steps: int = 1) -> Progress:
    return replace(MOMENT, ended=here, total=100, episodes_here=here, seconds=seconds, steps=steps)


def test_the_time_left_does_not_climb_while_nothing_changes() -> None:
    clock = TimeLeft()
    assert clock.look(at(1.0, 0)) is None
    found = [clock.look(at(10.0 + tenth / 10, 10)) for tenth in range(1000)]
    known = [left for left in found if left is not None]
    assert known == sorted(known, reverse=True)
    assert found[-1] is None  # late: nobody knows


def test_the_time_left_does_not_count_the_building_of_simulators() -> None:
    clock = TimeLeft()
    clock.look(at(60.0, 0, steps=0))
    assert clock.look(at(70.0, 10)) == pytest.approx(90.0)
