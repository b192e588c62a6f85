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
    "Actions",
    "Benchmark",
    "BenchmarkSpec",
    "EnvProcessor",
    "Episode",
    "EpisodeRecord",
    "EvalResult",
    "Feature",
    "Observation",
    "Outcome",
    "Policy",
    "PolicySpec",
    "ProctorError",
    "Rate",
    "Simulator",
    "Task",
    "Tracker",
    "__version__",
    "evaluate",
]

_HOME = {
    "Actions": "proctor.policies.protocol",
    "Benchmark": "proctor.benchmarks.protocol",
    "BenchmarkSpec": "proctor.benchmarks.protocol",
    "EnvProcessor": "proctor.benchmarks.processors",
    "Episode": "proctor.benchmarks.protocol",
    "EpisodeRecord": "proctor.store.records",
    "EvalResult": "proctor.api",
    "Feature": "proctor.benchmarks.protocol",
    "Observation": "proctor.benchmarks.protocol",
    "Outcome": "proctor.benchmarks.protocol",
    "Policy": "proctor.policies.protocol",
    "PolicySpec": "proctor.policies.protocol",
    "ProctorError": "proctor.errors",
    "Rate": "proctor.stats.intervals",
    "Simulator": "proctor.benchmarks.protocol",
    "Task": "proctor.benchmarks.protocol",
    "Tracker": "proctor.trackers.protocol",
    "evaluate": "proctor.api",
}

if TYPE_CHECKING:
    from proctor.api import EvalResult as EvalResult
    from proctor.api import evaluate as evaluate
    from proctor.benchmarks.processors import EnvProcessor as EnvProcessor
    from proctor.benchmarks.protocol import Benchmark as Benchmark
    from proctor.benchmarks.protocol import BenchmarkSpec as BenchmarkSpec
    from proctor.benchmarks.protocol import Episode as Episode
    from proctor.benchmarks.protocol import Feature as Feature
    from proctor.benchmarks.protocol import Observation as Observation
    from proctor.benchmarks.protocol import Outcome as Outcome
    from proctor.benchmarks.protocol import Simulator as Simulator
    from proctor.benchmarks.protocol import Task as Task
    from proctor.errors import ProctorError as ProctorError
    from proctor.policies.protocol import Actions as Actions
    from proctor.policies.protocol import Policy as Policy
    from proctor.policies.protocol import PolicySpec as PolicySpec
    from proctor.stats.intervals import Rate as Rate
    from proctor.store.records import EpisodeRecord as EpisodeRecord
    from proctor.trackers.protocol import Tracker as Tracker


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'proctor' has no attribute '{name}'")
