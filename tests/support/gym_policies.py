"""Policies for Gymnasium environments: what a user would write."""

from __future__ import annotations

from typing import Any

import numpy as np


class Walker:
    """Looks at everything there is, and answers with a chunk that depends on all of it."""

    fingerprint = "walker"

    def act(self, observation: dict[str, Any]) -> Any:
        seen = sum(float(np.asarray(v, np.float64).mean()) for k, v in sorted(observation.items()) if k != "task")
        side = np.tanh(seen / 50) + np.zeros(4)
        return np.stack([side, 1 + side], axis=1)


class Balancer:
    """Returns a bare index, as `action_space.sample()` does."""

    fingerprint = "balancer"

    def act(self, observation: dict[str, Any]) -> int:
        return int(observation["observation.state"][2] > 0)


class Wild:
    """Returns an index that there is not."""

    fingerprint = "wild"

    def act(self, observation: dict[str, Any]) -> int:
        return 7


class Blind:
    """Never looks."""

    fingerprint = "blind"
    observation_keys = ()

    def act(self, observation: dict[str, Any]) -> Any:
        return np.tile([0.5, 1.0], (5, 1))
