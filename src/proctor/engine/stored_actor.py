"""A policy's stored actions in its place: what an episode did is done again, and looked at where it looked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from numpy.typing import NDArray

from proctor.engine.transport import Phase
from proctor.store.trajectories import Trajectory
from proctor.types import Episode, Observation


class StoredActor:
    """Answers with the chunks of a trajectory, one after the other.

    What was asked for beyond the end of the stored episode is its last action again: an episode that goes on there
    is another one, and ends like any.
    """

    phase = Phase.ACT

    def __init__(self, trajectory: Trajectory) -> None:
        self._actions = [action for actions in trajectory.actions for action in actions]
        self._chunks: list[int] = trajectory.chunks.tolist()

    def begin(self, episode: Episode) -> None:
        """Start with the first chunk."""
        self._lengths = iter(self._chunks)
        self._rest = iter(self._actions)

    def act(self, window: Sequence[Observation]) -> list[NDArray[Any]]:
        """Return the next chunk."""
        length = next(self._lengths, 1)
        chunk = [action.copy() for action in islice(self._rest, length)]
        return chunk + [self._actions[-1].copy() for _ in range(length - len(chunk))]
