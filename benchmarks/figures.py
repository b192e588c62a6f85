"""A measured figure: a line for people and, where `PROCTOR_FIGURES` names a file, one of JSON for `suite.py`."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("proctor-eval", "numpy", "mujoco", "metaworld", "gymnasium", "lerobot", "torch")
PEERS = ("vla-eval",)
"""In interpreters that a benchmark is given."""


@dataclass(frozen=True)
class Figure:
    """What was measured several times in one run, interleaved with what it is compared with.

    Attributes:
        name: what it is, with what it is compared with.
        values: one of each round.
        unit: "x": a ratio against a peer or a limit; otherwise a unit.
        goal: what it should come to, and be at least ("x") or at most (otherwise).
        absolute: what both sides came to, in words.
    """

    name: str
    values: tuple[float, ...]
    unit: str = "x"
    goal: float | None = None
    absolute: str = ""

    @property
    def median(self) -> float:
        """The figure."""
        return statistics.median(self.values)

    @property
    def met(self) -> bool | None:
        """Whether the median reaches the goal; `None` without one."""
        if self.goal is None:
            return None
        return self.median >= self.goal if self.unit == "x" else self.median <= self.goal

    @property
    def aim(self) -> str:
        """The goal, and whether it was met, in words; empty without one."""
        if self.goal is None:
            return ""
        bound = f"at least {self.goal:g}x" if self.unit == "x" else f"at most {self.goal:g} {self.unit}"
        return f"{bound}: {'met' if self.met else 'missed'}"

    @property
    def words(self) -> str:
        """The figure with its spread."""
        spread = f" ({_short(min(self.values))} to {_short(max(self.values))})" if len(self.values) > 1 else ""
        return f"{_short(self.median)}{'' if self.unit == 'x' else ' '}{self.unit}{spread}"


def _short(value: float) -> str:
    """Return three digits, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def report(
    name: str, values: Sequence[float], unit: str = "x", goal: float | None = None, absolute: str = ""
) -> None:
    """Print a figure, and keep it for whoever has started this benchmark."""
    figure = Figure(name, tuple(values), unit, goal, absolute)
    print("; ".join(filter(None, [f"  {name}: {figure.words}", figure.aim, absolute])), flush=True)
    if (file := os.environ.get("PROCTOR_FIGURES")) is not None:
        with Path(file).open("a") as lines:
            lines.write(json.dumps({"figure": asdict(figure), "versions": versions()}) + "\n")


def versions(packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Return the versions of what may take part in a benchmark, as this interpreter has them."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":  # what a peer's interpreter has
    print(json.dumps(versions(PEERS)))
