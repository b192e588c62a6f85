"""Success against steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.stats.intervals import wilson
from proctor.stats.steps import StepCurve, curve_of_successes


@dataclass(frozen=True)
class Ended:
    success: bool | None
    steps: int


def step_curve(ended: Sequence[Ended]) -> StepCurve:
    finished = [one for one in ended if one.success is not None]
    return curve_of_successes([one.steps for one in finished if one.success], len(finished))


episodes = st.lists(st.builds(Ended, st.sampled_from([True, False, None]), st.integers(1, 60)), max_size=40)


@given(ended=episodes, step=st.integers(0, 70))
def test_the_curve_counts_who_had_succeeded_by_a_step(ended: list[Ended], step: int) -> None:
    finished = [episode for episode in ended if episode.success is not None]
    by_then = sum(bool(episode.success) and episode.steps <= step for episode in finished)
    assert step_curve(ended).by(step) == wilson(by_then, len(finished))


@given(ended=episodes)
def test_it_rises_to_the_success_rate(ended: list[Ended]) -> None:
    curve = step_curve(ended)
    assert list(curve.successes) == sorted(set(curve.successes))
    assert curve.by(60).successes == sum(bool(episode.success) for episode in ended)


@given(ended=episodes, share=st.floats(0.01, 1))
def test_a_quantile_is_the_first_step_by_which_that_share_had_succeeded(ended: list[Ended], share: float) -> None:
    curve = step_curve(ended)
    step = curve.quantile(share)
    if step is None:
        assert curve.by(60).successes < share * curve.episodes or not curve.episodes
    else:
        assert curve.by(step).successes >= share * curve.episodes - 1e-6
        assert curve.by(step - 1).successes < max(1, share * curve.episodes)


def test_a_failed_episode_is_later_than_any_quantile() -> None:
    curve = step_curve([Ended(True, 10), Ended(True, 20), Ended(False, 500), Ended(False, 500), Ended(None, 0)])
    assert curve.episodes == 4
    assert curve.points() == [(10, 1), (20, 2)]
    assert (curve.quantile(0.25), curve.quantile(0.5), curve.quantile(0.51)) == (10, 20, None)
    assert curve.median_of_successes() == 10


def test_where_nothing_succeeded_there_is_no_quantile() -> None:
    curve = step_curve([Ended(False, 5)])
    assert curve.quantile(0.5) is None
    assert curve.median_of_successes() is None
    assert curve.by(5) == wilson(0, 1)
    with pytest.raises(ValueError, match="share"):
        curve.quantile(0)
