"""A LeRobot policy taken apart: what its network is given, what that answers, and what becomes of the answer.

It is asked in the way that the trial has found (`strategies.py`), so the stages together are the policy. Each can
be given what another harness had at that place.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from proctor.policies.lerobot.policy import LeRobotPolicy
from proctor.types import Observation

Batch = dict[str, Any]


class PolicyStages:
    """The stages of one policy, for one episode at a time."""

    def __init__(self, policy: LeRobotPolicy) -> None:
        self._policy, self._forward = policy, policy._trial.forward
        self._lane = self._forward.pool.new()

    def begin(self, generator: np.random.Generator) -> None:
        """Begin an episode, whose random numbers come from its generator."""
        seed = int(generator.integers(2**63)) if self._policy.spec.stochastic else None
        self._memory = self._forward.begin(seed)
        if self._memory.lane is not None:
            self._lane = self._memory.lane

    def batch(self, observation: Observation) -> Batch:
        """Return what the network is given for an observation, with its prompt as `task`."""
        with self._lane.inference():
            return self._lane.batch([observation], self._forward.rows)

    def with_inputs(self, batch: Batch, inputs: Mapping[str, NDArray[Any]]) -> Batch:
        """Return a batch in which what another harness gave its network stands in place of ours."""
        found = dict(batch)
        for key, array in inputs.items():
            ours = batch.get(key)
            if isinstance(ours, torch.Tensor):
                theirs = torch.from_numpy(np.array(array)).to(ours.device)
                found[key] = theirs.unsqueeze(0).expand(self._forward.rows, *theirs.shape).contiguous()
        return found

    def ask(self, window: Sequence[Batch]) -> NDArray[Any]:
        """Return the network's own actions for a window, as many as are executed; the episode moves on."""
        rows, memory = self._forward.rows, self._memory
        with self._lane.inference(), self._forward._randomness([memory]):
            states = [memory.state, *[None] * (rows - 1)]
            return _plain(self._forward.strategy.ask(self._lane.policy, window, states)[0])

    def whole_chunk(self, batch: Batch) -> NDArray[Any] | None:
        """Return all actions that the network predicts at once, those beyond the executed ones too.

        `None` of a policy that draws random numbers or has no such method: asked again it would answer otherwise.
        """
        predict = getattr(self._lane.policy, "predict_action_chunk", None)
        if predict is None or self._policy.spec.stochastic or len(self._forward.strategy.offsets) > 1:
            return None
        try:
            with self._lane.inference():
                shadow = copy.copy(self._lane.policy)
                shadow.reset()
                return _plain(shadow.predict_action_chunk(dict(batch))[0])
        except Exception:
            return None  # it keeps more in mind than a batch

    def actions(self, raw: NDArray[Any]) -> NDArray[Any]:
        """Return the robot's actions for the network's own, of one step or of several."""
        rows, several = self._forward.rows, raw.ndim == 2
        steps = raw if several else raw[None]
        with self._lane.inference():
            tensors = torch.from_numpy(np.array(steps)).to(self._forward.device)
            found = [
                self._lane.actions(one.unsqueeze(0).expand(rows, *one.shape).contiguous())[0] for one in tensors
            ]
        return np.stack(found) if several else found[0]

    def statistics(self) -> dict[str, NDArray[Any]]:
        """Return what the checkpoint says of its actions, by the statistic's name; nothing if it says nothing."""
        for step in getattr(self._lane.processors[1], "steps", ()):
            stats = (getattr(step, "stats", None) or {}).get("action")
            if stats:
                return {
                    name: np.asarray(_plain(torch.as_tensor(value)), np.float64) for name, value in stats.items()
                }
        return {}


def _plain(tensor: Any) -> NDArray[Any]:
    array: NDArray[Any] = tensor.detach().float().cpu().numpy()
    return array.copy()
