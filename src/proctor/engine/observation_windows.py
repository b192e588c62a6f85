"""Which steps must be observed so that every window a policy will be shown is complete, and no more.

A policy asked at step t returns a chunk of n actions, so it is asked again at t + n and then sees the steps
t + n + offset. The steps in between are simulated without looking, which is where the time is saved.
"""

from __future__ import annotations

from collections.abc import Sequence

from proctor.policies.protocol import Window
from proctor.types import Observation


class Windows:
    """The observations of one episode that some window needs.

    Args:
        offsets: the window's steps relative to now, ascending, ending with 0.
        stride: the executed length of every chunk, if fixed; `None` if the policy decides each time.
    """

    def __init__(self, offsets: Sequence[int], stride: int | None) -> None:
        self._offsets = tuple(offsets)
        self._reach = -min(offsets)
        self._stride = stride
        self._kept: dict[int, Observation] = {}

    def needs(self, step: int, next_ask: int) -> bool:
        """Whether `step` lies in the window at `next_ask`, or may lie in a later one."""
        if self._reach == 0:
            return step == next_ask
        if step - next_ask in self._offsets:
            return True
        if self._stride is None:
            # The chunk after this one may be as short as one action: any later ask may come.
            return step > next_ask - self._reach and any(
                step - ask in self._offsets for ask in range(next_ask + 1, step + self._reach + 1)
            )
        return any(step - ask in self._offsets for ask in range(next_ask, step + self._reach + 1, self._stride))

    def add(self, step: int, observation: Observation) -> None:
        """Keep an observation as long as a window can still reach it."""
        if self._reach == 0:
            self._kept = {step: observation}
            return
        self._kept[step] = observation
        for old in [kept for kept in self._kept if kept < step - self._reach and kept != 0]:
            del self._kept[old]

    def at(self, ask: int) -> Window:
        """Return the window at `ask`; steps before the start show the first observation."""
        if self._reach == 0:
            return (self._kept[ask],)
        return tuple(self._kept[max(0, ask + offset)] for offset in self._offsets)
