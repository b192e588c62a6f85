"""Two policies on the same seeds: the test, the interval, and that they agree."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.stats.paired import NO_PAIRS, Pairs, compare_pairs, mcnemar, pooled, tango

tables = st.builds(Pairs, *[st.integers(0, 60)] * 4)


@settings(deadline=None, max_examples=200)
@given(pairs=tables)
def test_mcnemar_agrees_with_statsmodels(pairs: Pairs) -> None:
    from statsmodels.stats.contingency_tables import mcnemar as theirs

    table = [[pairs.both, pairs.first], [pairs.second, pairs.neither]]
    expected = theirs(table, exact=True).pvalue
    assert mcnemar(pairs) == pytest.approx(min(1.0, expected), rel=1e-9)


@pytest.mark.parametrize(
    ("pairs", "low", "high", "p_value"),
    [
        # Fagerland, Lydersen and Laake (2014), Statistics in Medicine 33: airway reactivity before and after.
        (Pairs(1, 7, 1, 12), -0.517, -0.026, 0.0703),
    ],
)
def test_published_results_are_met(pairs: Pairs, low: float, high: float, p_value: float) -> None:
    interval = tango(pairs)
    assert (round(interval.low, 3), round(interval.high, 3)) == (low, high)
    assert round(mcnemar(pairs), 4) == p_value


@pytest.mark.parametrize("episodes", [1, 10, 200])
def test_without_disagreement_the_interval_is_wilsons_for_a_disagreement_that_was_never_seen(
    episodes: int,
) -> None:
    z2 = 1.959963984540054**2
    interval = tango(Pairs(episodes, 0, 0, 0))
    assert interval.value == 0
    assert interval.high == pytest.approx(z2 / (episodes + z2), abs=1e-9)
    assert interval.low == pytest.approx(-interval.high, abs=1e-9)


@settings(deadline=None, max_examples=200)
@given(pairs=tables, confidence=st.sampled_from([0.8, 0.95, 0.99]))
def test_the_interval_holds_the_difference_and_lies_between_minus_1_and_1(pairs: Pairs, confidence: float) -> None:
    interval = tango(pairs, confidence)
    assert -1 <= interval.low <= interval.value <= interval.high <= 1
    assert interval.low < interval.high


@settings(deadline=None, max_examples=200)
@given(pairs=tables)
def test_swapping_the_policies_turns_the_result_round(pairs: Pairs) -> None:
    ours = compare_pairs(pairs)
    swapped = compare_pairs(pairs._replace(first=pairs.second, second=pairs.first))
    assert ours.p_value == swapped.p_value
    assert ours.difference.value == pytest.approx(-swapped.difference.value)
    assert ours.difference.low == pytest.approx(-swapped.difference.high, abs=1e-9)


@settings(deadline=None)
@given(pairs=tables, moved=st.integers(0, 60))
def test_agreement_of_either_kind_counts_alike(pairs: Pairs, moved: int) -> None:
    moved = min(moved, pairs.both)
    other = pairs._replace(both=pairs.both - moved, neither=pairs.neither + moved)
    assert compare_pairs(other) == compare_pairs(pairs)


@settings(deadline=None)
@given(pairs=tables.filter(lambda pairs: pairs.first > 0))
def test_one_more_win_instead_of_a_loss_moves_everything_up(pairs: Pairs) -> None:
    more = tango(pairs._replace(first=pairs.first - 1, second=pairs.second + 1))
    less = tango(pairs)
    assert more.value > less.value
    assert more.low >= less.low - 1e-9
    assert more.high >= less.high - 1e-9


@settings(deadline=None)
@given(pairs=tables.filter(lambda pairs: pairs.episodes > 0), times=st.integers(2, 8))
def test_more_episodes_of_the_same_kind_narrow_the_interval(pairs: Pairs, times: int) -> None:
    many = Pairs(*(times * count for count in pairs))
    assert tango(many).half_width < tango(pairs).half_width


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1])
def test_interval_and_test_never_contradict_each_other(alpha: float) -> None:
    seen = set()
    for first in range(0, 60):
        for second in range(0, 60 - first):
            compared = compare_pairs(Pairs(5, first, second, 7), alpha)
            told = compared.p_value <= alpha
            assert told == (not compared.difference.low <= 0 <= compared.difference.high), (first, second)
            seen.add(told)
    assert seen == {True, False}


def test_pairs_of_several_tasks_are_pooled() -> None:
    assert pooled([]) == NO_PAIRS
    assert pooled([Pairs(1, 2, 3, 4), Pairs(10, 20, 30, 40)]) == Pairs(11, 22, 33, 44)
    assert Pairs(11, 22, 33, 44).episodes == 110


def test_without_pairs_nothing_is_known() -> None:
    compared = compare_pairs(NO_PAIRS)
    assert compared.p_value == 1
    assert tuple(compared.difference) == (0, -1, 1)
