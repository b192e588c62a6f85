"""`proctor.check_benchmark`: the conformance suite from Python, for a benchmark's own tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proctor.config.load import build_settings
from proctor.conformance.results import CheckResult
from proctor.conformance.score import ALL, Extent
from proctor.conformance.suite import run_suite
from proctor.errors import UsageError


def check_benchmark(
    benchmark: str,
    *,
    env: Mapping[str, Any] | None = None,
    policy: str | Mapping[str, Any] | None = None,
    tasks: str | Sequence[str] = (),
    episodes: int = 2,
    steps: int = 20,
    seed: int = 1000,
) -> list[CheckResult]:
    """Play a benchmark in processes of its own and return whether it keeps its contract, check by check.

    In a test: `assert not [result for result in proctor.check_benchmark("mine") if not result.ok]`.

    Args:
        benchmark: its name, `module:Class` or `file.py:Class`.
        env: its own settings, such as `{"task": "reach-v3"}`.
        policy: one that can do its tasks, to see what follows a success: a name, `file.py:Name` or `module:Name`,
            or its settings. By default the scripted expert, where there is one.
        tasks: names of tasks, or "all"; by default three, of different groups where there are groups.
        episodes: how many different episodes of each.
        steps: how many steps of each are compared.
        seed: episode i has seed + i.

    Raises:
        UsageError: the benchmark cannot be checked here: unknown, not installed, or nothing draws.
    """
    if isinstance(policy, str):
        policy = {"path" if ":" in policy else "type": policy}
    names = [name.strip() for name in (tasks.split(",") if isinstance(tasks, str) else tasks) if name.strip()]
    extent = Extent(names, episodes=episodes, steps=steps, seed=seed)
    return check_tree({**(env or {}), "type": benchmark}, policy, extent, lambda words: None)


def check_tree(
    env: Mapping[str, Any], policy: Mapping[str, Any] | None, extent: Extent, tell: Callable[[str], None]
) -> list[CheckResult]:
    """Validate settings as a run would, and run the suite."""
    for name, value, least in (("episodes", extent.episodes, 2), ("steps", extent.steps, 4)):
        if value < least:
            raise UsageError(f"--{name}={value}: must be at least {least}.")
    if ALL in extent.tasks and len(extent.tasks) > 1:
        raise UsageError(f"--tasks: '{ALL}' stands alone.")
    settings = build_settings({"env": dict(env), "policy": dict(policy or {"type": "zero"})})
    return run_suite(settings.env, settings.policy if policy else None, extent, tell)
