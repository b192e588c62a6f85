"""Actions that any benchmark has to take: both ends of its bounds, then random ones between them; and beyond."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.types import BenchmarkSpec

_ENDLESS = 1e30
"""A bound beyond it is none: nobody means to reach the largest float."""


def actions(spec: BenchmarkSpec, key: tuple[int, int]) -> Iterator[NDArray[Any]]:
    """Yield valid actions without end, the same ones for the same key."""
    low, high = (_bound(side, spec.action_size) for side in (spec.action_low, spec.action_high))
    yield low.copy()
    yield high.copy()
    generator = np.random.default_rng(key)
    while True:
        action = generator.uniform(low, high)
        yield (np.rint(action) if spec.action_integers else action).astype(np.float32)


def wild_actions(spec: BenchmarkSpec, key: tuple[int, int]) -> Iterator[NDArray[Any]]:
    """Yield actions without end that reach three times as far from the middle as the bounds do."""
    low, high = (_bound(side, spec.action_size).astype(np.float64) for side in (spec.action_low, spec.action_high))
    generator = np.random.default_rng(key)
    while True:
        yield (low + high) / 2 + 1.5 * (high - low) * generator.uniform(-1, 1, spec.action_size)


def _bound(side: Any, size: int) -> NDArray[np.float32]:
    bound = np.broadcast_to(np.asarray(side, np.float64), (size,))
    # Where a space has no bound, the unit is as good as any.
    return np.where(np.abs(bound) < _ENDLESS, bound, np.sign(bound)).astype(np.float32)
