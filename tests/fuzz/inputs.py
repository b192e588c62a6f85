"""How many inputs there are, and which: the same ones each time, others with another `PROCTOR_FUZZ_SEED`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings

SHARE = float(os.environ.get("PROCTOR_FUZZ", "0"))
"""1 in `make fuzz`; other shares of its inputs, too. 0: a few, which show that the fuzzer itself still works."""

SEED = int(os.environ.get("PROCTOR_FUZZ_SEED", "0"))
FEW = 25

MARKS = [
    # By a thread, because the alarm is each input's own.
    pytest.mark.timeout(120 + 1800 * SHARE, method="thread"),
    pytest.mark.filterwarnings("ignore:Generating overly large repr"),
]

Test = Callable[..., Any]


def inputs(number: int) -> Callable[[Test], Test]:
    """Mark what is called with each of so many inputs.

    Nothing is shrunk and nothing stops at the first fault: `Surface` keeps the shortest input of each, so that one
    run tells all of them.
    """

    def mark(test: Test) -> Test:
        bounded = settings(
            max_examples=max(FEW, round(number * SHARE)),
            database=None,
            deadline=None,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        )
        return bounded(seed(SEED)(test))

    return mark
