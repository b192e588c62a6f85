"""What one check came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

State = Literal["passed", "failed", "note", "skipped"]


@dataclass(frozen=True)
class CheckResult:
    """One line of a report on a benchmark.

    Attributes:
        name: what was checked.
        state: passed, failed, note (allowed, but worth knowing) or skipped (could not be told; `text` says why).
        text: what was seen; for a failure what differs, where.
        remedy: what to do about it.
    """

    name: str
    state: State
    text: str
    remedy: str = ""

    @property
    def ok(self) -> bool:
        """Whether the benchmark may stay as it is."""
        return self.state != "failed"

    def __str__(self) -> str:
        return f"{self.name} {self.state}: {self.text}" + (f" -> {self.remedy}" if self.remedy else "")


def judged(name: str, faults: Mapping[str, str], passed: str, remedy: str) -> CheckResult:
    """Return a failure that names the first fault and how many more there are, or a pass.

    Args:
        name: what was checked.
        faults: what is wrong, by where.
        passed: what to say if nothing is.
        remedy: what to do otherwise.
    """
    if not faults:
        return CheckResult(name, "passed", passed)
    where, fault = next(iter(faults.items()))
    more = f" (and {len(faults) - 1} more: {', '.join(list(faults)[1:4])})" if len(faults) > 1 else ""
    return CheckResult(name, "failed", f"{where}: {fault}{more}", remedy)
