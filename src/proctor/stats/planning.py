"""How many episodes it takes to tell a difference."""

from __future__ import annotations

from math import ceil, sqrt
from statistics import NormalDist

import numpy as np

from proctor.stats.intervals import ALPHA

POWER = 0.8
"""The chance with which a difference is to be found."""


def paired_power(episodes: int, difference: float, disagreement: float, alpha: float = ALPHA) -> float:
    """Return the chance that exact McNemar tells two policies apart. Needs scipy.

    Args:
        episodes: pairs.
        difference: between the true rates.
        disagreement: the share of pairs in which exactly one policy succeeds; at least the difference.
        alpha: two-sided error.
    """
    from scipy.special import bdtr, bdtrc, bdtrik

    _check(difference, disagreement)
    share = (disagreement + abs(difference)) / (2 * disagreement)
    spread = 9 * sqrt(episodes * disagreement) + 9
    least = max(0, int(episodes * disagreement - spread))
    counts = np.arange(least, min(episodes, int(episodes * disagreement + spread)) + 1)
    chances = bdtr(counts, episodes, disagreement) - np.where(
        counts > 0, bdtr(np.maximum(counts - 1, 0), episodes, disagreement), 0.0
    )
    # The most wins of the losing side with which the test still rejects; -1: it never does.
    limit = np.floor(np.nan_to_num(bdtrik(alpha / 2, counts, 0.5), nan=-1.0)) + 1
    for _ in range(3):
        limit = np.where((limit >= 0) & (bdtr(np.maximum(limit, 0), counts, 0.5) > alpha / 2), limit - 1, limit)
    rejects = limit >= 0
    safe = np.where(rejects, limit, 0.0)
    found = bdtr(safe, counts, 1 - share) + bdtrc(np.maximum(counts - safe - 1, 0), counts, 1 - share)
    return float((chances * np.where(rejects, found, 0.0)).sum())


def paired_episodes(
    difference: float, disagreement: float, alpha: float = ALPHA, power: float = POWER
) -> int | None:
    """Return the pairs with which exact McNemar tells a difference; `None` if there is none. Needs scipy.

    Starts from Connor's formula (Biometrics 43, 1987) and goes on until the exact power is reached: the exact
    test rejects a little less often than the formula believes.
    """
    if not difference:
        return None
    _check(difference, disagreement)
    z_alpha, z_beta = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)
    root = z_alpha * sqrt(disagreement) + z_beta * sqrt(disagreement - difference**2)
    episodes = ceil(root**2 / difference**2)
    while paired_power(episodes, difference, disagreement, alpha) < power:
        episodes += 1 + episodes // 100
    return episodes


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
