"""Where the time goes: each phase is written to shared memory for the watchdog and summed for the user."""

from __future__ import annotations

import time
from typing import Any

from proctor.engine.transport import Phase, Slot, now

_SPANS = {
    Phase.BUILD: "build",
    Phase.RESET: "reset",
    Phase.STEP: "simulate",
    Phase.DRAW: "draw",
    Phase.ENCODE: "encode",
}


class Meter:
    """Follows one worker through its phases. Entering a phase ends the one before."""

    def __init__(self, slot: Slot | None = None) -> None:
        self._slot = slot
        self._write = slot.phase.write if slot is not None else None
        self._phase, self._since = Phase.IDLE, now()
        self._asks = self._draws = self._total_steps = self._total_draws = self._episodes = 0
        self.steps = 0
        """Steps made in the episode that goes on."""
        self._began = time.time()
        # A list by number: hashing an enum costs more than the addition.
        self._seconds = [0.0] * len(Phase)

    @property
    def phase(self) -> Phase:
        """What the worker is doing."""
        return self._phase

    def start_episode(self) -> None:
        """Begin a new account; building the simulator belongs to the episode that needed it."""
        self._seconds = [0.0] * len(Phase)
        self._asks = self._draws = self.steps = 0
        self._episodes += 1
        self._began = time.time()
        if self._slot is not None:
            self._slot.advance(self._episodes, 0)

    def enter(self, phase: Phase) -> None:
        """Note that `phase` begins now."""
        moment = now()
        self._seconds[self._phase] += moment - self._since
        self._phase, self._since = phase, moment
        if self._write is not None:
            self._write(phase, moment)

    def stepped(self) -> None:
        """Count one step."""
        self.steps += 1
        self._total_steps += 1
        if self._slot is not None:
            # Exactly, for the estimate over running episodes: how long each has lasted.
            self._slot.advance(self._episodes, self.steps)
            if self._total_steps & 15 == 0:
                self._slot.count(self._total_steps, self._total_draws)

    def asked(self) -> None:
        """Count one question to the policy."""
        self._asks += 1

    def drew(self) -> None:
        """Count one drawing that a policy looks at."""
        self._draws += 1
        self._total_draws += 1

    def episode_totals(self) -> dict[str, Any]:
        """Return what a record says about how its episode was run."""
        if self._slot is not None:
            self._slot.count(self._total_steps, self._total_draws)
        timing = {span: self._seconds[phase] for phase, span in _SPANS.items()}
        # A policy in this process is not waited for, but the user asks the same of both: what did it cost?
        timing["wait"] = self._seconds[Phase.WAIT] + self._seconds[Phase.ACT]
        return {
            "seconds": sum(timing.values()),
            "asks": self._asks,
            "looks": self._draws,
            "timing": timing,
            "started_at": self._began,
        }
