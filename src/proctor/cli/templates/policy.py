"""A policy for Proctor, to begin with: replace what `act` does. Everything else is optional.

More: docs/policies.md (chunks, memory, batches) and, for a robot's own observations, the page of your benchmark.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor import BenchmarkSpec


class MyPolicy:
    """Drifts about at random, never far from zero, in chunks of a few actions."""

    # What it looks at. Name no picture, and none is drawn. Left out: everything that --env.* offers.
    observation_keys = ("observation.state",)

    def __init__(self, benchmark: BenchmarkSpec, steps: int = 5, scale: float = 0.5) -> None:
        """Load weights here. `benchmark` is filled in by its name; others are --policy.kwargs.NAME=VALUE."""
        self.steps, self.scale = steps, scale
        self.low, self.high = benchmark.action_low, benchmark.action_high
        self.action_size = benchmark.action_size

    def act(self, observation: dict[str, Any], generator: np.random.Generator) -> NDArray[np.float64]:
        """Return one action, or a chunk of them, shape (steps, action_size): all are executed.

        Args:
            observation: arrays by their keys, without a batch dimension, and the prompt as `observation["task"]`.
            generator: the episode's own. Draw from nothing else, and the result depends on no other episode.
        """
        home = -np.resize(observation["observation.state"], self.action_size)
        drift = generator.normal(scale=self.scale, size=self.action_size)
        return np.clip(np.tile(home + drift, (self.steps, 1)), self.low, self.high)

    # With a method `reset(self)` every episode has a copy of its own, which may keep what it likes between calls.
