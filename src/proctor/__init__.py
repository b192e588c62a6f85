"""Proctor evaluates robot policies in simulation: fast, fair, reproducible.

    import proctor

    result = proctor.evaluate("expert", benchmark="metaworld", task="reach-v3", n_episodes=10)
    print(result.success_rate)

Names are imported when first used: a worker that imports `proctor` must start in tenths of a second.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "EXECUTION",
    "Actions",
    "AtLeast",
    "AtMost",
    "Benchmark",
    "BenchmarkSpec",
    "CheckResult",
    "Comparison",
    "EnvProcessor",
    "EnvSettings",
    "Episode",
    "EpisodeRecord",
    "EvalResult",
    "Feature",
    "Look",
    "MoreThan",
    "Observation",
    "Outcome",
    "Policy",
    "PolicySettings",
    "PolicySpec",
    "ProctorError",
    "Rate",
    "Simulator",
    "Task",
    "Tracker",
    "UsageError",
    "__version__",
    "check_benchmark",
    "compare",
    "evaluate",
    "make_env",
    "make_env_config",
]

_HOME = {
    "Actions": "proctor.policies.protocol",
    "AtLeast": "proctor.config.settings",
    "AtMost": "proctor.config.settings",
    "Benchmark": "proctor.benchmarks.protocol",
    "BenchmarkSpec": "proctor.types",
    "CheckResult": "proctor.conformance.results",
    "EXECUTION": "proctor.config.settings",
    "Comparison": "proctor.comparison.result",
    "EnvProcessor": "proctor.benchmarks.processors",
    "EnvSettings": "proctor.config.settings",
    "Episode": "proctor.types",
    "EpisodeRecord": "proctor.store.schema",
    "EvalResult": "proctor.api",
    "Feature": "proctor.types",
    "Look": "proctor.types",
    "MoreThan": "proctor.config.settings",
    "Observation": "proctor.types",
    "Outcome": "proctor.types",
    "Policy": "proctor.policies.protocol",
    "PolicySettings": "proctor.config.settings",
    "PolicySpec": "proctor.policies.protocol",
    "ProctorError": "proctor.errors",
    "Rate": "proctor.stats.intervals",
    "Simulator": "proctor.benchmarks.protocol",
    "Task": "proctor.types",
    "Tracker": "proctor.trackers.protocol",
    "UsageError": "proctor.errors",
    "check_benchmark": "proctor.conformance.suite",
    "compare": "proctor.comparison.compare",
    "evaluate": "proctor.api",
    "make_env": "proctor.vector.make",
    "make_env_config": "proctor.config.load",
}

if TYPE_CHECKING:
    from proctor.api import EvalResult as EvalResult
    from proctor.api import evaluate as evaluate
    from proctor.benchmarks.processors import EnvProcessor as EnvProcessor
    from proctor.benchmarks.protocol import Benchmark as Benchmark
    from proctor.benchmarks.protocol import Simulator as Simulator
    from proctor.comparison.compare import compare as compare
    from proctor.comparison.result import Comparison as Comparison
    from proctor.config.load import make_env_config as make_env_config
    from proctor.config.settings import EXECUTION as EXECUTION
    from proctor.config.settings import AtLeast as AtLeast
    from proctor.config.settings import AtMost as AtMost
    from proctor.config.settings import EnvSettings as EnvSettings
    from proctor.config.settings import MoreThan as MoreThan
    from proctor.config.settings import PolicySettings as PolicySettings
    from proctor.conformance.results import CheckResult as CheckResult
    from proctor.conformance.suite import check_benchmark as check_benchmark
    from proctor.errors import ProctorError as ProctorError
    from proctor.errors import UsageError as UsageError
    from proctor.policies.protocol import Actions as Actions
    from proctor.policies.protocol import Policy as Policy
    from proctor.policies.protocol import PolicySpec as PolicySpec
    from proctor.stats.intervals import Rate as Rate
    from proctor.store.schema import EpisodeRecord as EpisodeRecord
    from proctor.trackers.protocol import Tracker as Tracker
    from proctor.types import BenchmarkSpec as BenchmarkSpec
    from proctor.types import Episode as Episode
    from proctor.types import Feature as Feature
    from proctor.types import Look as Look
    from proctor.types import Observation as Observation
    from proctor.types import Outcome as Outcome
    from proctor.types import Task as Task
    from proctor.vector.make import make_env as make_env


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'proctor' has no attribute '{name}'")
