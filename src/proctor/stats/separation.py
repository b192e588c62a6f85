"""Which two of many numbers tell successes from failures best, and whether chance would do as well.

For every pair the outcomes are fitted by a plane over the two numbers (Fisher's linear discriminant); what the
plane explains of them, R², is the pair's score. The best of many pairs scores high even where there is nothing to
find, so it is held against the best pair after the outcomes were shuffled among the episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SHUFFLES = 1999
MOST_NUMBERS = 12
"""Of those that vary, the first so many are looked at: 66 pairs."""

_LEAST = 2
"""Successes, and failures, below which there is nothing to tell apart."""

_SEED = 20_250_101
"""Of the shuffles: the same outcomes always have the same p-value."""

_NOTHING = 1e-9
"""What counts as no variation, against the largest number."""


class Separation(NamedTuple):
    """The pair of columns that separates best.

    Attributes:
        columns: which they are.
        score: what a plane over them explains of the outcomes: 0 nothing, 1 all.
        p_value: how often the best pair of shuffled outcomes scores as high.
    """

    columns: tuple[int, int]
    score: float
    p_value: float


def best_pair(numbers: NDArray[np.float64], won: NDArray[np.bool_]) -> Separation | None:
    """Return the two columns over which successes and failures lie apart most.

    Args:
        numbers: a row for every episode, a column for every number.
        won: which episodes succeeded.

    Returns:
        `None` where there are too few of either outcome, or fewer than two numbers that vary.
    """
    if min(int(won.sum()), int((~won).sum())) < _LEAST:
        return None
    columns = _varying(numbers)
    pairs = list(combinations(columns, 2))
    if not pairs:
        return None
    outcomes = np.tile(won, (SHUFFLES + 1, 1))
    outcomes[1:] = np.random.default_rng(_SEED).permuted(outcomes[1:], axis=1)
    scores = _scores([_plane(numbers[:, pair]) for pair in pairs], outcomes.astype(np.float64))
    own = scores[:, 0]
    best = int(own.argmax())
    # Equal scores may differ in their last bits, by the order in which they were summed.
    as_good = int((scores[:, 1:].max(axis=0) >= own[best] - _NOTHING).sum())
    return Separation(pairs[best], float(own[best]), (1 + as_good) / (1 + SHUFFLES))


def _varying(numbers: NDArray[np.float64]) -> list[int]:
    """Return the first columns of finite numbers that are not all the same."""
    found = []
    for column, values in enumerate(numbers.T):
        largest = np.abs(values).max(initial=0.0)
        if np.isfinite(largest) and largest > 0 and np.ptp(values / largest) > _NOTHING:
            found.append(column)
        if len(found) == MOST_NUMBERS:
            break
    return found


def _plane(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return orthonormal columns that span the planes over two numbers; one column if the two are alike."""
    scaled = numbers / np.abs(numbers).max(axis=0)
    centred = scaled - scaled.mean(axis=0)
    spread = centred / np.linalg.norm(centred, axis=0)
    axes, lengths, _ = np.linalg.svd(spread, full_matrices=False)
    spanned: NDArray[np.float64] = axes[:, lengths > 1e-6]
    return spanned


def _scores(planes: Sequence[NDArray[np.float64]], outcomes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return R² of every plane (rows) for every order of the outcomes (columns)."""
    centred = outcomes - outcomes.mean(axis=1, keepdims=True)
    whole = (centred[0] ** 2).sum()  # a shuffle does not change it
    scores: NDArray[np.float64] = np.array([((centred @ plane) ** 2).sum(axis=1) for plane in planes]) / whole
    return scores
