"""Actions that any benchmark has to take: both ends of its bounds, then random ones between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.protocol import BenchmarkSpec


def actions(spec: BenchmarkSpec, key: tuple[int, int]) -> Iterator[NDArray[Any]]:
    """Yield valid actions without end, the same ones for the same key."""
    low, high = (_bound(side, spec.action_size) for side in (spec.action_low, spec.action_high))
    yield low.copy()
    yield high.copy()
    generator = np.random.default_rng(key)
    while True:
        yield generator.uniform(low, high).astype(np.float32)


def _bound(side: Any, size: int) -> NDArray[np.float32]:
    # Where a space has no bound, the unit is as good as any.
    finite = np.clip(np.asarray(side, np.float64), *((-1, 1) if not np.all(np.isfinite(side)) else (None, None)))
    return np.broadcast_to(finite, (size,)).astype(np.float32)
