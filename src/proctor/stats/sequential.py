"""Rules that may be asked after every episode whether it is time to stop.

A usual interval or test holds for a number of episodes that was fixed beforehand. Looked at again and again until
it says what one hopes for, it is wrong far more often than it says. What is here is *anytime-valid*: the chance
that it is ever wrong, at any of infinitely many looks, stays below alpha. The price is a wider interval.

The rules are fed the finished *prefix* of the plan, one episode at a time and in the plan's order; never the
episodes that happen to have finished, of which too many are quick successes. So a rule stops at the same episode
for any number of workers. It decides only at the end of a round, when every task has had equally many episodes:
then it is about the average over the tasks, also where the tasks differ. (Inside a round, tasks that are easier
than the average might push it past its limit.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import exp, lgamma, log, log1p
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from proctor.stats.bisection import edge
from proctor.stats.intervals import ALPHA, CONFIDENCE, Rate, check_counts, corrected_wilson

_BOUND = 0.05


def anytime(successes: int, episodes: int, confidence: float = CONFIDENCE, bound: float = _BOUND) -> Rate:
    """Return the rate with an interval that holds at *every* number of episodes at once.

    A beta-binomial mixture (Robbins 1970; Howard et al. 2021): for each rate p one bets against it, with stakes
    for alternatives scattered around p. If p is true the capital is a martingale that ever reaches 1 / alpha with
    chance alpha at most (Ville); the interval holds all p against which it has not, so far. It depends on the
    counts alone, not on how they came about.

    Args:
        successes: of the prefix.
        episodes: finished ones of the prefix, errors left out.
        confidence: the chance that the true rate lies in the interval at every look.
        bound: the half-width that one waits for: the interval is narrowest about where it reaches that.
    """
    check_counts(successes, episodes)
    if not episodes:
        return Rate(0, 0, 0.0, 1.0)
    value, limit = successes / episodes, -log(1 - confidence)
    scatter = _scatter(bound)

    def doubted(p: float) -> bool:
        return _log_capital(p, successes, episodes, scatter) < limit

    return Rate(
        successes,
        episodes,
        0.0 if not successes else edge(doubted, value, 0.0),
        1.0 if successes == episodes else edge(doubted, value, 1.0),
    )


def _scatter(bound: float) -> float:
    """How many episodes the alternatives are worth: narrowest near a rate of 0.8 when the bound is reached."""
    return max(1.0, 0.12 / bound**2)


def _log_capital(p: float, successes: int, episodes: int, scatter: float) -> float:
    if not 0 < p < 1:
        return float("inf")
    a, b, failures = p * scatter, (1 - p) * scatter, episodes - successes
    mixture = lgamma(a + successes) - lgamma(a) + lgamma(b + failures) - lgamma(b)
    mixture -= lgamma(scatter + episodes) - lgamma(scatter)
    return mixture - successes * log(p) - failures * log1p(-p)


def at_the_stop(successes: int, episodes: int, confidence: float = CONFIDENCE, bound: float = _BOUND) -> Rate:
    """Return an interval that holds where a rule that was fixed beforehand stopped, and at no other look.

    Stopping an interval when it is narrow enough costs some of its coverage: with Wilson's, 5 points and more,
    because after few episodes single outcomes decide. With a continuity correction and a tenth of its alpha in
    reserve, a quarter for bounds beyond 0.1, it keeps what it says for every bound and rate. That was computed,
    not simulated (benchmarks/stop_chances.py). It takes half of the episodes that `anytime` does.
    """
    kept = 0.9 if bound <= 0.1 else 0.75
    return corrected_wilson(successes, episodes, 1 - kept * (1 - confidence))


Interval = Callable[[int, int, float, float], Rate]
"""Successes, episodes, confidence, and the half-width that one waits for."""


class PrecisionRule:
    """Stops when the rate is known to within a bound: `ci<=0.05`.

    Args:
        bound: half the width of the interval.
        tasks: how many there are; the rule decides after every round of them.
        confidence: of the interval.
        interval: `anytime`, for which any other reason to stop is as good as this one, or `at_the_stop`.
    """

    def __init__(
        self, bound: float, tasks: int = 1, confidence: float = CONFIDENCE, interval: Interval = anytime
    ) -> None:
        if not 0 < bound < 0.5:
            raise ValueError(f"half the width of an interval lies between 0 and 0.5, got {bound}")
        self._bound, self._tasks, self._confidence, self._interval = bound, tasks, confidence, interval
        self._seen = self._successes = self._episodes = 0

    def add(self, success: bool | None) -> bool:
        """Take the next episode of the plan, `None` for an error; returns whether to stop here."""
        self._seen += 1
        if success is not None:
            self._successes += success
            self._episodes += 1
        if self._seen % self._tasks or not self._episodes:
            return False
        rate = self.rate
        return (rate.high - rate.low) / 2 <= self._bound

    @property
    def rate(self) -> Rate:
        """What is known: the interval that stays true although it was looked at, and is the one to report."""
        return self._interval(self._successes, self._episodes, self._confidence, self._bound)


Decision = Literal["better", "worse", "hopeless"]


@dataclass(frozen=True)
class Evidence:
    """What the disagreements of two policies on the same seeds have come to.

    `better` and `worse` are e-values: how much a bet on ours, or on theirs, has multiplied its stake. Under the
    contrary, each of them ever reaches 1 / alpha with chance alpha at most.
    """

    wins: int
    losses: int

    @property
    def better(self) -> float:
        """Evidence that ours succeeds more often."""
        return e_value(self.wins, self.losses)

    @property
    def worse(self) -> float:
        """Evidence that theirs does."""
        return e_value(self.losses, self.wins)


def e_value(wins: int, losses: int) -> float:
    """Return what a stake of 1 on "more wins than losses" has grown to.

    If ours is not better, a disagreement is a win with chance 1/2 at most. A bet at odds q multiplies its stake by
    2q for a win, by 2(1 - q) for a loss, and on average by 1 at most. The stake is spread evenly over q from 1/2
    to 1, so that nobody has to guess how much better ours is.
    """
    return exp(min(700.0, log_e_value(wins, losses)))


def log_e_value(wins: int, losses: int) -> float:
    """Return the logarithm of `e_value`, which does not overflow."""
    win, lose = _odds()
    grown = wins * win + losses * lose
    most = float(grown.max())
    return most + float(np.log(np.mean(np.exp(grown - most))))


@lru_cache(maxsize=1)
def _odds() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    odds = 0.5 + (np.arange(32) + 0.5) / 64
    return np.log(2 * odds), np.log(2 * (1 - odds))


class BetterRule:
    """Stops when a policy is shown to be better, or worse, than a stored run on the same seeds.

    Args:
        tasks: how many there are; the rule decides after every round of them.
        alpha: the chance of ever saying "better" of a policy that is not, and of ever saying "worse" of one
            that is not.
    """

    def __init__(self, tasks: int = 1, alpha: float = ALPHA) -> None:
        if not 0 < alpha < 1:
            raise ValueError(f"alpha lies between 0 and 1, got {alpha}")
        self._tasks, self._limit = tasks, -log(alpha)
        self._seen = 0
        self.evidence = Evidence(0, 0)

    def add(self, ours: bool | None, theirs: bool | None, chances_left: int | None = None) -> Decision | None:
        """Take the next episode of the plan as both ended it, `None` for an error or one they do not share.

        Args:
            ours: whether the policy under test succeeded.
            theirs: whether the stored run did.
            chances_left: episodes still to come that could be wins, that is, which the stored run did not succeed
                in. If all of them were, and the evidence still too weak, it is `"hopeless"` to go on with this
                plan. That is arithmetic, not statistics: it cannot be wrong.
        """
        self._seen += 1
        wins, losses = self.evidence.wins, self.evidence.losses
        if ours is not None and theirs is not None and ours != theirs:
            wins, losses = wins + ours, losses + theirs
            self.evidence = Evidence(wins, losses)
        if self._seen % self._tasks:
            return None
        if log_e_value(wins, losses) >= self._limit:
            return "better"
        if log_e_value(losses, wins) >= self._limit:
            return "worse"
        if chances_left is not None and log_e_value(wins + chances_left, losses) < self._limit:
            return "hopeless"
        return None
