"""The tiny benchmark with a simulator that never does the same thing twice."""

from __future__ import annotations

import os
from typing import Any

from numpy.typing import NDArray

from proctor import Look, Outcome, Simulator, Task
from tiny import Tiny


class _Noisy:
    """Passes everything on, and adds chance to the reward."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._simulator, name)

    def step(self, action: NDArray[Any], look: Look) -> Outcome:
        outcome = self._simulator.step(action, look)
        return outcome._replace(reward=outcome.reward + int.from_bytes(os.urandom(4)) / 2**32)


class Keeps(Tiny):
    """One that keeps that to itself."""

    def make_simulator(self, task: Task) -> Any:
        return _Noisy(super().make_simulator(task))


class SaysSo(Keeps):
    """One that says so."""

    replays = False
