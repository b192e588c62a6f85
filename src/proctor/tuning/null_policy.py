"""A policy that costs nothing: it looks as often as another would, or at every step, and moves at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proctor.policies.baselines import ActionSampler
from proctor.policies.protocol import Actions, Generators, Memory, Policy, PolicySpec, Window
from proctor.types import BenchmarkSpec

NULL_POLICY = "proctor.tuning.null_policy:NullPolicy"


class NullPolicy(Policy):
    """Runs inside a worker, in the place of the policy whose spec it is given, or of any that looks at all."""

    light = True

    def __init__(self, benchmark: BenchmarkSpec, spec: PolicySpec) -> None:
        self._spec, self._sampler = spec, ActionSampler(benchmark)

    @classmethod
    def from_settings(cls, settings: Any, benchmark: BenchmarkSpec) -> NullPolicy:
        """Look at everything that the benchmark offers, at every step."""
        return cls(benchmark, PolicySpec(action_steps=1, stochastic=True, fingerprint="null-1"))

    @classmethod
    def rebuild(cls, settings: Any, benchmark: BenchmarkSpec, spec: PolicySpec) -> NullPolicy:
        """Look as `spec` says."""
        return cls(benchmark, spec)

    @property
    def spec(self) -> PolicySpec:
        """The other policy's."""
        return self._spec

    def act(self, windows: Sequence[Window], memories: Sequence[Memory], generators: Generators) -> Actions:
        """Return a chunk of random actions, as long as the other's."""
        steps = self._spec.action_steps or 1
        return Actions([self._sampler.draw(generator, steps) for generator in generators], memories)
