"""A finding: one thing that was looked at, how it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "absent", "broken", "note"]
"""`note` is a warning, or a fact that is neither good nor bad."""


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's screen."""

    section: str
    name: str
    state: State
    text: str
    remedy: str = ""
    """What to type or to do; empty where there is nothing to do."""
    needed: bool = False
    """Whether the main job needs it: evaluating a policy on Meta-World, with pictures."""

    @property
    def in_the_way(self) -> bool:
        """Whether the main job cannot run because of this."""
        return self.needed and self.state in ("absent", "broken")


def first_step(findings: Sequence[Finding]) -> str | None:
    """Return the first thing to do before the main job can run, or `None` if it can."""
    for finding in findings:
        if finding.in_the_way:
            return finding.remedy or f"{finding.name}: {finding.text}"
    return None
