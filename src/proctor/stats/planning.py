"""How many episodes it takes to tell a difference."""

from __future__ import annotations

from math import ceil, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from proctor.stats.intervals import ALPHA

POWER = 0.8
"""The chance with which a difference is to be found."""

EXACT_UP_TO = 20_000
"""Pairs that disagree, up to which a plan rests on the exact power."""


def paired_power(episodes: int, difference: float, disagreement: float, alpha: float = ALPHA) -> float:
    """Return the chance that exact McNemar tells two policies apart. Needs scipy.

    Args:
        episodes: pairs.
        difference: between the true rates.
        disagreement: the share of pairs in which exactly one policy succeeds; at least the difference.
        alpha: two-sided error.
    """
    from scipy.special import bdtr, bdtrc

    _check(difference, disagreement)
    share = (disagreement + abs(difference)) / (2 * disagreement)
    spread = 7 * sqrt(episodes * disagreement) + 9
    least = max(0, int(episodes * disagreement - spread))
    counts = np.arange(least, min(episodes, int(episodes * disagreement + spread)) + 1)
    below = bdtr(least - 1, episodes, disagreement) if least else 0.0
    chances = np.diff(bdtr(counts, episodes, disagreement), prepend=below)
    limit = _limits(counts, alpha)
    rejects = limit >= 0
    safe = np.where(rejects, limit, 0.0)
    found = bdtr(safe, counts, 1 - share) + bdtrc(np.maximum(counts - safe - 1, 0), counts, 1 - share)
    return float((chances * np.where(rejects, found, 0.0)).sum())


def _limits(counts: NDArray[np.int_], alpha: float) -> NDArray[np.float64]:
    """Return the most wins of the losing side with which McNemar's test still rejects; -1: it never does."""
    from scipy.special import bdtr

    def rejects(wins: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.asarray((wins < 0) | (bdtr(np.maximum(wins, 0), counts, 0.5) <= alpha / 2))

    z = NormalDist().inv_cdf(1 - alpha / 2)
    limit = np.maximum(-1.0, np.floor((counts - z * np.sqrt(counts) - 1) / 2))
    while (wrong := ~rejects(limit)).any():
        limit = limit - wrong
    while (right := rejects(limit + 1)).any():
        limit = limit + right
    return limit


def paired_episodes(
    difference: float, disagreement: float, alpha: float = ALPHA, power: float = POWER
) -> int | None:
    """Return the pairs with which exact McNemar tells a difference; `None` if there is none. Needs scipy.

    Found by bisection on the exact power, to a thousandth. Where so many pairs are needed that more than
    `EXACT_UP_TO` of them disagree, that would take minutes; Connor's formula (Biometrics 43, 1987) with a
    continuity correction then gives a power within 0.001 of the one that was asked for.
    """
    if not difference:
        return None
    _check(difference, disagreement)
    z_alpha, z_beta = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)
    root = z_alpha * sqrt(disagreement) + z_beta * sqrt(disagreement - difference**2)
    # The exact test asks for a win more than the formula believes, and that takes 1 / difference pairs.
    formula = ceil((root / difference) ** 2 + 1 / abs(difference))
    if formula * disagreement > EXACT_UP_TO:
        return formula

    def tells(episodes: int) -> bool:
        return paired_power(episodes, difference, disagreement, alpha) >= power

    # The formula is seldom wrong by more than a few hundredths.
    too_few, enough = formula - formula // 32, formula + formula // 32
    while not tells(enough):
        too_few, enough = enough, 2 * enough
    while too_few and tells(too_few):
        too_few, enough = too_few // 2, too_few
    while enough - too_few > 1 + enough // 1000:
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if tells(middle) else (middle, enough)
    return enough


def unpaired_episodes(first: float, second: float, alpha: float = ALPHA, power: float = POWER) -> int | None:
    """Return the episodes *of each policy* that tell two rates apart on different seeds; `None` if they are equal.

    >>> unpaired_episodes(0.7, 0.8)
    294
    """
    if first == second:
        return None
    z_alpha, z_beta = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)
    middle = (first + second) / 2
    root = z_alpha * sqrt(2 * middle * (1 - middle)) + z_beta * sqrt(first * (1 - first) + second * (1 - second))
    return ceil(root**2 / (first - second) ** 2)


def _check(difference: float, disagreement: float) -> None:
    if not abs(difference) <= disagreement <= 1 or not disagreement:
        raise ValueError(f"rates cannot differ by {difference} where {disagreement} of the pairs disagree")
