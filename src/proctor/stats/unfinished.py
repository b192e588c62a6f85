"""A success rate while some episodes are still running.

Success ends an episode early, so those that have ended hold too many successes, and those that run hold too many
failures-to-be. But how long an episode has run says much about how it will end: it will end as those did that ran
at least as long. That is Efron's redistribution to the right, the Kaplan and Meier estimator for two ways to end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple


class Redistributed(NamedTuple):
    """How the weight of all started episodes is spread: `success`, and `unknown`; the rest is failure.

    `unknown` is the weight of running episodes that have outlasted everything that has ended: nothing says how
    they will end.
    """

    success: float
    unknown: float


class Endings:
    """How many steps episodes took to succeed or to fail, sorted; grows as they end."""

    def __init__(self, successes: Sequence[int] = (), failures: Sequence[int] = ()) -> None:
        self.successes, self.all = sorted(successes), sorted((*successes, *failures))

    def beyond(self, steps: int) -> int:
        """Return how many took more than so many steps."""
        return len(self.all) - bisect_right(self.all, steps)

    def successes_beyond(self, steps: int) -> int:
        """Return how many of them succeeded."""
        return len(self.successes) - bisect_right(self.successes, steps)


def redistribute(endings: Endings, running: Sequence[int], elsewhere: Endings | None = None) -> Redistributed:
    """Return the rate over all started episodes, those that still run among them.

    Args:
        endings: the episodes that have ended.
        running: the steps that each running episode has made so far.
        elsewhere: the endings of a larger set, asked for running episodes that have outlasted all of `endings`.

    >>> redistribute(Endings(successes=[10, 20, 30], failures=[100]), running=[])
    Redistributed(success=0.75, unknown=0.0)

    One that has run for 50 steps will end as the one that took longer did:

    >>> round(redistribute(Endings(successes=[10, 20, 30], failures=[100]), running=[50]).success, 6)
    0.6
    """
    started = len(endings.all) + len(running)
    if not started:
        return Redistributed(0.0, 0.0)
    weight, left, success = 1 / started, started, 0.0
    ended, succeeded = 0, 0  # of those whose weight is settled already
    ages = sorted(running)
    for place, age in enumerate(ages):
        shorter = len(endings.all) - endings.beyond(age)
        won = len(endings.successes) - endings.successes_beyond(age)
        success += weight * (won - succeeded)
        left -= shorter - ended
        ended, succeeded = shorter, won
        if ended == len(endings.all):
            oldest = [_elsewhere(elsewhere, later) for later in ages[place:]]
            known = [chance for chance in oldest if chance is not None]
            return Redistributed(success + weight * sum(known), weight * (len(oldest) - len(known)))
        left -= 1
        weight *= (left + 1) / left
    return Redistributed(success + weight * (len(endings.successes) - succeeded), 0.0)


def _elsewhere(endings: Endings | None, age: int) -> float | None:
    """Return how often those succeeded that took longer, if any did."""
    if endings is None or not (longer := endings.beyond(age)):
        return None
    return endings.successes_beyond(age) / longer
