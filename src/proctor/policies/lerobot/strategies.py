"""How a LeRobot policy is asked: each strategy does what the policy's own `select_action` loop does.

`Chunk`: one forward pass answers the next steps, and nothing but the observations of its window matters. Asked
on a shadow of the lane's policy with empty queues, which are filled with the window in the policy's own way.
Any number of episodes share a forward pass, and the steps between are not looked at.
`Ensemble`: a forward pass at every step, averaged with those before; the average is the episode's memory.
`OwnCopy`: anything else. The episode has a policy and processors of its own, which see every step.

`Forward` is one pass by a strategy: windows of observations in, actions out, for a batch of the fixed shape.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from proctor.policies.lerobot.cuda_graph import Batch
from proctor.policies.lerobot.lane_resources import ACTION, LanePool, LaneResources
from proctor.policies.lerobot.randomness import (
    EpisodeRandomness,
    RowRandomness,
    own_generators,
    untouched_generators,
)
from proctor.policies.lerobot.state import take_apart
from proctor.policies.protocol import Window


class Chunk:
    """One forward pass for the next `steps` actions.

    Attributes:
        steps: actions that a pass gives.
        offsets: the steps of its window, relative to now.
        on_pass: told the shadow as the pass has left it; the trial looks at it.
    """

    def __init__(self, config: Any, steps: int, on_pass: Callable[[Any], None] | None = None) -> None:
        self.config, self.steps, self.on_pass = config, steps, on_pass
        self.offsets = tuple(range(1 - int(getattr(config, "n_obs_steps", 1) or 1), 1))

    def begin(self) -> Any:
        """There is nothing to remember."""
        return None

    def ask(self, policy: Any, window: Sequence[Batch], memories: Sequence[Any]) -> Any:
        """Return actions of shape (rows, steps, action size)."""
        shadow = copy.copy(policy)
        shadow.reset()
        for older in window[:-1]:
            # With an action waiting there is no forward pass: the observation only enters the queues.
            shadow._queues[ACTION].append(None)
            shadow.select_action(dict(older))
        actions = [shadow.select_action(dict(window[-1]))]
        if self.on_pass is not None:
            self.on_pass(shadow)
        waiting = self._waiting(shadow)
        if len(waiting) == self.steps - 1:
            actions += waiting
        while len(actions) < self.steps:
            actions.append(shadow.select_action(dict(window[-1])))
        # Whatever in it refers to itself must not outlive this call.
        shadow.__dict__.clear()
        return torch.stack(actions, dim=1)

    def _waiting(self, shadow: Any) -> list[Any]:
        """Return the actions that wait in the policy's queue: asking for them one by one takes longer."""
        queue = getattr(shadow, "_action_queue", None)
        return list(queue if queue else (getattr(shadow, "_queues", None) or {}).get(ACTION, ()))


class Ensemble:
    """ACT's temporal ensembling: a chunk at every step, averaged with those that came before in the episode."""

    steps = 1
    offsets = (0,)
    memory = "temporal_ensembler"

    def __init__(self, policy: Any) -> None:
        self._average = copy.deepcopy(getattr(policy, self.memory))
        self._average.reset()

    def begin(self) -> Any:
        """Return an average over nothing yet."""
        return copy.deepcopy(self._average)

    def ask(self, policy: Any, window: Sequence[Batch], memories: Sequence[Any]) -> Any:
        """Return one action per row."""
        chunks = policy.predict_action_chunk(dict(window[-1]))
        # Padding rows have no memory, and nobody reads their actions.
        rows = [
            average.update(chunk) if average is not None else chunk[:, 0]
            for average, chunk in zip(memories, chunks.split(1), strict=True)
        ]
        return torch.stack(rows)


class OwnCopy:
    """A policy for each episode, which shares parameters with the others and nothing else."""

    steps = 1
    offsets = (0,)

    def begin(self) -> Any:
        """There is nothing to remember but the policy, which is the episode's own."""
        return None

    def ask(self, policy: Any, window: Sequence[Batch], memories: Sequence[Any]) -> Any:
        """Return one action of one episode."""
        return policy.select_action(dict(window[-1])).unsqueeze(1)


Strategy = Chunk | Ensemble | OwnCopy


Draws = Literal["none", "rows", "process"]
"""Where random numbers come from: nowhere, each row's own generator, or those of the process, set to the
episode's."""


Recorded = Literal["no", "as it is", "by its script"]
"""Whether a CUDA graph is replayed: not, of the pass as it is, or of what its script leaves of it."""


@dataclass(eq=False)
class EpisodeMemory:
    """What its strategy keeps, its random numbers once it has drawn any, and a policy of its own if needed."""

    state: Any
    randomness: EpisodeRandomness | None = None
    lane: LaneResources | None = None


@dataclass
class Forward:
    """How a policy is asked; `trial` finds out.

    Attributes:
        pool: what lanes work with.
        device: where the policy is.
        strategy: how it is asked.
        draws: where its random numbers come from.
        rows: rows in every forward pass.
        whole_chunks: whether a whole chunk may be post-processed in one go.
        recorded: whether passes are replayed from a recording, and how that was made.
    """

    pool: LanePool
    device: Any
    strategy: Strategy
    draws: Draws = "process"
    rows: int = 1
    whole_chunks: bool = False
    recorded: Recorded = "no"

    def begin(self, seed: int | None = None) -> EpisodeMemory:
        """Return the memory of an episode before its first step."""
        row = EpisodeMemory(self.strategy.begin(), None if seed is None else EpisodeRandomness(seed))
        if isinstance(self.strategy, OwnCopy):
            row.lane = self.pool.new()
            row.lane.policy.reset()
            # A policy may refer to itself; it is gone with its episode all the same.
            weakref.finalize(row, take_apart, row.lane.policy).atexit = False
        return row

    def __call__(self, windows: Sequence[Window], episodes: Sequence[EpisodeMemory]) -> list[NDArray[Any]]:
        """Return a chunk per window; every episode's randomness moves on."""
        with self._kit(episodes) as lane, lane.inference(), self._randomness(episodes):
            batches = [
                lane.batch([window[place] for window in windows], self.rows)
                for place in range(len(self.strategy.offsets))
            ]
            padding = [None] * (self.rows - len(windows))
            states = [*[episode.state for episode in episodes], *padding]
            ask = partial(self._ask, lane.policy, states)
            if self.recorded == "no":
                chunks = ask(batches)
            else:
                chunks = lane.replay(
                    ask, batches, self._rows_of(episodes), by_script=self.recorded == "by its script"
                )
            actions = self._actions(lane, chunks)
        return [actions[row].copy() for row in range(len(windows))]

    @contextmanager
    def _kit(self, episodes: Sequence[EpisodeMemory]) -> Iterator[LaneResources]:
        own = episodes[0].lane
        with self.pool.one() if own is None else nullcontext(own) as lane:
            yield lane

    def _actions(self, lane: LaneResources, chunks: Any) -> NDArray[Any]:
        if self.whole_chunks:
            return lane.actions(chunks)
        return np.stack([lane.actions(chunks[:, step]) for step in range(chunks.shape[1])], axis=1)

    def _ask(self, policy: Any, states: Sequence[Any], window: Sequence[Batch]) -> Any:
        return self.strategy.ask(policy, window, states)

    def _rows_of(self, episodes: Sequence[EpisodeMemory]) -> list[EpisodeRandomness]:
        if self.draws != "rows":
            return []
        known = [row.randomness for row in episodes if row.randomness is not None]
        # Padding rows draw from nobody's generator.
        return [*known, *(EpisodeRandomness(0) for _ in range(self.rows - len(known)))]

    @contextmanager
    def _randomness(self, episodes: Sequence[EpisodeMemory]) -> Iterator[None]:
        """Give each row what it may draw from; a draw from anywhere else is an error, not another result."""
        with ExitStack() as stack:
            if self.draws == "process":
                assert episodes[0].randomness is not None
                stack.enter_context(own_generators(episodes[0].randomness, self.device))
            elif self.recorded == "no":
                stack.enter_context(untouched_generators(self.device))
            if self.draws == "rows":
                stack.enter_context(RowRandomness(self._rows_of(episodes)))
            yield
