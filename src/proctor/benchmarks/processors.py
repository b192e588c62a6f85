"""What stands between a simulator and a policy: steps that change observations and actions on their way.

A benchmark names its own (`Benchmark.get_env_processors`); a policy that wants others says so in its spec
(`PolicySpec.env_processors`). They run in the worker, on NumPy arrays, so every kind of policy gets the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.protocol import Benchmark, Simulator, layout_of
from proctor.config.registry import load_object
from proctor.errors import UsageError
from proctor.types import BenchmarkSpec, Episode, Look, Observation, Outcome, Task


class EnvProcessor:
    """One step between a simulator and a policy. Extend it; what is left out passes through unchanged.

    It keeps nothing between calls: an observation may depend on the simulator's one alone, or results would
    depend on which steps were looked at.
    """

    def spec(self, given: BenchmarkSpec) -> BenchmarkSpec:
        """Return what a policy may rely on behind this step: features, action size and bounds."""
        return given

    def needs(self, key: str) -> Sequence[str]:
        """Return the keys before this step that `key` behind it is made of. Called only for keys looked at."""
        return (key,)

    def observation(self, observation: Observation) -> Observation:
        """Return the observation behind this step; only keys that are needed are there."""
        return observation

    def action(self, action: NDArray[Any]) -> NDArray[Any]:
        """Return the action for the simulator."""
        return action


def processors_for(benchmark: Benchmark, named: Sequence[str] | None) -> Sequence[EnvProcessor]:
    """Return the benchmark's own steps, or those that the policy names instead, in an observation's order."""
    return benchmark.get_env_processors() if named is None else named_processors(named)


def named_processors(named: Sequence[str]) -> list[EnvProcessor]:
    """Return the steps at these `module:Name` or `file.py:Name`.

    Raises:
        UsageError: one is not there, or is no `EnvProcessor`.
    """
    steps = []
    for path in named:
        found = load_object(path)
        step = found() if isinstance(found, type) else found
        if not isinstance(step, EnvProcessor):
            raise UsageError(
                f"the policy names the environment processor {path}, which is no proctor.EnvProcessor."
            )
        steps.append(step)
    return steps


def spec_behind(steps: Sequence[EnvProcessor], given: BenchmarkSpec) -> BenchmarkSpec:
    """Return what a policy may rely on behind all steps."""
    for step in steps:
        given = step.spec(given)
        if type(step).action is not EnvProcessor.action:
            # The simulator's bounds are not those of the policy's actions, which are changed on their way.
            given = replace(given, clips_actions=False)
    return given


def make_simulator(benchmark: Benchmark, task: Task, steps: Sequence[EnvProcessor]) -> Simulator:
    """Build a task's simulator, behind its steps if there are any."""
    simulator = benchmark.make_simulator(task)
    return ProcessedSimulator(simulator, steps) if steps else simulator


class ProcessedSimulator:
    """A simulator as it looks from behind its processors."""

    def __init__(self, simulator: Simulator, steps: Sequence[EnvProcessor]) -> None:
        self._simulator, self._steps = simulator, tuple(steps)
        self._look: Look = frozenset()
        self._needed: dict[Look, Look] = {}

    def reset(self, episode: Episode, look: Look) -> None:
        """Reset the simulator; it looks at what the steps need."""
        self._look = look
        self._simulator.reset(episode, self._before(look))

    def step(self, action: NDArray[Any], look: Look) -> Outcome:
        """Apply the simulator's form of an action."""
        self._look = look
        for step in reversed(self._steps):
            action = step.action(action)
        return self._simulator.step(action, self._before(look))

    def observe(self) -> Observation:
        """Return what was looked at, behind the steps."""
        observation = self._simulator.observe()
        for step in self._steps:
            observation = step.observation(observation)
        return {key: observation[key] for key in self._look}

    def layout(self) -> dict[str, float]:
        """Return the simulator's own layout."""
        return layout_of(self._simulator)

    def render(self) -> NDArray[np.uint8]:
        """Return the simulator's own frame."""
        return self._simulator.render()

    def close(self) -> None:
        """Close the simulator."""
        self._simulator.close()

    def _before(self, look: Look) -> Look:
        """Return the simulator's keys that the looked-at ones are made of."""
        if look not in self._needed:
            keys = look
            for step in reversed(self._steps):
                keys = frozenset(before for key in keys for before in step.needs(key))
            self._needed[look] = keys
        return self._needed[look]
