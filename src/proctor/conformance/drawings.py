"""How often something is drawn: the drawing functions of known libraries, counted as they are called."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

_FUNCTIONS = (
    ("mujoco", "mjr_render"),
    ("mujoco._render", "mjr_render"),
    ("pygame.surfarray", "array3d"),
    ("pygame.surfarray", "pixels3d"),
)
"""Module and name; whoever draws calls exactly one of them a frame, through its module."""


class DrawingCounter:
    """Counts calls from the moment on in which a library is there to be watched."""

    def __init__(self) -> None:
        self.calls = 0
        self._watched: set[tuple[str, str]] = set()

    def watch(self) -> None:
        """Watch every known library that has been imported by now."""
        for place in _FUNCTIONS:
            module = sys.modules.get(place[0])
            function = getattr(module, place[1], None)
            if function is not None and place not in self._watched:
                setattr(module, place[1], self._counting(function))
                self._watched.add(place)

    @property
    def watching(self) -> bool:
        """Whether any drawing could have been counted."""
        return bool(self._watched)

    def _counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def counted(*arguments: Any, **named: Any) -> Any:
            self.calls += 1
            return function(*arguments, **named)

        return counted
