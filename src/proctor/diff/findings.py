"""What a live comparison found: differences, each with the causes that the data bear out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

_LONG = 60
_NUMBERS = 8


@dataclass(frozen=True)
class Difference:
    """A field that differs, from a step on.

    Attributes:
        step: the first step at which it does; 0 is the beginning.
        field: what differs.
        diagnoses: every cause that explains all of it; none: no cause that is known does.
        ours: our value there, in short.
        theirs: theirs.
    """

    step: int
    field: str
    diagnoses: tuple[str, ...]
    ours: str = ""
    theirs: str = ""

    def __str__(self) -> str:
        cause = "; or ".join(self.diagnoses) or "no cause that is known here explains it"
        return f"step {self.step}, {self.field}: {cause}"

    @property
    def values(self) -> str:
        """Both values, in short."""
        return f"ours {self.ours}, theirs {self.theirs}" if self.ours or self.theirs else ""


@dataclass(frozen=True)
class LiveDiff:
    """One episode, stepped by another harness and gone through by ours."""

    harness: str
    task: str
    index: int
    seed: int
    steps: int
    ended: str
    differences: Sequence[Difference] = ()
    """In the order of their steps; at one step, in the order in which one leads to the next."""
    notes: Sequence[str] = ()
    rewards: Sequence[float] = field(default_factory=list)
    """Theirs, step by step."""

    def to_wire(self) -> dict[str, Any]:
        """Return plain values that JSON carries."""
        return asdict(self)

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> LiveDiff:
        """Rebuild it from `to_wire`."""
        found = [Difference(**{**one, "diagnoses": tuple(one["diagnoses"])}) for one in wire["differences"]]
        return cls(**{**wire, "differences": found})


def short(value: Any) -> str:
    """Return a value in a few words: of a large array, its form and what it holds.

    >>> short(np.zeros((2, 3, 3), np.uint8))
    'uint8 2 x 3 x 3, from 0 to 0, 0 on average'
    """
    if isinstance(value, np.ndarray) and value.size > _NUMBERS:
        form = " x ".join(map(str, value.shape))
        return f"{value.dtype} {form}, from {value.min():.4g} to {value.max():.4g}, {value.mean():.4g} on average"
    if isinstance(value, np.ndarray):
        return "[" + ", ".join(f"{number:.6g}" for number in value.reshape(-1).tolist()) + "]"
    text = repr(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}..."
