"""What LeRobot's code asks of an environment's config, answered for our settings: features, pace and processors.

`EnvSettings` has these under LeRobot's names. They follow from the other settings and cannot be set.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from proctor.benchmarks.facts import asking, learn, make_benchmark
from proctor.benchmarks.processors import spec_behind
from proctor.config.plain_values import to_plain
from proctor.config.registry import benchmark_path, load_object
from proctor.config.settings import EnvSettings
from proctor.errors import UsageError, for_python
from proctor.installation import require
from proctor.types import ENVIRONMENT_STATE, BenchmarkSpec

ACTION = "action"


class PlainFeature(NamedTuple):
    """LeRobot's `PolicyFeature` where LeRobot is not installed: the same fields, the type as text."""

    type: str
    shape: tuple[int, ...]


def features(settings: EnvSettings) -> Mapping[str, Any]:
    """Return a `PolicyFeature` for the action and for every part of an observation, as LeRobot's configs do.

    A camera is "pixels"; of several, each is under its policy key, where LeRobot's recorder looks for it.
    """
    spec, _ = _known(settings)
    made = {ACTION: _feature("ACTION", (spec.action_size,))}
    for key, place in features_map(settings).items():
        if key != ACTION:
            feature = spec.features[place]
            kind = "VISUAL" if feature.drawn else "ENV" if place == ENVIRONMENT_STATE else "STATE"
            made[key] = _feature(kind, feature.shape)
    return MappingProxyType(made)


def features_map(settings: EnvSettings) -> Mapping[str, str]:
    """Return the policy's key of every feature."""
    from proctor.vector.spaces import places

    spec, _ = _known(settings)
    placed = places(spec.features)
    keys = {place[0] if len(place) == 1 else key: key for key, place in placed.items()}
    return MappingProxyType({ACTION: ACTION, **keys})


def fps(settings: EnvSettings) -> int:
    """Return the steps a second in the robot's own time."""
    return _known(settings)[1]


def get_env_processors(settings: EnvSettings) -> tuple[Any, Any]:
    """Return LeRobot's pipelines around its policies, both empty: our environments have done what there is to do.

    LeRobot's own `make_env_pre_post_processors` calls this. For a policy that brings steps of its own (X-VLA) it
    does not, and adds LIBERO's step a second time: `proctor.make_env_pre_post_processors` knows better.
    """
    require("LeRobot's processing", "lerobot", "lerobot")
    from lerobot.processor import PolicyProcessorPipeline

    return PolicyProcessorPipeline(steps=[]), PolicyProcessorPipeline(steps=[])


@for_python({"env.": ""})
def make_env_pre_post_processors(env_cfg: EnvSettings, policy_cfg: Any) -> tuple[Any, Any]:
    """Return the two pipelines that LeRobot's `rollout` wants between environments of ours and a policy of its.

    Our environments have passed the benchmark's own processors already, so both are empty unless the policy brings
    steps of its own, as X-VLA does.

    Args:
        env_cfg: what `make_env_config` returns.
        policy_cfg: the config of a LeRobot policy.

    Raises:
        UsageError: LeRobot is not installed, or `env_cfg` is something else.
    """
    if not isinstance(env_cfg, EnvSettings):
        raise UsageError(
            f"env_cfg must be what proctor.make_env_config returns, not {type(env_cfg).__name__}. "
            "For a config of LeRobot's take lerobot.envs.make_env_pre_post_processors."
        )
    require("LeRobot's processing", "lerobot", "lerobot")
    from proctor.policies.lerobot.lane_resources import environment_processors

    return environment_processors(env_cfg.type, policy_cfg)


def named_benchmark(settings: EnvSettings) -> str:
    """Return where the benchmark's class is. Refuses settings that name none."""
    if not settings.type:
        raise UsageError("these settings name no benchmark: make them with proctor.make_env_config(TYPE, ...).")
    return benchmark_path(settings.type)


def _known(settings: EnvSettings) -> tuple[BenchmarkSpec, int]:
    return _asked(named_benchmark(settings), json.dumps(to_plain(settings), sort_keys=True))


@lru_cache(maxsize=16)
def _asked(path: str, plain: str) -> tuple[BenchmarkSpec, int]:
    """Ask once: LeRobot looks at these again and again, and some benchmarks open a simulator to tell."""
    settings = load_object(path).Settings(**json.loads(plain))
    benchmark = make_benchmark(path, settings)
    if benchmark.opens_to_tell:
        facts = learn(path, settings)
        spec, steps_a_second = facts.spec, facts.fps
    else:
        with asking(settings):
            spec, steps_a_second = benchmark.spec, benchmark.fps
    return spec_behind(benchmark.get_env_processors(), spec), steps_a_second


def _feature(kind: str, shape: tuple[int, ...]) -> Any:
    if importlib.util.find_spec("lerobot") is None:
        return PlainFeature(kind, shape)
    from lerobot.configs.types import FeatureType, PolicyFeature

    return PolicyFeature(FeatureType(kind), shape)
