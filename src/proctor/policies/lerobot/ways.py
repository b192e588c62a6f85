"""The ways to ask a LeRobot policy, each exactly what its own `select_action` loop does for one episode alone.

`Chunk`: one forward pass answers the next steps, and nothing but the observations of its window matters. Asked
on a shadow that shares the weights and has empty queues; the queues are filled with the window in the policy's
own way. Any number of episodes share a forward pass, and the steps between are not looked at.
`Ensemble`: a forward pass at every step, averaged with those before; the average is the episode's memory.
`OwnCopy`: anything else. The episode has a copy of its own with shared weights, which sees every step.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch

Batch = dict[str, Any]
ACTION = "action"


class Chunk:
    """One forward pass for the next `steps` actions."""

    def __init__(self, policy: Any, steps: int) -> None:
        self._policy, self.steps = policy, steps
        self.offsets = tuple(range(1 - int(getattr(policy.config, "n_obs_steps", 1) or 1), 1))

    def begin(self) -> Any:
        """There is nothing to remember."""
        return None

    def ask(self, window: Sequence[Batch], memories: Sequence[Any]) -> Any:
        """Return actions of shape (rows, steps, action size)."""
        shadow = copy.copy(self._policy)
        # It is in evaluation mode and stays so; every `select_action` would walk all modules to make sure.
        shadow.eval = lambda: shadow
        shadow.reset()
        for older in window[:-1]:
            # With an action waiting there is no forward pass: the observation only enters the queues.
            shadow._queues[ACTION].append(None)
            shadow.select_action(dict(older))
        actions = [shadow.select_action(dict(window[-1]))]
        waiting = self._waiting(shadow)
        if len(waiting) == self.steps - 1:
            actions += waiting
        while len(actions) < self.steps:
            actions.append(shadow.select_action(dict(window[-1])))
        return torch.stack(actions, dim=1)

    def _waiting(self, shadow: Any) -> list[Any]:
        """Return the actions that wait in the policy's queue: asking for them one by one takes longer."""
        queue = getattr(shadow, "_action_queue", None)
        return list(queue if queue else (getattr(shadow, "_queues", None) or {}).get(ACTION, ()))


class Ensemble:
    """ACT's temporal ensembling: a chunk at every step, averaged with those that came before in the episode."""

    steps = 1
    offsets = (0,)

    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def begin(self) -> Any:
        """Return an average over nothing yet."""
        ensembler = copy.deepcopy(self._policy.temporal_ensembler)
        ensembler.reset()
        return ensembler

    def ask(self, window: Sequence[Batch], memories: Sequence[Any]) -> Any:
        """Return one action per row."""
        chunks = self._policy.predict_action_chunk(dict(window[-1]))
        # Padding rows have no memory, and nobody reads their actions.
        rows = [
            ensembler.update(chunk) if ensembler is not None else chunk[:, 0]
            for ensembler, chunk in zip(memories, chunks.split(1), strict=True)
        ]
        return torch.stack(rows)


class OwnCopy:
    """A copy of the policy for each episode, with shared weights and a state of its own."""

    steps = 1
    offsets = (0,)

    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def begin(self) -> Any:
        """Return a copy at the start of an episode."""
        own = copy_with_shared_weights(self._policy)
        own.reset()
        return own

    def ask(self, window: Sequence[Batch], memories: Sequence[Any]) -> Any:
        """Return one action of one episode."""
        (own,) = memories
        return own.select_action(dict(window[-1])).unsqueeze(1)


Way = Chunk | Ensemble | OwnCopy


def copy_with_shared_weights(policy: Any) -> Any:
    """Return a deep copy whose parameters and buffers are the original's."""
    shared = {id(tensor): tensor for tensor in (*policy.parameters(), *policy.buffers())}
    return copy.deepcopy(policy, memo=shared)
