"""When to start a batch that is not full.

A batch has one shape, so a pass with few rows costs as much as a full one. While the device has time to spare
that does not matter, and a question is answered at once. When passes follow each other without a pause the device
is what everybody waits for, and a pass with more rows serves more: then the next one is held back, at most for as
long as a pass takes, or until it is full, or until nobody else is left to ask.
"""

from __future__ import annotations

_MEMORY = 0.9
"""How much of the past the running averages keep at each pass."""

_BUSY = 0.5
"""The share of time in passes above which the device counts as what everybody waits for."""


class Patience:
    """Watches passes and says how long to hold the next one back. Times are in seconds, by any one clock."""

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._pass = self._cycle = 0.0
        self._last_end: float | None = None

    def passed(self, start: float, end: float) -> None:
        """Note a pass."""
        since = start if self._last_end is None else min(self._last_end, start)
        self._last_end = end
        self._pass += (1 - _MEMORY) * (end - start - self._pass)
        self._cycle += (1 - _MEMORY) * (end - since - self._cycle)

    @property
    def busy(self) -> bool:
        """Whether passes follow each other without much of a pause."""
        return self._pass > _BUSY * self._cycle

    def hold(self, waiting: int, others: int, oldest: float, now: float) -> float:
        """Return for how many seconds to wait for more; 0: start now.

        Args:
            waiting: questions that could be answered now.
            others: workers that are served and have not asked yet.
            oldest: when the first of those questions was seen.
            now: the time.
        """
        if waiting >= self._batch or not others or not self.busy:
            return 0.0
        return max(0.0, oldest + self._pass - now)
