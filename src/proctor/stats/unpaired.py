"""Two policies on different seeds: their rates are all there is to compare."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np
from numpy.typing import NDArray

from proctor.stats.intervals import ALPHA, CONFIDENCE, Estimate, wilson
from proctor.stats.paired import Compared, holding_zero

Array = NDArray[np.float64]

_GRID = 512
_REFINEMENTS = 3


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
    """
    (k1, n1), (k2, n2) = first, second
    if not n1 or not n2:
        return 1.0
    observed = abs(_score(k1, n1, np.array([k2]), n2)[0])
    if observed == 0:
        return 1.0
    below, above = np.empty(n1 + 1, int), np.empty(n1 + 1, int)
    for row in range(n1 + 1):
        score = _score(row, n1, np.arange(n2 + 1), n2)
        # Equal scores must count as equal, whatever their last bits.
        below[row] = np.count_nonzero(score <= -observed * (1 - 1e-9))
        above[row] = np.count_nonzero(score >= observed * (1 - 1e-9))

    def chance(rates: Array) -> Array:
        ours, theirs = _masses(n1, rates), _masses(n2, rates)
        edge = np.zeros((len(rates), 1))
        up_to = np.hstack([edge, np.cumsum(theirs, axis=1)])  # up_to[:, j]: the first j counts
        down_to = np.hstack([edge, np.cumsum(theirs[:, ::-1], axis=1)])  # the last j
        total: Array = (ours * (up_to[:, below] + down_to[:, above])).sum(axis=1)
        return total

    # Evenly in the angle whose squared sine is the rate: there all rates are equally uncertain.
    angles = np.linspace(0, pi / 2, _GRID + 1)
    best = 0.0
    for _ in range(1 + _REFINEMENTS):
        found = chance(np.sin(angles) ** 2)
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


def _score(k1: int, n1: int, k2: NDArray[np.int_], n2: int) -> Array:
    pooled = (k1 + k2) / (n1 + n2)
    spread = np.sqrt(pooled * (1 - pooled) * (1 / n1 + 1 / n2))
    found: Array = np.divide(k2 / n2 - k1 / n1, spread, out=np.zeros_like(spread), where=spread > 0)
    return found


def _masses(episodes: int, rates: Array) -> Array:
    """The chance of every count of successes (columns) at every rate (rows)."""
    from scipy.special import gammaln, xlog1py, xlogy

    counts = np.arange(episodes + 1)
    ways = gammaln(episodes + 1) - gammaln(counts + 1) - gammaln(episodes - counts + 1)
    column = rates[:, None]
    found: Array = np.exp(ways + xlogy(counts, column) + xlog1py(episodes - counts, -column))
    return found
