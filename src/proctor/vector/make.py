"""`proctor.make_env`: from settings, a benchmark's name or a hub id to vector environments."""

from __future__ import annotations

import math
from typing import Any

from proctor.benchmarks.facts import learn, make_benchmark
from proctor.benchmarks.processors import spec_behind
from proctor.config.plain_values import to_plain
from proctor.config.registry import benchmark_path
from proctor.config.settings import EnvSettings
from proctor.errors import UsageError, for_python
from proctor.installation import require
from proctor.machine.resources import usable_cores
from proctor.vector.hub import make_hub_env, parse_hub_id

VectorEnvs = dict[str, dict[int, Any]]
"""A `gymnasium.vector.VectorEnv` per task: {group: {task_id: environment}}."""


@for_python({"env.": ""})
def make_env(
    config_or_type: EnvSettings | str,
    n_envs: int = 1,
    use_async_envs: bool = False,
    hub_cache_dir: str | None = None,
    trust_remote_code: bool = False,
) -> VectorEnvs:
    """Return a `gymnasium.vector.VectorEnv` for every task: {group: {task_id: environment}}.

    Nothing is started: the first `reset` of an environment builds its simulators, `close` frees them.

    Args:
        config_or_type: what `make_env_config` returns, the name of a benchmark that needs no more than that, or
            a hub id `user/repo[@revision][:path.py]` whose file has a `make_env` of its own.
        n_envs: environments per task; 0: as many as the cores make useful (LeRobot's rule).
        use_async_envs: a process for each environment. One alone is always in this process.
        hub_cache_dir: where files from the hub are kept.
        trust_remote_code: run code from the hub. Read it first.

    Raises:
        ProctorError: a name, task or number cannot work, or a package is missing; says what to do.
    """
    _check_gymnasium()
    n_envs = batch_size(n_envs)
    hub_path = config_or_type if isinstance(config_or_type, str) else getattr(config_or_type, "hub_path", None)
    where = parse_hub_id(hub_path) if isinstance(hub_path, str) else None
    if where is not None:
        config = None if isinstance(config_or_type, str) else config_or_type
        return make_hub_env(where, n_envs, use_async_envs, config, hub_cache_dir, trust_remote_code)
    if isinstance(config_or_type, str):
        from proctor.config.load import make_env_config  # here: it brings pydantic along

        config_or_type = make_env_config(config_or_type)
    if not isinstance(config_or_type, EnvSettings):
        raise UsageError(
            f"make_env takes a benchmark's name, a hub id, or what proctor.make_env_config returns, "
            f"not {type(config_or_type).__name__}."
        )
    return config_or_type.create_envs(n_envs, use_async_envs)


def create_envs(settings: EnvSettings, n_envs: int, use_async_envs: bool = False) -> VectorEnvs:
    """Return a vector environment for every task of the settings. `EnvSettings.create_envs` is this."""
    _check_gymnasium()
    n_envs = batch_size(n_envs)
    if not settings.type:
        raise UsageError("these settings name no benchmark: make them with proctor.make_env_config(TYPE, ...).")
    if settings.python is not None:
        raise UsageError(
            "env.python: vector environments run in this interpreter. Leave it out, or use proctor.evaluate."
        )
    path = benchmark_path(settings.type)
    facts = learn(path, settings)
    benchmark = make_benchmark(path, settings)
    spec = spec_behind(benchmark.get_env_processors(), facts.spec)
    from proctor.vector.env import EnvFactory
    from proctor.vector.vector_env import AsyncSimulators, SyncSimulators

    kind = AsyncSimulators if use_async_envs and n_envs > 1 else SyncSimulators
    made: VectorEnvs = {}
    for task in facts.tasks:
        # Settings as plain values: their class may be in a file that a worker cannot import by name.
        recipe = (path, to_plain(settings), spec, task)
        envs = made.setdefault(task.group, {})
        envs[task.task_id] = kind([EnvFactory(*recipe, place, n_envs) for place in range(n_envs)])
    return made


def _check_gymnasium() -> None:
    require("a vector environment", "vector", "gymnasium")


_MOST = 64


def batch_size(n_envs: int, n_episodes: int | None = None, cores: int | None = None) -> int:
    """Return how many environments to make: what was asked for, or by the cores if 0 were; at most the episodes.

    >>> batch_size(0, n_episodes=50, cores=16)
    11
    >>> batch_size(0, n_episodes=5, cores=16)
    5
    >>> batch_size(0, cores=1), batch_size(0, cores=500), batch_size(100)
    (1, 64, 100)
    """
    if n_envs < 0:
        raise UsageError(f"n_envs={n_envs}: must be at least 1, or 0 for as many as the cores make useful.")
    if n_episodes is not None and n_episodes < 1:
        raise UsageError(f"n_episodes={n_episodes}: must be at least 1.")
    if n_envs == 0:
        # A core for each, and some left for the policy.
        n_envs = min(max(1, math.floor(0.7 * (cores or usable_cores()))), _MOST)
    return n_envs if n_episodes is None else min(n_envs, n_episodes)
