"""When a child counts as hung: each phase has its own limit."""

from __future__ import annotations

from proctor.config.settings import LimitSettings
from proctor.engine.transport import Phase


def overdue(phase: Phase, since: float, now: float, limits: LimitSettings) -> str | None:
    """Return why a child in `phase` since `since` is to be replaced, or `None` if it may go on.

    Waiting and idling have no limit: whoever is waited for has one.
    """
    name = {
        Phase.START: "start",
        Phase.BUILD: "build",
        Phase.RESET: "reset",
        Phase.STEP: "step",
        Phase.DRAW: "draw",
        Phase.ENCODE: "draw",
        Phase.LOAD: "load",
        Phase.ACT: "act",
    }.get(phase)
    if name is None:
        return None
    limit: float = getattr(limits, name)
    if now - since <= limit:
        return None
    return f"{name} took longer than {limit:g} s (--limits.{name})"
