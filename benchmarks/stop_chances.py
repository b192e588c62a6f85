"""Where a rule for precision stops, and whether its interval then holds the truth: computed, not simulated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proctor.stats.intervals import CONFIDENCE
from proctor.stats.sequential import Interval

Array = NDArray[np.float64]


class Place(NamedTuple):
    """Counts at which a run may stop, and with which chance it does, at each of several rates."""

    successes: int
    episodes: int
    chances: Array


def places(make: Interval, bound: float, rates: Array, tasks: int = 1) -> Iterator[Place]:
    """Yield every place at which a run stops whose interval is looked at after every round of its tasks."""
    going_on = np.ones((len(rates), 1))  # the chance of each number of successes without having stopped
    rates = rates[:, None]
    episodes, most = 0, -1
    while 2 * most < episodes or not episodes:
        episodes += 1
        none, one = going_on * (1 - rates), going_on * rates
        going_on = np.pad(none, ((0, 0), (0, 1))) + np.pad(one, ((0, 0), (1, 0)))
        if episodes % tasks:
            continue
        # The rarer outcome's count decides; the more episodes, the more of it are allowed.
        while 2 * (most + 1) <= episodes and _narrow(make, most + 1, episodes, bound):
            most += 1
        successes = np.arange(episodes + 1)
        for k in np.flatnonzero((np.minimum(successes, episodes - successes) <= most) & going_on.any(axis=0)):
            yield Place(int(k), episodes, going_on[:, k].copy())
            going_on[:, k] = 0.0


def _narrow(make: Interval, successes: int, episodes: int, bound: float) -> bool:
    rate = make(successes, episodes, CONFIDENCE, bound)
    return (rate.high - rate.low) / 2 <= bound


class Stopped(NamedTuple):
    """How often the interval that is reported holds each rate, and after how many episodes on average."""

    coverage: Array
    episodes: Array


def stopped(make: Interval, bound: float, rates: Array, tasks: int = 1) -> Stopped:
    """Return what becomes of a rule that stops when half the interval is at most `bound`."""
    coverage, mean = np.zeros(len(rates)), np.zeros(len(rates))
    for successes, episodes, chances in places(make, bound, rates, tasks):
        rate = make(successes, episodes, CONFIDENCE, bound)
        coverage += chances * ((rate.low <= rates) & (rates <= rate.high))
        mean += chances * episodes
    return Stopped(coverage, mean)
