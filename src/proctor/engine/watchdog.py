"""When a process counts as stuck: how long it has been in its phase, and how long it may be."""

from __future__ import annotations

from collections.abc import Hashable

from proctor.config.settings import LimitSettings
from proctor.engine.transport import Phase, now

_LONGEST_LOOK = 1.0
"""Seconds between two looks that count. The loops look several times a second; a longer gap was not awake."""

_LIMITS = {
    Phase.IDLE: "respond",
    Phase.WAIT: "respond",
    Phase.START: "start",
    Phase.BUILD: "build",
    Phase.RESET: "reset",
    Phase.STEP: "step",
    Phase.DRAW: "draw",
    Phase.ENCODE: "draw",
    Phase.LOAD: "load",
    Phase.ACT: "act",
}


class Stillness:
    """How long something has been the same, in time that this process was awake."""

    def __init__(self) -> None:
        self._mark: Hashable = None
        self._seconds, self._looked = 0.0, now()

    def seconds(self, mark: Hashable) -> float:
        """Take a look; returns for how long `mark` has been what it is."""
        moment = now()
        gap, self._looked = moment - self._looked, moment
        self._seconds = self._seconds + min(gap, _LONGEST_LOOK) if mark == self._mark else 0.0
        self._mark = mark
        return self._seconds


def overdue(phase: Phase, seconds: float, limits: LimitSettings) -> str | None:
    """Return why a child that has been in `phase` for so long is to be replaced, or `None` if it may go on.

    Idling and waiting are limited only while the child owes an answer to somebody; that is for the caller to know.
    """
    name = _LIMITS[phase]
    limit: float = getattr(limits, name)
    if seconds <= limit:
        return None
    if name == "respond":
        return f"it did not take up what waited for it within {limit:g} s (--limits.respond)"
    return f"{name} took longer than {limit:g} s (--limits.{name})"
