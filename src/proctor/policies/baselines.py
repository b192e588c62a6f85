"""Policies that need no training: what any real one has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proctor.benchmarks.protocol import BenchmarkSpec
from proctor.policies.protocol import Actions, Memory, Policy, PolicySpec, Window


class RandomPolicy(Policy):
    """Uniform over the action space, from each episode's own generator."""

    light = True

    def __init__(self, benchmark: BenchmarkSpec) -> None:
        self._low, self._high, self._size = benchmark.action_low, benchmark.action_high, benchmark.action_size

    @classmethod
    def from_settings(cls, settings: Any, benchmark: BenchmarkSpec) -> RandomPolicy:
        """Build it for a benchmark's action space."""
        return cls(benchmark)

    @property
    def spec(self) -> PolicySpec:
        """It looks at nothing, so nothing is drawn for it."""
        return PolicySpec(
            observation_keys=(),
            action_size=self._size,
            action_steps=1,
            stochastic=True,
            fingerprint="random-1",
        )

    def act(
        self, windows: Sequence[Window], memories: Sequence[Memory], generators: Sequence[np.random.Generator]
    ) -> Actions:
        """Draw one action per episode."""
        chunks = [
            generator.uniform(self._low, self._high, (1, self._size)).astype(np.float32)
            for generator in generators
        ]
        return Actions(chunks, memories)


class ZeroPolicy(Policy):
    """Does nothing, which some tasks take for success."""

    light = True

    def __init__(self, benchmark: BenchmarkSpec) -> None:
        self._size = benchmark.action_size

    @classmethod
    def from_settings(cls, settings: Any, benchmark: BenchmarkSpec) -> ZeroPolicy:
        """Build it for a benchmark's action size."""
        return cls(benchmark)

    @property
    def spec(self) -> PolicySpec:
        """It looks at nothing."""
        return PolicySpec(observation_keys=(), action_size=self._size, action_steps=1, fingerprint="zero-1")

    def act(
        self, windows: Sequence[Window], memories: Sequence[Memory], generators: Sequence[np.random.Generator]
    ) -> Actions:
        """Return zeros."""
        return Actions([np.zeros((1, self._size), np.float32) for _ in windows], memories)
