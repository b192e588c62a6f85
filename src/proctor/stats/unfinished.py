"""A success rate while some episodes are still running.

Success ends an episode early, so those that have ended hold too many successes, and those that run hold too many
failures-to-be. But how long an episode has run says much about how it will end: it will end as those did that ran
at least as long. That is Efron's redistribution to the right, the Kaplan and Meier estimator for two ways to end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple


class Redistribution(NamedTuple):
    """How the weight of all started episodes is spread: `success`, and `unknown`; the rest is failure.

    `unknown` is the weight of running episodes that have outlasted everything that has ended: nothing says how
    they will end.
    """

    success: float
    unknown: float


class Endings:
    """How many episodes succeeded or failed after how many steps. It grows with the steps, not the episodes."""

    def __init__(self, successes: Iterable[int] = (), failures: Iterable[int] = ()) -> None:
        self._successes, self._failures = Counter(successes), Counter(failures)
        self.successes = self._successes.total()
        self.ended = self.successes + self._failures.total()
        self._sorted: _Sums | None = None

    def add(self, steps: int, success: bool) -> None:
        """Take one more."""
        (self._successes if success else self._failures)[steps] += 1
        self.successes += success
        self.ended += 1
        self._sorted = None

    def beyond(self, steps: int) -> int:
        """Return how many took more than so many steps."""
        return self.ended - self._up_to(steps)[0]

    def successes_beyond(self, steps: int) -> int:
        """Return how many of them succeeded."""
        return self.successes - self._up_to(steps)[1]

    def _up_to(self, steps: int) -> tuple[int, int]:
        if self._sorted is None:
            known = sorted(self._successes.keys() | self._failures.keys())
            successes = list(accumulate((self._successes[one] for one in known), initial=0))
            failures = accumulate((self._failures[one] for one in known), initial=0)
            self._sorted = _Sums(known, [sum(both) for both in zip(successes, failures, strict=True)], successes)
        place = bisect_right(self._sorted.steps, steps)
        return self._sorted.ended[place], self._sorted.successes[place]


class _Sums(NamedTuple):
    """At each number of steps at which an episode ended, how many had ended before it; and in the end."""

    steps: Sequence[int]
    ended: Sequence[int]
    successes: Sequence[int]


def redistribute(endings: Endings, running: Sequence[int], elsewhere: Endings | None = None) -> Redistribution:
    """Return the rate over all started episodes, those that still run among them.

    Args:
        endings: the episodes that have ended.
        running: the steps that each running episode has made so far.
        elsewhere: the endings of a larger set, asked for running episodes that have outlasted all of `endings`.

    >>> redistribute(Endings(successes=[10, 20, 30], failures=[100]), running=[])
    Redistribution(success=0.75, unknown=0.0)

    One that has run for 50 steps will end as the one that took longer did:

    >>> round(redistribute(Endings(successes=[10, 20, 30], failures=[100]), running=[50]).success, 6)
    0.6
    """
    started = endings.ended + len(running)
    if not started:
        return Redistribution(0.0, 0.0)
    weight, left, success = 1 / started, started, 0.0
    ended, succeeded = 0, 0  # of those whose weight is settled already
    ages = sorted(running)
    for place, age in enumerate(ages):
        shorter = endings.ended - endings.beyond(age)
        won = endings.successes - endings.successes_beyond(age)
        success += weight * (won - succeeded)
        left -= shorter - ended
        ended, succeeded = shorter, won
        if ended == endings.ended:
            oldest = [_elsewhere(elsewhere, later) for later in ages[place:]]
            known = [chance for chance in oldest if chance is not None]
            return Redistribution(success + weight * sum(known), weight * (len(oldest) - len(known)))
        left -= 1
        weight *= (left + 1) / left
    return Redistribution(success + weight * (endings.successes - succeeded), 0.0)


def _elsewhere(endings: Endings | None, age: int) -> float | None:
    """Return how often those succeeded that took longer, if any did."""
    if endings is None or not (longer := endings.beyond(age)):
        return None
    return endings.successes_beyond(age) / longer
