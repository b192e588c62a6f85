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

PACKAGES = ("proctor-eval", "numpy", "mujoco", "metaworld", "gymnasium", "vla-eval", "lerobot", "torch")


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
    def words(self) -> str:
        """The figure with its spread."""
        spread = f" ({min(self.values):.3g} to {max(self.values):.3g})" if len(self.values) > 1 else ""
        return f"{self.median:.3g}{'' if self.unit == 'x' else ' '}{self.unit}{spread}"


def report(
    name: str, values: Sequence[float], unit: str = "x", goal: float | None = None, absolute: str = ""
) -> None:
    """Print a figure, and keep it for whoever has started this benchmark."""
    figure = Figure(name, tuple(values), unit, goal, absolute)
    aim = "" if goal is None else f", goal {goal:g}"
    print(f"  {name}: {figure.words}{aim}{f'; {absolute}' if absolute else ''}", flush=True)
    if (file := os.environ.get("PROCTOR_FIGURES")) is not None:
        with Path(file).open("a") as lines:
            lines.write(json.dumps({"figure": asdict(figure), "versions": versions()}) + "\n")


def versions() -> dict[str, str]:
    """Return the versions of what may take part in a benchmark, as this interpreter has them."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
