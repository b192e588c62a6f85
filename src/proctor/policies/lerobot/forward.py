"""One forward pass: windows of observations in, actions out, for a batch of the fixed shape."""

from __future__ import annotations

import queue
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from proctor.policies.lerobot.kit import Kit
from proctor.policies.lerobot.randomness import (
    EpisodeRandomness,
    RowRandomness,
    own_generators,
    untouched_generators,
)
from proctor.policies.lerobot.state import take_apart
from proctor.policies.lerobot.ways import OwnCopy, Way
from proctor.policies.protocol import Window

Draws = Literal["none", "rows", "process"]
"""Where random numbers come from: nowhere, each row's own generator, or those of the process, set to the
episode's."""


@dataclass(eq=False)
class Row:
    """An episode's memory: what its way keeps, its random numbers once it has drawn any, and a kit of its own."""

    state: Any
    randomness: EpisodeRandomness | None = None
    kit: Kit | None = None


class Kits:
    """The kits that no lane is using right now; one more is made when all are in use."""

    def __init__(self, make: Callable[[], Kit]) -> None:
        self._make = make
        self._free: queue.SimpleQueue[Kit] = queue.SimpleQueue()

    def new(self) -> Kit:
        """Return a kit that nobody has used or will use."""
        return self._make()

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
    draws: Draws = "process"
    rows: int = 1
    whole_chunks: bool = False
    recorded: bool = False

    def begin(self, seed: int | None = None) -> Row:
        """Return the memory of an episode before its first step."""
        row = Row(self.way.begin(), None if seed is None else EpisodeRandomness(seed))
        if isinstance(self.way, OwnCopy):
            row.kit = self.kits.new()
            row.kit.policy.reset()
            # A policy may refer to itself; it is gone with its episode all the same.
            weakref.finalize(row, take_apart, row.kit.policy).atexit = False
        return row

    def __call__(self, windows: Sequence[Window], episodes: Sequence[Row]) -> list[NDArray[Any]]:
        """Return a chunk per window; every episode's randomness moves on."""
        with self._kit(episodes) as kit, kit.inference(), self._randomness(episodes):
            batches = [
                kit.batch([window[place] for window in windows], self.rows)
                for place in range(len(self.way.offsets))
            ]
            padding = [None] * (self.rows - len(windows))
            states = [*[episode.state for episode in episodes], *padding]
            if self.recorded:
                chunks = kit.replay(lambda window: self.way.ask(kit.policy, window, states), batches)
            else:
                chunks = self.way.ask(kit.policy, batches, states)
            actions = self._actions(kit, chunks)
        return [actions[row].copy() for row in range(len(windows))]

    @contextmanager
    def _kit(self, episodes: Sequence[Row]) -> Iterator[Kit]:
        own = episodes[0].kit
        with self.kits.one() if own is None else nullcontext(own) as kit:
            yield kit

    def _actions(self, kit: Kit, chunks: Any) -> NDArray[Any]:
        if self.whole_chunks:
            return kit.actions(chunks)
        return np.stack([kit.actions(chunks[:, step]) for step in range(chunks.shape[1])], axis=1)

    @contextmanager
    def _randomness(self, rows: Sequence[Row]) -> Iterator[None]:
        """Give each row what it may draw from; a draw from anywhere else is an error, not another result."""
        episodes = [row.randomness for row in rows if row.randomness is not None]
        with ExitStack() as stack:
            if self.draws == "process":
                stack.enter_context(own_generators(episodes[0], self.device))
            elif not self.recorded:
                stack.enter_context(untouched_generators(self.device))
            if self.draws == "rows":
                # Padding rows draw from nobody's generator.
                padding = [EpisodeRandomness(0) for _ in range(self.rows - len(episodes))]
                stack.enter_context(RowRandomness([*episodes, *padding]))
            yield
