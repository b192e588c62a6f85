"""Two policies on different seeds."""

from __future__ import annotations

import tracemalloc
from math import sqrt
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from proctor.stats.unpaired import barnard, compare_rates, newcombe

counts = st.integers(1, 40).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@pytest.mark.parametrize(
    ("first", "second", "low", "high"),
    [
        # Newcombe (1998), Statistics in Medicine 17, page 873, table II, method 10.
        ((48, 80), (56, 70), 0.0524, 0.3339),
        ((3, 10), (9, 10), 0.1705, 0.8090),
        ((2, 7), (6, 7), 0.0582, 0.8062),
        ((0, 29), (5, 56), -0.0381, 0.1926),
        ((0, 10), (0, 10), -0.2775, 0.2775),
        ((0, 10), (10, 10), 0.6075, 1.0000),
    ],
)
def test_published_intervals_are_met(
    first: tuple[int, int], second: tuple[int, int], low: float, high: float
) -> None:
    interval = newcombe(first, second)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=6e-5)


@settings(deadline=None, max_examples=60)
@given(first=counts, second=counts)
def test_newcombe_agrees_with_statsmodels(first: tuple[int, int], second: tuple[int, int]) -> None:
    from statsmodels.stats.proportion import confint_proportions_2indep

    theirs = confint_proportions_2indep(*second, *first, method="newcomb")
    ours = newcombe(first, second)
    assert (ours.low, ours.high) == pytest.approx(tuple(map(float, theirs)), abs=1e-9)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((10, 20), (14, 20)),
        ((3, 30), (0, 17)),
        ((7, 12), (15, 16)),
        ((30, 50), (38, 50)),
        ((1, 3), (25, 40)),
        ((0, 5), (5, 5)),
        ((88, 100), (97, 100)),
    ],
)
def test_barnard_agrees_with_scipy(first: tuple[int, int], second: tuple[int, int]) -> None:
    from scipy.stats import barnard_exact

    (k1, n1), (k2, n2) = first, second
    theirs = barnard_exact([[k1, k2], [n1 - k1, n2 - k2]]).pvalue
    assert barnard(first, second) == pytest.approx(theirs, rel=1e-5)


@settings(deadline=None, max_examples=50)
@given(first=counts, second=counts)
def test_neither_order_nor_the_name_of_an_outcome_matters(first: tuple[int, int], second: tuple[int, int]) -> None:
    (k1, n1), (k2, n2) = first, second
    ours, swapped = compare_rates(first, second), compare_rates(second, first)
    mirrored = compare_rates((n1 - k1, n1), (n2 - k2, n2))
    assert ours.p_value == pytest.approx(swapped.p_value) == pytest.approx(mirrored.p_value)
    for other in (swapped, mirrored):
        assert ours.difference.value == pytest.approx(-other.difference.value)
        assert ours.difference.low == pytest.approx(-other.difference.high)


@settings(deadline=None, max_examples=50)
@given(first=counts, second=counts)
def test_the_interval_holds_0_where_the_test_does_not_reject(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    compared = compare_rates(first, second)
    assert 0 <= compared.p_value <= 1
    assert compared.difference.low <= compared.difference.value <= compared.difference.high
    if compared.p_value > 0.05:
        assert compared.difference.low <= 0 <= compared.difference.high


def test_a_larger_gap_is_more_surprising() -> None:
    values = [barnard((10, 40), (k, 40)) for k in range(10, 41)]
    assert values == sorted(values, reverse=True)
    assert values[0] == 1
    assert values[-1] < 1e-9


def test_without_episodes_nothing_is_known() -> None:
    compared = compare_rates((0, 0), (3, 5))
    assert compared.p_value == 1
    assert tuple(compared.difference) == (0, -1, 1)


@pytest.mark.parametrize(
    ("first", "second"), [((14_000, 20_000), (14_200, 20_000)), ((100, 20_000), (140, 20_000))]
)
def test_barnard_on_many_episodes_takes_little_memory_and_agrees_with_the_normal_test(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    barnard((1, 2), (2, 2))  # what scipy takes for itself, once
    tracemalloc.start()
    try:
        value = barnard(first, second)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20e6
    (k1, n1), (k2, n2) = first, second
    pooled = (k1 + k2) / (n1 + n2)
    z = (k2 / n2 - k1 / n1) / sqrt(pooled * (1 - pooled) * (1 / n1 + 1 / n2))
    assert value == pytest.approx(2 * NormalDist().cdf(-z), rel=0.15)


def test_barnard_sums_over_every_table_that_is_as_extreme() -> None:
    # By its definition, at every rate of a fine grid.
    for (k1, n1), (k2, n2) in [((3, 7), (9, 11)), ((0, 13), (4, 6)), ((12, 12), (8, 15))]:
        rows, columns = np.meshgrid(np.arange(n1 + 1), np.arange(n2 + 1), indexing="ij")
        pooled = (rows + columns) / (n1 + n2)
        spread = np.sqrt(pooled * (1 - pooled) * (1 / n1 + 1 / n2))
        score = np.abs(np.divide(columns / n2 - rows / n1, spread, out=np.zeros_like(spread), where=spread > 0))
        extreme = score >= score[k1, k2] * (1 - 1e-9)
        rates = np.linspace(0, 1, 4001)
        ours, theirs = (binom.pmf(np.arange(n + 1)[:, None], n, rates) for n in (n1, n2))
        worst = float(np.einsum("ip,jp,ij->p", ours, theirs, extreme).max())
        assert barnard((k1, n1), (k2, n2)) == pytest.approx(worst, rel=1e-4)
