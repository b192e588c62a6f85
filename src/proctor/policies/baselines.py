"""Policies that need no training: what any real one has to beat, and Meta-World's scripted experts."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.errors import UsageError
from proctor.installation import require
from proctor.policies.protocol import Actions, Generators, Memory, Policy, PolicySpec, Window
from proctor.types import ENVIRONMENT_STATE, BenchmarkSpec, Task

_ENDLESS = 1e30
"""A bound beyond it is none: nobody means to reach the largest float."""


class ActionSampler:
    """Draws actions: uniform between the bounds; where one is missing, as Gymnasium does, from the other on."""

    def __init__(self, benchmark: BenchmarkSpec) -> None:
        self._integers, self._size = benchmark.action_integers, benchmark.action_size
        bounds = [np.broadcast_to(b, self._size) for b in (benchmark.action_low, benchmark.action_high)]
        self._below, self._above = (np.abs(bound) < _ENDLESS for bound in bounds)
        self._bounded = bool((self._below & self._above).all())
        self._low, self._high = bounds
        if self._integers:
            self._low, self._high = (bound.astype(np.int64) for bound in bounds)

    def draw(self, generator: np.random.Generator, steps: int) -> NDArray[Any]:
        """Return that many actions, from that generator alone."""
        shape = (steps, self._size)
        if self._integers:
            return generator.integers(self._low, self._high, shape, endpoint=True)
        if self._bounded:
            return generator.uniform(self._low, self._high, shape).astype(np.float32)
        drawn = generator.uniform(np.where(self._below, self._low, 0), np.where(self._above, self._high, 1), shape)
        far, anywhere = generator.exponential(size=shape), generator.normal(size=shape)
        drawn = np.where(self._above, np.where(self._below, drawn, self._high - far), self._low + far)
        return np.where(self._above | self._below, drawn, anywhere).astype(np.float32)


class RandomPolicy(Policy):
    """Uniform over the action space, from each episode's own generator."""

    light = True

    def __init__(self, benchmark: BenchmarkSpec) -> None:
        self._size, self._sampler = benchmark.action_size, ActionSampler(benchmark)

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

    def act(self, windows: Sequence[Window], memories: Sequence[Memory], generators: Generators) -> Actions:
        """Draw one action per episode."""
        return Actions([self._sampler.draw(generator, 1) for generator in generators], memories)


class ZeroPolicy(Policy):
    """Does nothing, which some tasks take for success."""

    light = True

    def __init__(self, benchmark: BenchmarkSpec) -> None:
        # Where zero is no action, the nearest one stands in.
        low, high = benchmark.action_low, benchmark.action_high
        self._action = np.clip(np.zeros((1, benchmark.action_size)), low, high).astype(np.float32)

    @classmethod
    def from_settings(cls, settings: Any, benchmark: BenchmarkSpec) -> ZeroPolicy:
        """Build it for a benchmark's action size."""
        return cls(benchmark)

    @property
    def spec(self) -> PolicySpec:
        """It looks at nothing."""
        return PolicySpec(
            observation_keys=(), action_size=self._action.shape[1], action_steps=1, fingerprint="zero-1"
        )

    def act(self, windows: Sequence[Window], memories: Sequence[Memory], generators: Generators) -> Actions:
        """Return zeros."""
        return Actions([self._action.copy() for _ in windows], memories)


class ExpertPolicy(Policy):
    """One script per task, shipped with Meta-World. An episode's memory is its script."""

    light = True

    @classmethod
    def check_installed(cls) -> None:
        """Say how to get Meta-World's scripts."""
        require("--policy.type=expert", "metaworld", "metaworld")

    @classmethod
    def from_settings(cls, settings: Any, benchmark: BenchmarkSpec) -> ExpertPolicy:
        """Build it. The scripts are imported with the first episode."""
        if benchmark.name != "metaworld":
            raise UsageError(f"--policy.type=expert: {benchmark.name} has no scripted experts; metaworld has.")
        return cls()

    @property
    def spec(self) -> PolicySpec:
        """It looks at the 39 numbers of the raw state at every step."""
        return PolicySpec(
            observation_keys=(ENVIRONMENT_STATE,), action_size=4, action_steps=1, fingerprint="metaworld-expert-1"
        )

    def begin(self, task: Task) -> Memory:
        """Return a fresh script for the task: some keep state."""
        # Scripts warn whenever a response exceeds 1; the simulator clips it, as for any policy.
        warnings.filterwarnings("ignore", message=r"Constant\(s\) may be too high")
        scripts = importlib.import_module("metaworld.policies").ENV_POLICY_MAP
        return scripts[task.name]()

    def act(self, windows: Sequence[Window], memories: Sequence[Memory], generators: Generators) -> Actions:
        """Ask each episode's script."""
        chunks = [
            np.asarray(script.get_action(window[-1][ENVIRONMENT_STATE]))[None]
            for window, script in zip(windows, memories, strict=True)
        ]
        return Actions(chunks, memories)
