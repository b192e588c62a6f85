"""What one play of an episode looked like: digests of all that was seen, and all that was wrong by itself.

A trace is made where the simulator runs and compared elsewhere, so it is small and plain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Aspect = Literal["observations", "outcomes", "actions", "arrays", "frames"]
"""What a problem that needs no comparison is about."""


class ArrayDigest(NamedTuple):
    """One array: its digest, and its mean for people to compare."""

    digest: str
    mean: float

    @classmethod
    def of(cls, array: NDArray[Any]) -> ArrayDigest:
        """Look at an array."""
        mean = float(np.mean(array)) if array.size and array.dtype.kind in "fiub" else 0.0
        kind = f"{array.dtype}{array.shape}".encode()
        return cls(hashlib.sha256(kind + np.ascontiguousarray(array).tobytes()).hexdigest()[:32], mean)


class StepResult(NamedTuple):
    """What a step yielded."""

    reward: float
    terminated: bool
    truncated: bool
    success: bool
    metrics: dict[str, float]


@dataclass
class Trace:
    """One play.

    Attributes:
        results: what each step yielded.
        arrays: by step (as text, for JSON) and key, what was looked at.
        problems: what is wrong by itself, by aspect; the first of each only.
        error: what was raised, and while doing what.
        ended: terminated, truncated, step limit, or nothing if the play stopped in mid-episode.
        success: whether the task was ever done.
        blind_steps: steps that nobody looked at,
        blind_draws: how often a known drawing function was called in them,
        blind_seconds: and what processor time they took;
        looks: observations that were made,
        look_draws: drawing calls for them,
        look_seconds: and what processor time they took, without their steps.
    """

    results: list[StepResult] = field(default_factory=list)
    arrays: dict[str, dict[str, ArrayDigest]] = field(default_factory=dict)
    problems: dict[Aspect, str] = field(default_factory=dict)
    error: str = ""
    ended: str = ""
    success: bool = False
    blind_steps: int = 0
    blind_draws: int = 0
    blind_seconds: float = 0.0
    looks: int = 0
    look_draws: int = 0
    look_seconds: float = 0.0

    def blame(self, aspect: Aspect, text: str) -> None:
        """Note a problem, if it is the first of its kind."""
        self.problems.setdefault(aspect, text)

    @classmethod
    def from_plain(cls, raw: dict[str, Any]) -> Trace:
        """Rebuild a trace from what `to_plain` made of it."""
        raw["results"] = [StepResult(*moment) for moment in raw["results"]]
        raw["arrays"] = {
            step: {key: ArrayDigest(*digest) for key, digest in arrays.items()}
            for step, arrays in raw["arrays"].items()
        }
        return cls(**raw)


def difference(one: Trace, other: Trace) -> str:
    """Say where two plays of the same episode first differ; nothing if they are the same wherever both looked."""
    for trace in (one, other):
        if trace.error:
            return trace.error
    return next(_differences(one, other), "")


def _differences(one: Trace, other: Trace) -> Iterator[str]:
    steps = min(len(one.results), len(other.results))
    for step in range(steps + 1):
        if step:
            yield from _in_moment(step, one.results[step - 1], other.results[step - 1])
        reports, too = one.arrays.get(str(step), {}), other.arrays.get(str(step), {})
        for key in sorted(reports.keys() & too.keys()):
            if reports[key].digest != too[key].digest:
                yield f"step {step}: {key} differs (mean {reports[key].mean:.6g} against {too[key].mean:.6g})"
    if len(one.results) != len(other.results):
        yield f"{len(one.results)} steps against {len(other.results)}"
    if one.ended != other.ended:
        yield f"step {steps}: {one.ended or 'goes on'} against {other.ended or 'goes on'}"


def _in_moment(step: int, one: StepResult, other: StepResult) -> Iterator[str]:
    for name in StepResult._fields:
        a, b = getattr(one, name), getattr(other, name)
        # As text, because NaN is the same as NaN here.
        if repr(a) != repr(b):
            yield f"step {step}: {name} {a} against {b}"
