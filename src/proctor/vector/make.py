"""`proctor.make_env`: from settings, a benchmark's name or a hub id to vector environments, and their end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from proctor.benchmarks.facts import learn, make_benchmark
from proctor.benchmarks.processors import spec_behind
from proctor.config.plain_values import to_plain
from proctor.config.settings import EnvSettings
from proctor.errors import UsageError, for_python
from proctor.installation import require
from proctor.machine.resources import usable_cores
from proctor.vector.hub import make_hub_env, parse_hub_id
from proctor.vector.lerobot_config import named_benchmark

NEXT_STEP = "NextStep"
"""The mode unless said otherwise, which is Gymnasium's own, and LeRobot's for Meta-World and LIBERO: an episode's
last observation and frame are seen, and the next step of that environment is its reset."""

VectorEnvs = dict[str, dict[int, Any]]
"""A `gymnasium.vector.VectorEnv` per task: {group: {task_id: environment}}."""


@for_python({"env.": ""})
def make_env(
    config_or_type: EnvSettings | str,
    n_envs: int = 1,
    use_async_envs: bool = False,
    hub_cache_dir: str | None = None,
    trust_remote_code: bool = False,
    *,
    autoreset_mode: Any = NEXT_STEP,
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
        autoreset_mode: Gymnasium's `AutoresetMode`, or its text: "NextStep", "SameStep" or "Disabled".

    Raises:
        ProctorError: a name, task or number cannot work, or a package is missing; says what to do.
    """
    _check_gymnasium()
    n_envs = batch_size(n_envs)
    hub_path = config_or_type if isinstance(config_or_type, str) else getattr(config_or_type, "hub_path", None)
    where = parse_hub_id(hub_path) if isinstance(hub_path, str) else None
    if where is not None:
        if _autoreset_mode(autoreset_mode).value != NEXT_STEP:
            raise UsageError(f"autoreset_mode={autoreset_mode}: {where} makes its environments as it likes.")
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
    return config_or_type.create_envs(n_envs, use_async_envs, autoreset_mode)


@for_python({"env.": ""})
def create_envs(
    settings: EnvSettings, n_envs: int, use_async_envs: bool = False, autoreset_mode: Any = NEXT_STEP
) -> VectorEnvs:
    """Return a vector environment for every task of the settings. `EnvSettings.create_envs` is this."""
    _check_gymnasium()
    n_envs = batch_size(n_envs)
    path = named_benchmark(settings)
    if settings.python is not None:
        raise UsageError(
            "env.python: vector environments run in this interpreter. Leave it out, or use proctor.evaluate."
        )
    facts = learn(path, settings)
    benchmark = make_benchmark(path, settings)
    spec = spec_behind(benchmark.get_env_processors(), facts.spec)
    from proctor.vector.env import EnvFactory
    from proctor.vector.vector_env import AsyncSimulators, SyncSimulators

    mode = _autoreset_mode(autoreset_mode)
    kind = AsyncSimulators if use_async_envs and n_envs > 1 else SyncSimulators
    made: VectorEnvs = {}
    for task in facts.tasks:
        # Settings as plain values: their class may be in a file that a worker cannot import by name.
        recipe = (path, to_plain(settings), spec, task)
        envs = made.setdefault(task.group, {})
        envs[task.task_id] = kind([EnvFactory(*recipe, place, n_envs) for place in range(n_envs)], mode)
    return made


def close_envs(envs: Any) -> None:
    """Close an environment, or all in a dict or list of them at any depth, such as `make_env` returns.

    All are closed, whatever one of them raises; the first error is raised after that.

    Raises:
        UsageError: something among them is no environment; nothing was closed then.
    """
    errors: list[Exception] = []
    for env in list(_each(envs)):
        try:
            env.close()
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _each(envs: Any) -> Iterator[Any]:
    if isinstance(envs, Mapping | list | tuple):
        for part in envs.values() if isinstance(envs, Mapping) else envs:
            yield from _each(part)
    elif callable(getattr(envs, "close", None)):
        yield envs
    else:
        raise UsageError(f"close_envs takes environments, or a dict or list of them, not {type(envs).__name__}.")


def _check_gymnasium() -> None:
    require("a vector environment", "vector", "gymnasium")


def _autoreset_mode(asked: Any) -> Any:
    from gymnasium.vector import AutoresetMode

    try:
        return AutoresetMode(asked)
    except ValueError:
        known = ", ".join(mode.value for mode in AutoresetMode)
        raise UsageError(f"autoreset_mode={asked}: must be one of {known}.") from None


_MOST = 64


def batch_size(n_envs: int) -> int:
    """Return how many environments to make: what was asked for, or by LeRobot's rule if 0 were.

    >>> batch_size(100)
    100
    """
    if not isinstance(n_envs, int) or n_envs < 0:
        raise UsageError(f"n_envs={n_envs}: must be at least 1, or 0 for as many as the cores make useful.")
    # A core for each, and some left for the policy.
    return n_envs or min(max(1, math.floor(0.7 * usable_cores())), _MOST)
