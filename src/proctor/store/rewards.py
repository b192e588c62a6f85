"""The rewards of an episode, small enough to keep for every one of them: at most 256 numbers, 1 KB.

An episode of up to 256 steps keeps them all. A longer one keeps the mean of every k steps, k as small as
possible, so that the curve's area stays the sum of rewards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_POINTS = 256


class RewardCurve(NamedTuple):
    """The mean reward of each stretch of `stride` steps; the last stretch may be shorter."""

    means: NDArray[np.float32]
    stride: int
    steps: int


def stride_of(steps: int) -> int:
    """Return how many steps share a point.

    >>> stride_of(256), stride_of(257), stride_of(500)
    (1, 2, 2)
    """
    return max(1, -(-steps // MOST_POINTS))


def pack_rewards(rewards: NDArray[np.float64]) -> bytes:
    """Return the rewards of all steps of an episode, packed for the store."""
    steps, stride = len(rewards), stride_of(len(rewards))
    if stride > 1:
        starts = np.arange(0, steps, stride)
        rewards = np.add.reduceat(rewards, starts) / np.minimum(stride, steps - starts)
    with np.errstate(over="ignore"):  # beyond float32 is infinity, which no figure shows
        # Not compressed: for dense rewards that gains 5 % and costs ten times as much as all the rest.
        return rewards.astype("<f4").tobytes()


def unpack_rewards(packed: bytes, steps: int) -> RewardCurve:
    """Return what `pack_rewards` has packed, of an episode of so many steps."""
    means: NDArray[np.float32] = np.frombuffer(packed, "<f4")
    return RewardCurve(means, stride_of(steps), steps)
