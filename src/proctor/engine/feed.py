"""Episodes that arrive while a run goes on: a node of a cluster gets its part of the plan in helpings."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from proctor.types import Episode


class Feed:
    """Takes episodes from any thread and gives them to the coordinator's.

    Args:
        wake: called after every change, so that a coordinator which waits looks again.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake, self._lock = wake, threading.Lock()
        self._arrived: list[Episode] = []
        self._closed = False

    def give(self, episodes: Iterable[Episode]) -> None:
        """Add episodes."""
        with self._lock:
            self._arrived += episodes
        self._wake()

    def close(self) -> None:
        """Say that no more will come."""
        self._closed = True
        self._wake()

    def take(self) -> list[Episode]:
        """Return what has arrived since the last call."""
        with self._lock:
            arrived, self._arrived = self._arrived, []
        return arrived

    @property
    def closed(self) -> bool:
        """Whether nothing more will come, and nothing is left to take."""
        return self._closed and not self._arrived
