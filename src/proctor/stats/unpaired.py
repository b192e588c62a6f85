"""Two policies on different seeds: their rates are all there is to compare."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proctor.stats.intervals import ALPHA, CONFIDENCE, Estimate, wilson
from proctor.stats.paired import Compared, holding_zero

Array = NDArray[np.float64]
Counts = NDArray[np.int_]

_GRID = 512
_REFINEMENTS = 3
_CELLS = 2**17
"""Of a table of rates and counts: 1 MB."""


def newcombe(first: tuple[int, int], second: tuple[int, int], confidence: float = CONFIDENCE) -> Estimate:
    """Return the second rate minus the first with Newcombe's interval.

    Method 10 of Statistics in Medicine 17 (1998), page 873. Made from the two Wilson intervals, so it agrees with
    what is shown beside each rate, and like them it holds up near 0 and 1. Counts are (successes, episodes).

    >>> [round(end, 4) for end in newcombe((48, 80), (56, 70))]
    [0.2, 0.0524, 0.3339]
    """
    a, b = wilson(*first, confidence), wilson(*second, confidence)
    if a.value is None or b.value is None:
        return Estimate(0.0, -1.0, 1.0)
    value = b.value - a.value
    low = value - sqrt((b.value - b.low) ** 2 + (a.high - a.value) ** 2)
    high = value + sqrt((b.high - b.value) ** 2 + (a.value - a.low) ** 2)
    return Estimate(value, max(-1.0, low), min(1.0, high))


def barnard(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Return the two-sided p-value of Barnard's exact test, by the pooled score statistic. Needs scipy.

    It fixes only what the evaluation fixed, the numbers of episodes, and so is more powerful than Fisher's. The
    chance of a result as extreme as this one is taken at the common rate that makes it largest. scipy's own
    sums over all tables, seconds for 500 episodes; the extreme ones of a row are two tails, so sums suffice.
    Counts whose chance is below 1e-20 are left out: the work for a rate goes with the root of the episodes.
    """
    (k1, n1), (k2, n2) = first, second
    if not n1 or not n2:
        return 1.0
    observed = abs(float(_score(np.array(k1), n1, np.array(k2), n2)))
    if observed == 0:
        return 1.0
    # Equal scores must count as equal, whatever their last bits.
    limit = observed * (1 - 1e-9)
    rows = np.arange(n1 + 1)
    below = _first(rows, n1, n2, lambda score: score > -limit)  # so many counts, from 0 on, are as extreme
    above = _first(rows, n1, n2, lambda score: score >= limit)  # and all from this one on

    def chances(rates: Array) -> Array:
        ours, theirs = _Masses.of(n1, rates), _Masses.of(n2, rates)
        edge = np.zeros((len(rates), 1))
        up_to = np.hstack([edge, np.cumsum(theirs.chances, axis=1)])  # up_to[:, j]: the first j counts
        down_to = np.hstack([edge, np.cumsum(theirs.chances[:, ::-1], axis=1)])[:, ::-1]  # all from the j-th on
        here = slice(ours.least, ours.least + ours.chances.shape[1])
        low, high = (np.clip(ends[here] - theirs.least, 0, theirs.chances.shape[1]) for ends in (below, above))
        total: Array = (ours.chances * (up_to[:, low] + down_to[:, high])).sum(axis=1)
        return total

    # Neighbouring rates together, as many as keep a table small.
    at_once = max(1, _CELLS // (max(n1, n2) + 1))
    # Evenly in the angle whose squared sine is the rate: there all rates are equally uncertain, by 1 / sqrt(4 n).
    angles = np.linspace(0, pi / 2, max(_GRID, int(4 * sqrt(max(n1, n2)))) + 1)
    best = 0.0
    for _ in range(1 + _REFINEMENTS):
        rates = np.sin(angles) ** 2
        found = np.concatenate([chances(rates[at : at + at_once]) for at in range(0, len(rates), at_once)])
        place, step = int(found.argmax()), angles[1] - angles[0]
        best = max(best, float(found[place]))
        angles = np.clip(np.linspace(angles[place] - step, angles[place] + step, 17), 0, pi / 2)
    return min(1.0, best)


def compare_rates(first: tuple[int, int], second: tuple[int, int], alpha: float = ALPHA) -> Compared:
    """Return difference, interval and exact p-value. Needs scipy.

    Where the test does not reject, the interval is stretched to hold 0, as for pairs. Near rates of 0 and 1 it may
    hold 0 by a hair although the test rejects: 4 successes of 20 against none of 20.
    """
    difference, p_value = newcombe(first, second, 1 - alpha), barnard(first, second)
    if p_value > alpha:
        difference = holding_zero(difference)
    return Compared(difference, p_value)


def _score(k1: Counts, n1: int, k2: Counts, n2: int) -> Array:
    pooled = (k1 + k2) / (n1 + n2)
    spread = np.sqrt(pooled * (1 - pooled) * (1 / n1 + 1 / n2))
    found: Array = np.divide(k2 / n2 - k1 / n1, spread, out=np.zeros_like(spread), where=spread > 0)
    return found


def _first(rows: Counts, n1: int, n2: int, reached: Callable[[Array], NDArray[np.bool_]]) -> Counts:
    """Return for each row the first count of the second policy with such a score, `n2 + 1` if there is none.

    More successes of the second are a higher score, so halving finds it.
    """
    low, high = np.zeros_like(rows), np.full_like(rows, n2 + 1)
    while (low < high).any():
        middle = (low + high) // 2
        there = reached(_score(rows, n1, np.minimum(middle, n2), n2)) | (middle > n2)
        low, high = np.where(there, low, np.minimum(middle + 1, high)), np.where(there, middle, high)
    return low


class _Masses(NamedTuple):
    """At every rate (rows), the chances of counts of successes from `least` on; the others' are negligible."""

    least: int
    chances: Array

    @classmethod
    def of(cls, episodes: int, rates: Array) -> _Masses:
        """Return those of rates that rise."""
        from scipy.special import gammaln, xlog1py, xlogy

        # Bernstein: a count is further off than this with a chance below 1e-20.
        first, last = (episodes * rate for rate in (rates[0], rates[-1]))
        reach = 10 * np.sqrt(episodes * (rates * (1 - rates)).max()) + 50
        counts = np.arange(max(0, int(first - reach)), min(episodes, int(last + reach) + 1) + 1)
        ways = gammaln(episodes + 1) - gammaln(counts + 1) - gammaln(episodes - counts + 1)
        column = rates[:, None]
        return cls(int(counts[0]), np.exp(ways + xlogy(counts, column) + xlog1py(episodes - counts, -column)))
