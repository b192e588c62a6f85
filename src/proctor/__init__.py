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
    "BenchmarkError",
    "BenchmarkSpec",
    "ChangedError",
    "CheckResult",
    "Comparison",
    "DamagedError",
    "DatasetConfig",
    "DevicePolicySettings",
    "EnvProcessor",
    "EnvSettings",
    "Episode",
    "EpisodeRecord",
    "EvalConfig",
    "EvalResult",
    "Evaluator",
    "ExitFirstError",
    "Feature",
    "IdentityError",
    "Look",
    "Memory",
    "MoreThan",
    "NoPicturesError",
    "Observation",
    "Outcome",
    "PeftConfig",
    "Policy",
    "PolicyError",
    "PolicyHostError",
    "PolicyLostError",
    "PolicySettings",
    "PolicySpec",
    "ProctorError",
    "Rate",
    "RunError",
    "RunGoneError",
    "RunLockedError",
    "RunOutcome",
    "Simulator",
    "SimulatorError",
    "StoreError",
    "Task",
    "TaskResult",
    "TorchPolicy",
    "TrackedRun",
    "Tracker",
    "UsageError",
    "UserCodeError",
    "WandBConfig",
    "Window",
    "__version__",
    "check_benchmark",
    "close_envs",
    "compare",
    "evaluate",
    "make_env",
    "make_env_config",
    "make_env_pre_post_processors",
]

if TYPE_CHECKING:
    from proctor.api import Evaluator, evaluate
    from proctor.benchmarks.processors import EnvProcessor
    from proctor.benchmarks.protocol import Benchmark, Simulator
    from proctor.blame import UserCodeError
    from proctor.comparison.compare import compare
    from proctor.comparison.result import Comparison
    from proctor.config.lerobot_configs import DatasetConfig, PeftConfig
    from proctor.config.load import make_env_config
    from proctor.config.settings import (
        EXECUTION,
        AtLeast,
        AtMost,
        DevicePolicySettings,
        EnvSettings,
        EvalConfig,
        MoreThan,
        PolicySettings,
        WandBConfig,
    )
    from proctor.conformance.results import CheckResult
    from proctor.conformance.suite import check_benchmark
    from proctor.errors import (
        BenchmarkError,
        ChangedError,
        DamagedError,
        ExitFirstError,
        IdentityError,
        NoPicturesError,
        PolicyError,
        PolicyHostError,
        PolicyLostError,
        ProctorError,
        RunError,
        RunGoneError,
        RunLockedError,
        SimulatorError,
        StoreError,
        UsageError,
    )
    from proctor.eval_result import EvalResult, TaskResult
    from proctor.policies.protocol import Actions, Memory, Policy, PolicySpec, Window
    from proctor.policies.torch_module import TorchPolicy
    from proctor.stats.intervals import Rate
    from proctor.store.schema import EpisodeRecord
    from proctor.trackers.protocol import RunOutcome, TrackedRun, Tracker
    from proctor.types import BenchmarkSpec, Episode, Feature, Look, Observation, Outcome, Task
    from proctor.vector.lerobot_config import make_env_pre_post_processors
    from proctor.vector.make import close_envs, make_env

_HOMES = {
    "proctor.api": "Evaluator evaluate",
    "proctor.benchmarks.processors": "EnvProcessor",
    "proctor.benchmarks.protocol": "Benchmark Simulator",
    "proctor.blame": "UserCodeError",
    "proctor.comparison.compare": "compare",
    "proctor.comparison.result": "Comparison",
    "proctor.config.lerobot_configs": "DatasetConfig PeftConfig",
    "proctor.config.load": "make_env_config",
    "proctor.config.settings": """
        EXECUTION AtLeast AtMost DevicePolicySettings EnvSettings EvalConfig MoreThan PolicySettings WandBConfig
    """,
    "proctor.conformance.results": "CheckResult",
    "proctor.conformance.suite": "check_benchmark",
    "proctor.errors": """
        BenchmarkError ChangedError DamagedError ExitFirstError IdentityError NoPicturesError
        PolicyError PolicyHostError PolicyLostError ProctorError RunError
        RunGoneError RunLockedError SimulatorError StoreError UsageError
    """,
    "proctor.eval_result": "EvalResult TaskResult",
    "proctor.policies.protocol": "Actions Memory Policy PolicySpec Window",
    "proctor.policies.torch_module": "TorchPolicy",
    "proctor.stats.intervals": "Rate",
    "proctor.store.schema": "EpisodeRecord",
    "proctor.trackers.protocol": "RunOutcome TrackedRun Tracker",
    "proctor.types": "BenchmarkSpec Episode Feature Look Observation Outcome Task",
    "proctor.vector.lerobot_config": "make_env_pre_post_processors",
    "proctor.vector.make": "close_envs make_env",
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'proctor' has no attribute '{name}'")
