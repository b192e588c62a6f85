"""One forward pass: windows of observations in, actions out, for a batch of the fixed shape."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from proctor.policies.lerobot.kit import Kit
from proctor.policies.lerobot.randomness import EpisodeRandomness, RowRandomness, torchs_own
from proctor.policies.lerobot.ways import Way
from proctor.policies.protocol import Window

Draws = Literal["none", "rows", "torch"]
"""Where random numbers come from: nowhere, each row's own generator, or torch's own set to the episode's."""


@dataclass
class Row:
    """An episode's memory: what its way keeps, and its random numbers once it has drawn any."""

    state: Any
    randomness: EpisodeRandomness | None = None


class Kits:
    """The kits that no lane is using right now; one more is made when all are in use."""

    def __init__(self, make: Callable[[], Kit]) -> None:
        self._make = make
        self._free: queue.SimpleQueue[Kit] = queue.SimpleQueue()

    def more(self) -> Kits:
        """Return kits of the same make, none of them used yet."""
        return Kits(self._make)

    @contextmanager
    def several(self, count: int) -> Iterator[list[Kit]]:
        """Take that many kits at once."""
        with ExitStack() as stack:
            yield [stack.enter_context(self.one()) for _ in range(count)]

    @contextmanager
    def one(self) -> Iterator[Kit]:
        """Take a kit for a while."""
        try:
            kit = self._free.get_nowait()
        except queue.Empty:
            kit = self._make()
        try:
            yield kit
        finally:
            self._free.put(kit)


@dataclass
class Forward:
    """How a policy is asked; `rehearsal` finds out.

    Attributes:
        kits: what lanes work with.
        device: where the policy is.
        way: how it is asked.
        draws: where its random numbers come from.
        rows: rows in every forward pass.
        whole_chunks: whether a whole chunk may be post-processed in one go.
        recorded: whether passes are replayed from a recording.
    """

    kits: Kits
    device: Any
    way: Way
    draws: Draws = "torch"
    rows: int = 1
    whole_chunks: bool = False
    recorded: bool = False

    def __call__(self, windows: Sequence[Window], episodes: Sequence[Row]) -> list[NDArray[Any]]:
        """Return a chunk per window; every episode's randomness moves on."""
        with self.kits.one() as kit, kit.inference():
            batches = [
                kit.batch([window[place] for window in windows], self.rows)
                for place in range(len(self.way.offsets))
            ]
            padding = [None] * (self.rows - len(windows))
            states = [*[episode.state for episode in episodes], *padding]
            if self.recorded:
                chunks = kit.replay(lambda window: self.way.ask(window, states), batches)
            else:
                with self._randomness([episode.randomness for episode in episodes]):
                    chunks = self.way.ask(batches, states)
            actions = self._actions(kit, chunks)
        return [actions[row].copy() for row in range(len(windows))]

    def _actions(self, kit: Kit, chunks: Any) -> NDArray[Any]:
        if self.whole_chunks:
            return kit.actions(chunks)
        return np.stack([kit.actions(chunks[:, step]) for step in range(chunks.shape[1])], axis=1)

    def _randomness(self, given: Sequence[EpisodeRandomness | None]) -> AbstractContextManager[Any]:
        if self.draws == "none":
            return nullcontext()
        episodes = [episode for episode in given if episode is not None]
        if self.draws == "torch":
            return torchs_own(episodes[0], self.device)
        # Padding rows draw from nobody's generator.
        padding = [EpisodeRandomness(0) for _ in range(self.rows - len(episodes))]
        return RowRandomness([*episodes, *padding])
