"""Simulated evaluations for `error_rates.py`: pairs of outcomes, and workers that finish episodes out of order."""

from __future__ import annotations

import heapq
from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proctor.stats.sequential import log_e_value

Flags = NDArray[np.bool_]
Counts = NDArray[np.int64]


def outcomes(
    rng: np.random.Generator, first: Any, second: Any, correlation: float, shape: tuple[int, ...]
) -> tuple[Flags, Flags]:
    """Return whether two policies succeed on the same seeds; rates may differ along the last axis (tasks)."""
    first, second = np.asarray(first, float), np.asarray(second, float)
    both = first * second + correlation * np.sqrt(first * (1 - first) * second * (1 - second))
    assert np.all(both <= np.minimum(first, second)), "rates that differ cannot be so strongly correlated"
    u = rng.random(shape)
    return u < first, (u < both) | ((u >= first) & (u < first + second - both))


class Played(NamedTuple):
    """When episodes ended: `order[r, j]` is the j-th to end, `prefix[r, j]` how long the prefix then was."""

    order: Counts
    prefix: Counts


def play(rng: np.random.Generator, successes: Flags, workers: int) -> Played:
    """Run every row's episodes on workers that take the next of the plan when they are free.

    A success ends an episode after 50 to 150 steps, a failure lasts to the limit of 500.
    """
    runs, episodes = successes.shape
    length = np.where(successes, rng.uniform(50, 150, successes.shape), 500.0)
    ended = np.empty(successes.shape)
    for run in range(runs):
        free = [0.0] * workers
        for episode, duration in enumerate(length[run].tolist()):
            ended[run, episode] = until = free[0] + duration
            heapq.heapreplace(free, until)
    order = ended.argsort(axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(episodes)[None, :], axis=1)
    # Episode i belongs to the prefix once all up to i have ended.
    complete = np.maximum.accumulate(rank, axis=1) + episodes * np.arange(runs)[:, None]
    moments = np.arange(runs * episodes).reshape(runs, episodes)
    prefix = np.searchsorted(complete.ravel(), moments.ravel(), side="right").reshape(runs, episodes)
    return Played(order, prefix - episodes * np.arange(runs)[:, None])


class Tallies(NamedTuple):
    """Wins and losses after every episode of every run."""

    wins: Counts
    losses: Counts


def tally(ours: Flags, theirs: Flags) -> Tallies:
    """Count the pairs in which exactly one policy succeeded."""
    return Tallies(np.cumsum(ours & ~theirs, axis=1), np.cumsum(theirs & ~ours, axis=1))


def says_better(tallies: Tallies, alpha: float) -> Flags:
    """Return after which episodes the evidence for "better" would suffice, by Proctor's own function."""
    most_wins, most_losses = int(tallies.wins.max()), int(tallies.losses.max())
    enough = np.zeros((most_wins + 1, most_losses + 1), bool)
    for losses in range(most_losses + 1):
        # More wins are more evidence: from the first count that suffices on, all do.
        low, high = 0, most_wins + 1
        while low < high:
            middle = (low + high) // 2
            if log_e_value(middle, losses) >= -log(alpha):
                high = middle
            else:
                low = middle + 1
        enough[low:, losses] = True
    said: Flags = enough[tallies.wins, tallies.losses]
    return said


def monte_carlo_error(rate: float, draws: int) -> float:
    """Return three standard errors of a simulated rate."""
    return 3 * sqrt(rate * (1 - rate) / draws)
