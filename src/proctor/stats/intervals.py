"""Confidence intervals for success rates. Pure functions; no simulator, no store.

Which of them is shown with every rate, in every place, is decided by `rate_interval` and `INTERVAL`.
"""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

CONFIDENCE = 0.95
ALPHA = 0.05
"""How often a test may call two equal policies different."""


class Rate(NamedTuple):
    """A success rate with its interval: k out of n episodes that ended.

    While others are `running`, k / n would flatter, because success ends an episode early. Then the value is the
    `estimate` over all that were started (`proctor.stats.unfinished`), or `None` where it is not known yet.
    """

    successes: int
    episodes: int
    low: float
    high: float
    running: int = 0
    estimate: float | None = None
    undetermined: float = 0.0
    """The share of the started episodes that have outlasted all that have ended, as weight of the estimate."""

    @property
    def value(self) -> float | None:
        """The rate; `None` when nothing was observed, or too little to tell."""
        if self.running:
            return self.estimate
        return self.successes / self.episodes if self.episodes else None

    def __str__(self) -> str:
        if not self.running and not self.episodes:
            return "0/0"
        ended = f"{self.successes}/{self.episodes}"
        interval = f"{100 * self.low:.1f}–{100 * self.high:.1f}"
        if not self.running:
            return f"{100 * self.successes / self.episodes:.1f} % ({ended}, {interval})"
        if self.estimate is None:
            return f"not known yet ({ended} ended, {self.running} running)"
        return f"~{100 * self.estimate:.1f} % ({interval}, {ended} ended, {self.running} running)"

    def __repr__(self) -> str:
        return str(self)


class Estimate(NamedTuple):
    """A value with its interval: an average of rates, or a difference between two."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of what lies between the ends."""
        return (self.high - self.low) / 2


INTERVAL = "wilson"
"""What `eval_info.json` calls the interval of `rate_interval`."""


def rate_interval(value: float, worth: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the interval that is shown with a rate: Wilson's. To show another, change this and `INTERVAL`.

    Args:
        value: the rate that was seen.
        worth: the episodes that it was seen in.
        confidence: of the interval.
    """
    return score_interval(value, worth, confidence)


def success_rate(successes: int, episodes: int, confidence: float = CONFIDENCE) -> Rate:
    """Return k out of n with the interval that is shown with every rate."""
    check_counts(successes, episodes)
    ends = rate_interval(successes / episodes, episodes, confidence) if episodes else (0.0, 1.0)
    return Rate(successes, episodes, *ends)


def wilson(successes: int, episodes: int, confidence: float = CONFIDENCE) -> Rate:
    """Return the rate with Wilson's score interval, which holds up for few episodes and for rates near 0 or 1.

    >>> rate = wilson(8, 10)
    >>> round(rate.low, 3), round(rate.high, 3)
    (0.49, 0.943)
    >>> wilson(0, 0)[2:4]
    (0.0, 1.0)
    """
    return _rate(successes, episodes, confidence, 0.0)


def corrected_wilson(successes: int, episodes: int, confidence: float = CONFIDENCE) -> Rate:
    """Return the rate with Wilson's interval and a continuity correction: half an episode wider to either side.

    Method 4 of Newcombe, Statistics in Medicine 17 (1998), page 857. Wilson's own covers 95 % on average over
    rates, and 84 % near single ones; this one, like Clopper and Pearson's, at every rate. It needs no scipy.

    >>> rate = corrected_wilson(81, 263)
    >>> round(rate.low, 4), round(rate.high, 4)
    (0.2535, 0.3682)
    """
    return _rate(successes, episodes, confidence, 0.5)


def score_interval(
    value: float, worth: float, confidence: float = CONFIDENCE, correction: float = 0.0
) -> tuple[float, float]:
    """Return the rates that the score test does not reject, for a rate that is as good as `worth` episodes.

    Args:
        value: the rate that was seen.
        worth: how many independent episodes of one rate would have the same variance.
        confidence: of the interval.
        correction: for continuity: half the step in which the value moves.
    """
    z = NormalDist().inv_cdf(0.5 + confidence / 2)

    def end(rate: float, side: int) -> float:
        centre = rate + z * z / (2 * worth)
        spread = z * sqrt(rate * (1 - rate) / worth + z * z / (4 * worth * worth))
        return (centre + side * spread) / (1 + z * z / worth)

    # At the ends the formula gives exactly 0 or 1 up to rounding; say so exactly.
    low = 0.0 if value <= correction else max(0.0, end(value - correction, -1))
    high = 1.0 if value >= 1 - correction else min(1.0, end(value + correction, 1))
    return low, high


def _rate(successes: int, episodes: int, confidence: float, correction: float) -> Rate:
    check_counts(successes, episodes)
    if episodes == 0:
        return Rate(0, 0, 0.0, 1.0)
    ends = score_interval(successes / episodes, episodes, confidence, correction / episodes)
    return Rate(successes, episodes, *ends)


def clopper_pearson(successes: int, episodes: int, confidence: float = CONFIDENCE) -> Rate:
    """Return the rate with Clopper and Pearson's interval: never less sure than it says, and wider. Needs scipy.

    >>> rate = clopper_pearson(8, 10)
    >>> round(rate.low, 3), round(rate.high, 3)
    (0.444, 0.975)
    """
    from scipy.special import betaincinv

    check_counts(successes, episodes)
    failures, tail = episodes - successes, (1 - confidence) / 2
    return Rate(
        successes,
        episodes,
        float(betaincinv(successes, failures + 1, tail)) if successes else 0.0,
        float(betaincinv(successes + 1, failures, 1 - tail)) if failures else 1.0,
    )


def check_counts(successes: int, episodes: int) -> None:
    """Refuse counts that cannot be."""
    if not 0 <= successes <= episodes:
        raise ValueError(f"successes must lie between 0 and episodes, got {successes} of {episodes}")
