"""Rules for stopping: what they decide, and that looking after every episode is allowed."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stop_chances import stopped

from proctor.stats.intervals import Rate, clopper_pearson
from proctor.stats.sequential import (
    BetterRule,
    Decision,
    Evidence,
    PrecisionRule,
    anytime,
    at_the_stop,
    e_value,
    log_e_value,
)

counts = st.integers(1, 800).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@settings(deadline=None, max_examples=100)
@given(counts=counts, bound=st.sampled_from([0.02, 0.05, 0.1]))
def test_an_anytime_interval_holds_its_rate_and_is_wider_than_a_single_look_allows(
    counts: tuple[int, int], bound: float
) -> None:
    rate, usual = anytime(*counts, bound=bound), clopper_pearson(*counts, 0.9)
    assert rate.value is not None
    assert 0 <= rate.low <= rate.value <= rate.high <= 1
    # No interval can be narrower on a side than one that spends all of its alpha there, at one look.
    assert rate.low <= usual.low
    assert rate.high >= usual.high


@settings(deadline=None, max_examples=50)
@given(counts=counts)
def test_failures_and_successes_are_treated_alike(counts: tuple[int, int]) -> None:
    successes, episodes = counts
    rate, mirrored = anytime(successes, episodes), anytime(episodes - successes, episodes)
    assert (rate.low, rate.high) == pytest.approx((1 - mirrored.high, 1 - mirrored.low), abs=1e-9)


@settings(deadline=None, max_examples=50)
@given(counts=counts, times=st.integers(2, 5))
def test_more_episodes_at_the_same_rate_narrow_the_interval(counts: tuple[int, int], times: int) -> None:
    few, many = anytime(*counts), anytime(counts[0] * times, counts[1] * times)
    assert many.high - many.low < few.high - few.low


@pytest.mark.parametrize("p", [0.1, 0.5, 0.83])
def test_the_capital_against_a_true_rate_does_not_grow_on_average(p: float) -> None:
    # Over all outcomes of 30 episodes, by their chances. That is what makes an interval anytime-valid (Ville).
    from proctor.stats.sequential import _log_capital

    mean = sum(comb(30, k) * p**k * (1 - p) ** (30 - k) * np.exp(_log_capital(p, k, 30, 48.0)) for k in range(31))
    assert mean == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("chance", [0.5, 0.4, 0.1])
def test_a_bet_on_a_policy_that_is_not_better_gains_nothing_on_average(chance: float) -> None:
    mean = sum(comb(40, w) * chance**w * (1 - chance) ** (40 - w) * e_value(w, 40 - w) for w in range(41))
    assert mean <= 1 + 1e-9
    if chance == 0.5:
        assert mean == pytest.approx(1)


@given(wins=st.integers(0, 5000), losses=st.integers(0, 5000))
def test_evidence_grows_with_wins_and_shrinks_with_losses(wins: int, losses: int) -> None:
    assert log_e_value(wins + 1, losses) > log_e_value(wins, losses) > log_e_value(wins, losses + 1)
    assert Evidence(wins, losses).better == Evidence(losses, wins).worse


def test_seven_wins_in_a_row_show_that_a_policy_is_better() -> None:
    rule = BetterRule()
    said: list[Decision | None] = []
    while not said or said[-1] is None:
        said += [rule.add(True, True), rule.add(False, False), rule.add(None, True), rule.add(True, False)]
    assert said[-1] == "better"
    assert rule.evidence.losses == 0
    assert rule.evidence.wins == 7
    assert e_value(6, 0) < 20 <= e_value(7, 0)


def test_the_other_direction_is_told_too() -> None:
    rule = BetterRule()
    for _ in range(6):
        assert rule.add(False, True) is None
    assert rule.add(False, True) == "worse"


def test_a_plan_that_cannot_show_it_any_more_is_given_up() -> None:
    rule = BetterRule()
    assert rule.add(False, True, chances_left=30) is None
    assert rule.add(False, True, chances_left=8) == "hopeless"
    # Indeed: even eight wins would not do, and with more of them it might have been.
    assert e_value(8, 2) < 20 <= e_value(30, 2)


def test_rules_decide_only_after_full_rounds_of_the_tasks() -> None:
    rule, precise = BetterRule(tasks=4), PrecisionRule(0.2, tasks=4)
    said = [rule.add(True, False) for _ in range(8)]
    assert said == [None] * 7 + ["better"]
    stops = [precise.add(True) for _ in range(40)]
    first = stops.index(True)
    assert (first + 1) % 4 == 0
    assert not any(stop for place, stop in enumerate(stops) if (place + 1) % 4)


def test_precision_is_reached_where_half_the_interval_is_narrow_enough() -> None:
    rng = np.random.default_rng(3)
    for interval in (anytime, at_the_stop):
        rule = PrecisionRule(0.1, interval=interval)
        seen: list[bool] = []
        while not rule.add(bool(rng.random() < 0.8)):
            seen.append(True)
            assert (rule.rate.high - rule.rate.low) / 2 > 0.1
        assert (rule.rate.high - rule.rate.low) / 2 <= 0.1
        assert rule.rate == interval(rule.rate.successes, rule.rate.episodes, 0.95, 0.1)


@pytest.mark.parametrize("bound", [0.04, 0.07, 0.1, 0.11, 0.15, 0.2, 0.232, 0.25, 0.3, 0.35, 0.4, 0.45, 0.49])
@pytest.mark.parametrize("tasks", [1, 2, 10])
def test_the_interval_at_the_stop_holds_every_rate_as_often_as_it_says(bound: float, tasks: int) -> None:
    rates = np.r_[np.geomspace(1e-4, 0.02, 25), np.linspace(0.02, 0.5, 60)]
    assert stopped(at_the_stop, bound, rates, tasks).coverage.min() >= 0.95


def test_errors_are_in_the_plan_but_not_in_the_rate() -> None:
    rule = PrecisionRule(0.4)
    assert not rule.add(None)
    assert rule.rate == Rate(0, 0, 0.0, 1.0)
    rule.add(True)
    assert (rule.rate.successes, rule.rate.episodes) == (1, 1)


@pytest.mark.parametrize("bound", [0, 0.5, -1])
def test_a_width_that_cannot_be_is_refused(bound: float) -> None:
    with pytest.raises(ValueError, match="half the width"):
        PrecisionRule(bound)
    with pytest.raises(ValueError, match="alpha"):
        BetterRule(alpha=0)
