"""The ways to ask a LeRobot policy, each exactly what its own `select_action` loop does for one episode alone.

`Chunk`: one forward pass answers the next steps, and nothing but the observations of its window matters. Asked
on a shadow of the lane's policy with empty queues, which are filled with the window in the policy's own way. Any
number of episodes share a forward pass, and the steps between are not looked at.
`Ensemble`: a forward pass at every step, averaged with those before; the average is the episode's memory.
`OwnCopy`: anything else. The episode has a policy and processors of its own, which see every step.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch

Batch = dict[str, Any]
ACTION = "action"


class Chunk:
    """One forward pass for the next `steps` actions.

    Attributes:
        steps: actions that a pass gives.
        offsets: the steps of its window, relative to now.
        on_pass: told the shadow as the pass has left it; the rehearsal looks at it.
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
        """There is nothing to remember but the policy, which is its kit's."""
        return None

    def ask(self, policy: Any, window: Sequence[Batch], memories: Sequence[Any]) -> Any:
        """Return one action of one episode."""
        return policy.select_action(dict(window[-1])).unsqueeze(1)


Way = Chunk | Ensemble | OwnCopy
