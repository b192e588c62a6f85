"""Which episode an environment plays next.

Episode k of a task has the seed `first + k`, as in a plan; environment i of n plays episodes i, i + n, i + 2n, ...
So n environments that are reset together, with an int or with LeRobot's list of seeds, play a plan in its order.
"""

from __future__ import annotations

from collections.abc import Callable


class EpisodeCount:
    """Counts the episodes of environment `place` of `stride`.

    The first seed decides where episode 0 is. A seed that comes later means the episode that has it, so the same
    seed gives the same episode again; one from before the beginning begins a new count.
    """

    def __init__(self, place: int = 0, stride: int = 1) -> None:
        self._place, self._stride = place, stride
        self._first: int | None = None
        self._index: int | None = None

    def next(self, seed: int | None, index: int | None, draw: Callable[[], int]) -> tuple[int, int]:
        """Return index and seed of the episode that a reset begins; without a first seed, `draw` gives one."""
        if seed is not None:
            if index is not None:
                self._first = seed - index
            elif self._first is None or seed < self._first + self._place:
                self._first = seed - self._place
            index = seed - self._first
        else:
            if self._first is None:
                self._first = draw()
            if index is None:
                index = self._place if self._index is None else self._index + self._stride
        self._index = index
        return index, self._first + index
