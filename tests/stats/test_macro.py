"""The average over tasks."""

from __future__ import annotations

from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.stats.intervals import corrected_wilson, wilson
from proctor.stats.macro import clustered, clustered_difference, stratified
from proctor.stats.student import cdf, quantile

counts = st.integers(1, 30).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
several = st.lists(counts, min_size=2, max_size=8)


@settings(deadline=None, max_examples=30)
@given(freedom=st.integers(1, 200), probability=st.floats(0.01, 0.99))
def test_students_quantiles_are_scipys(freedom: int, probability: float) -> None:
    from scipy.special import stdtr, stdtrit

    assert quantile(probability, freedom) == pytest.approx(
        float(stdtrit(freedom, probability)), rel=1e-7, abs=1e-9
    )
    assert cdf(1.3, freedom) == pytest.approx(float(stdtr(freedom, 1.3)), rel=1e-12)


@settings(deadline=None, max_examples=30)
@given(tasks=several)
def test_every_task_counts_alike_and_both_intervals_hold_the_average(tasks: list[tuple[int, int]]) -> None:
    mean = fmean(k / n for k, n in tasks)
    inside, across = stratified(tasks), clustered(tasks)
    assert inside is not None
    assert across is not None
    assert inside.value == pytest.approx(mean)
    assert across.value == pytest.approx(mean)
    assert 0 <= across.low <= inside.low <= mean + 1e-12
    assert mean - 1e-12 <= inside.high <= across.high <= 1
    assert inside.low < inside.high


@settings(deadline=None, max_examples=20)
@given(tasks=several, data=st.data())
def test_the_same_tasks_in_another_order_give_the_same_interval(
    tasks: list[tuple[int, int]], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(tasks))
    assert stratified(shuffled) == stratified(tasks)
    assert clustered(shuffled) == clustered(tasks)


def test_tasks_that_never_failed_are_not_taken_for_certain() -> None:
    always = stratified([(20, 20)] * 50)
    assert always is not None
    assert always.high == 1
    assert always.low == pytest.approx(wilson(1000, 1000).low, abs=0.002)
    assert clustered([(20, 20)] * 50) == always


def test_one_episode_of_each_task_says_no_more_than_as_many_of_one_rate() -> None:
    # One episode tells nothing of its task's variance, which is largest if all tasks are alike.
    once = stratified([(1, 1)] * 35 + [(0, 1)] * 15)
    pooled = corrected_wilson(35, 50)
    assert once is not None
    assert (once.low, once.high) == pytest.approx((pooled.low, pooled.high))
    # Twenty of each show that the tasks differ, and not their episodes.
    often = stratified([(20, 20)] * 35 + [(0, 20)] * 15)
    assert often is not None
    assert often.half_width < 0.5 * corrected_wilson(700, 1000).high - 0.5 * corrected_wilson(700, 1000).low


def test_an_average_is_as_unsure_as_the_task_that_was_tried_least() -> None:
    few = stratified([(1, 2)] + [(40, 40)] * 9)
    same = stratified([(20, 40)] + [(40, 40)] * 9)
    assert few is not None
    assert same is not None
    assert few.half_width > 2 * same.half_width
    # With every episode of the nine a success, two of the tenth may still be anything.
    assert few.low < 0.91
    assert few.high > 0.99


def test_tasks_that_differ_say_less_about_other_tasks_than_about_themselves() -> None:
    tasks = [(20, 20), (19, 20), (3, 20), (10, 20), (0, 20)]
    inside, across = stratified(tasks), clustered(tasks)
    assert inside is not None
    assert across is not None
    assert across.half_width > 3 * inside.half_width
    # By hand: the rates' standard deviation is 0.4605, t with 4 degrees 2.7764, so 0.52 ± 0.5718.
    assert across.low == 0
    assert across.high == 1
    assert clustered_difference([0.1, 0.2, 0.3]) == pytest.approx((0.2, 0.2 - 0.24841, 0.2 + 0.24841), abs=1e-4)


def test_one_task_says_nothing_about_others_and_no_task_nothing_at_all() -> None:
    assert clustered([(3, 5)]) is None
    assert clustered_difference([0.5]) is None
    assert clustered_difference([0.1, 0.1]) is None
    assert stratified([]) is None
    assert stratified([(0, 0)]) is None
    assert stratified([(3, 5), (0, 0)]) == stratified([(3, 5)])
