"""Student's t distribution for whole degrees of freedom, so that a run's own output needs no scipy."""

from __future__ import annotations

from math import atan, cos, pi, sin, sqrt, tan

from proctor.stats.bisection import edge


def quantile(probability: float, freedom: int) -> float:
    """Return t such that a t-distributed number lies below it with the given probability.

    >>> round(quantile(0.975, 9), 3)
    2.262
    """
    if freedom < 1 or not 0 < probability < 1:
        raise ValueError(f"no quantile {probability} with {freedom} degrees of freedom")
    # In the angle atan(t / sqrt(freedom)), so that the range is finite however heavy the tail.
    end = pi / 2 if probability > 0.5 else -pi / 2
    return sqrt(freedom) * tan(
        edge(lambda angle: abs(_cdf(angle, freedom) - 0.5) <= abs(probability - 0.5), 0.0, end)
    )


def _cdf(angle: float, freedom: int) -> float:
    """Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    square, odd = cos(angle) ** 2, freedom % 2
    # The sum 1 + c2 * 2/3 + c4 * 2/3 * 4/5 ... for odd degrees, 1 + c2 * 1/2 + c4 * 1/2 * 3/4 ... for even ones.
    term, total = 1.0, 1.0
    for factor in range(1 + odd, freedom - 2, 2):
        term *= square * factor / (factor + 1)
        total += term
    if odd:
        within = angle + (sin(angle) * cos(angle) * total if freedom > 1 else 0.0)
        return 0.5 + within / pi
    return 0.5 + sin(angle) * total / 2


def cdf(t: float, freedom: int) -> float:
    """Return the probability of a number below `t`."""
    return _cdf(atan(t / sqrt(freedom)), freedom)
