"""Which cases of a test run by default, and which are left to the slow proofs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest


def crossed(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """Return every pair as a case. By default each value runs once; the other pairs are slow proofs."""
    length = max(len(first), len(second))
    kept = {(place % len(first), place % len(second)) for place in range(length)}
    return [
        pytest.param(first[i], second[j], marks=() if (i, j) in kept else pytest.mark.slow)
        for i, j in product(range(len(first)), range(len(second)))
    ]
