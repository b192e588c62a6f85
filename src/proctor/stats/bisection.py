"""Where a condition stops holding: the ends of intervals that have no formula."""

from __future__ import annotations

from collections.abc import Callable

_HALVINGS = 50
"""From a range of 2 down to 2e-15."""


def edge(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return the last point on the way from `inside` to `outside` where a condition holds.

    It must hold at `inside` and, once it has stopped holding, must not begin again.

    >>> round(edge(lambda x: x * x < 2, 0.0, 2.0), 6)
    1.414214
    """
    if holds(outside):
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if holds(middle):
            inside = middle
        else:
            outside = middle
    return inside
