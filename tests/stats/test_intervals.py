"""Every rate is k out of n with an interval that can be trusted."""

from __future__ import annotations

from math import sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.stats.intervals import CONFIDENCE, Rate, clopper_pearson, wilson

counts = st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def test_the_default_confidence_is_95_percent() -> None:
    assert CONFIDENCE == 0.95
    assert wilson(7, 9) == wilson(7, 9, 0.95)


@pytest.mark.parametrize(
    ("successes", "episodes", "low", "high"),
    [
        # Newcombe (1998), Statistics in Medicine 17, table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (29, 29, 0.8830, 1.0),
    ],
)
def test_published_intervals_are_met(successes: int, episodes: int, low: float, high: float) -> None:
    rate = wilson(successes, episodes)
    assert (round(rate.low, 4), round(rate.high, 4)) == (low, high)


@pytest.mark.parametrize(("episodes", "points"), [(50, 10.9), (200, 5.5), (500, 3.5)])
def test_the_half_widths_at_80_percent_are_those_we_tell_people(episodes: int, points: float) -> None:
    rate = wilson(episodes * 4 // 5, episodes)
    assert 100 * (rate.high - rate.low) / 2 == pytest.approx(points, abs=0.1)


@settings(deadline=None)
@given(counts=counts, confidence=st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99]))
def test_wilson_agrees_with_scipy(counts: tuple[int, int], confidence: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    successes, episodes = counts
    theirs = stats.binomtest(successes, episodes).proportion_ci(confidence, method="wilson")
    ours = wilson(successes, episodes, confidence)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


@settings(deadline=None)
@given(counts=counts)
def test_an_interval_lies_in_0_to_1_and_holds_its_rate(counts: tuple[int, int]) -> None:
    rate = wilson(*counts)
    assert rate.value is not None
    assert 0.0 <= rate.low <= rate.value <= rate.high <= 1.0
    assert rate.low < rate.high


@settings(deadline=None)
@given(counts=counts)
def test_failures_and_successes_are_treated_alike(counts: tuple[int, int]) -> None:
    successes, episodes = counts
    rate, mirrored = wilson(successes, episodes), wilson(episodes - successes, episodes)
    assert (rate.low, rate.high) == pytest.approx((1 - mirrored.high, 1 - mirrored.low), abs=1e-12)


@settings(deadline=None)
@given(counts=counts, times=st.integers(2, 10))
def test_more_episodes_at_the_same_rate_narrow_the_interval(counts: tuple[int, int], times: int) -> None:
    few, many = wilson(*counts), wilson(counts[0] * times, counts[1] * times)
    assert many.high - many.low < few.high - few.low


@settings(deadline=None)
@given(counts=counts)
def test_more_confidence_widens_the_interval(counts: tuple[int, int]) -> None:
    narrow, wide = wilson(*counts, 0.8), wilson(*counts, 0.99)
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high
    assert wide.high - wide.low > narrow.high - narrow.low


@settings(deadline=None)
@given(counts=counts)
def test_both_ends_solve_the_equation_that_defines_wilsons_interval(counts: tuple[int, int]) -> None:
    successes, episodes = counts
    rate, z = wilson(*counts), 1.959963984540054
    p = successes / episodes
    for end in {rate.low, rate.high} - {0.0, 1.0}:
        assert abs(p - end) == pytest.approx(z * sqrt(end * (1 - end) / episodes), abs=1e-9)


@pytest.mark.parametrize("episodes", [1, 2, 10, 500])
def test_the_ends_are_exact_where_all_or_none_succeed(episodes: int) -> None:
    assert wilson(0, episodes).low == 0.0
    assert wilson(episodes, episodes).high == 1.0
    assert wilson(0, episodes).high > 0.0
    assert wilson(episodes, episodes).low < 1.0


def test_without_episodes_nothing_is_known() -> None:
    assert wilson(0, 0) == Rate(0, 0, 0.0, 1.0)
    assert wilson(0, 0).value is None
    assert str(wilson(0, 0)) == "0/0"


def test_a_rate_shows_k_n_and_its_interval() -> None:
    assert str(wilson(8, 10)) == "80.0 % (8/10, 49.0–94.3)"


@pytest.mark.parametrize(("successes", "episodes"), [(-1, 5), (6, 5), (1, 0)])
def test_impossible_counts_are_refused(successes: int, episodes: int) -> None:
    with pytest.raises(ValueError, match=f"{successes} of {episodes}"):
        wilson(successes, episodes)


@settings(deadline=None, max_examples=100)
@given(counts=counts, confidence=st.sampled_from([0.8, 0.95, 0.99]))
def test_clopper_pearson_agrees_with_statsmodels_and_holds_its_rate(
    counts: tuple[int, int], confidence: float
) -> None:
    from statsmodels.stats.proportion import proportion_confint

    rate = clopper_pearson(*counts, confidence)
    theirs = proportion_confint(*counts, alpha=1 - confidence, method="beta")
    assert (rate.low, rate.high) == pytest.approx(tuple(map(float, theirs)), abs=1e-9)
    assert rate.value is not None
    assert 0 <= rate.low <= rate.value <= rate.high <= 1


def test_a_published_clopper_pearson_interval_is_met() -> None:
    # Newcombe (1998), Statistics in Medicine 17, table I, method 5.
    rate = clopper_pearson(81, 263)
    assert (round(rate.low, 4), round(rate.high, 4)) == (0.2527, 0.3676)
    assert clopper_pearson(0, 0) == Rate(0, 0, 0.0, 1.0)
