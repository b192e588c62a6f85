"""A benchmark with processors of its own, and policies that want others or none; see test_processors.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor import BenchmarkSpec, EnvProcessor, Feature, Observation
from tiny import IMAGE, STATE, Tiny

SUM = "observation.sum"


class SumAndMirror(EnvProcessor):
    """Adds the state's sum, turns pictures by half a turn, and takes one number as action."""

    def spec(self, given: BenchmarkSpec) -> BenchmarkSpec:
        return dataclasses.replace(
            given, features={**given.features, SUM: Feature((1,), "float64")}, action_size=1
        )

    def needs(self, key: str) -> Sequence[str]:
        return (STATE,) if key == SUM else (key,)

    def observation(self, observation: Observation) -> Observation:
        changed = dict(observation)
        if STATE in changed:
            changed[SUM] = changed[STATE].sum(keepdims=True)
        if IMAGE in changed:
            changed[IMAGE] = np.ascontiguousarray(changed[IMAGE][::-1, ::-1])
        return changed

    def action(self, action: NDArray[Any]) -> NDArray[Any]:
        return np.repeat(action, 2)


class Doubled(EnvProcessor):
    def observation(self, observation: Observation) -> Observation:
        return {key: 2 * value if key in (STATE, SUM) else value for key, value in observation.items()}


class ProcessedTiny(Tiny):
    def get_env_processors(self) -> Sequence[EnvProcessor]:
        return [SumAndMirror(), Doubled()]


class Follows:
    """Acts on the sum, which only the benchmark's own processor gives."""

    observation_keys = (SUM, IMAGE)

    def act(self, observation: Observation) -> NDArray[Any]:
        return np.array([observation[SUM][0] + observation[IMAGE][0, 0, 0] / 255])


class WithoutAny:
    """Wants the simulator as it is."""

    observation_keys = (STATE,)
    env_processors: tuple[type[EnvProcessor], ...] = ()

    def act(self, observation: Observation) -> NDArray[Any]:
        return np.asarray(observation[STATE][:2])


class WithItsOwn(WithoutAny):
    """Wants one of the two, which it names by its class."""

    env_processors = (Doubled,)
