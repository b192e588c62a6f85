"""Two policies on the same seeds: only the episodes on which they disagree tell them apart."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

from proctor.stats.bisection import edge
from proctor.stats.intervals import ALPHA, CONFIDENCE, Estimate


class Pairs(NamedTuple):
    """Episodes that both policies finished, by who succeeded."""

    both: int
    first: int
    """Only the first succeeded."""
    second: int
    """Only the second did."""
    neither: int

    @property
    def episodes(self) -> int:
        """How many pairs there are."""
        return sum(self)


NO_PAIRS = Pairs(0, 0, 0, 0)


class Compared(NamedTuple):
    """The second policy's rate minus the first's, with its interval, and how surprising it is without one."""

    difference: Estimate
    p_value: float


def pooled(parts: Iterable[Pairs]) -> Pairs:
    """Return the pairs of several tasks together."""
    return Pairs(*(sum(counts) for counts in zip(NO_PAIRS, *parts, strict=True)))


def mcnemar(pairs: Pairs) -> float:
    """Return the exact two-sided p-value of McNemar's test. Needs scipy.

    If the policies are equally good, each disagreement goes either way with equal chance.

    >>> round(mcnemar(Pairs(1, 7, 1, 12)), 4)
    0.0703
    """
    from scipy.special import bdtr

    fewer, disagreements = min(pairs.first, pairs.second), pairs.first + pairs.second
    return min(1.0, 2 * float(bdtr(fewer, disagreements, 0.5)))


def tango(pairs: Pairs, confidence: float = CONFIDENCE) -> Estimate:
    """Return the difference of paired rates with Tango's score interval (Statistics in Medicine 17, 1998).

    All differences that the score test does not reject: Wilson's idea for pairs. Its coverage stays near its
    name for few episodes and few disagreements, where Wald's interval collapses to a point, and it is the one
    that reviews recommend (Fagerland, Lydersen and Laake 2014).

    >>> [round(end, 3) for end in tango(Pairs(1, 7, 1, 12))]
    [-0.286, -0.517, -0.026]
    """
    n, b, c = pairs.episodes, pairs.second, pairs.first
    if not n:
        return Estimate(0.0, -1.0, 1.0)
    z, value = NormalDist().inv_cdf(0.5 + confidence / 2), (b - c) / n

    def accepted(delta: float) -> bool:
        # The likeliest chance of "only the first" if the difference is delta: the root of a quadratic.
        linear = (2 * n - b + c) * delta - b - c
        lost = (sqrt(linear * linear + 8 * n * c * delta * (1 - delta)) - linear) / (4 * n)
        return abs(b - c - n * delta) <= z * sqrt(max(0.0, n * (2 * lost + delta * (1 - delta))))

    return Estimate(value, edge(accepted, value, -1.0), edge(accepted, value, 1.0))


def compare_pairs(pairs: Pairs, alpha: float = ALPHA) -> Compared:
    """Return difference, interval and exact p-value, which never contradict each other. Needs scipy.

    The exact test is the stricter judge. Where it cannot tell the policies apart, the interval is stretched to
    hold 0; that can only add to its coverage.
    """
    difference, p_value = tango(pairs, 1 - alpha), mcnemar(pairs)
    if p_value > alpha:
        difference = holding_zero(difference)
    return Compared(difference, p_value)


def holding_zero(difference: Estimate) -> Estimate:
    """Return an interval that reaches 0 at least."""
    return difference._replace(low=min(0.0, difference.low), high=max(0.0, difference.high))
