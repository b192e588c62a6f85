"""The conformance suite: learn what there is, have it played, compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proctor.benchmarks.rendering import NO_GL, find_renderer
from proctor.blame import UserCodeError
from proctor.config.load import build_settings
from proctor.config.plain_values import to_plain
from proctor.config.settings import EnvSettings, PolicySettings
from proctor.conformance.checks import check_claims, check_contract, check_drawing, check_lifetime
from proctor.conformance.comparisons import check_comparisons, check_endings, check_replay, check_seeds, compare
from proctor.conformance.player import PlayerBoot
from proctor.conformance.players import PlayerRecipe, perform
from proctor.conformance.results import CheckResult
from proctor.conformance.schedule import ALL, Extent, compose
from proctor.conformance.subject import Subject, meet
from proctor.errors import NoPicturesError, UsageError, for_python
from proctor.machine.resources import usable_cores
from proctor.machine.scratch import scratch_folder

_MOST_PLAYERS = 4
"""A player that draws takes as much memory as a worker."""


def run_suite(
    settings: EnvSettings, policy: PolicySettings | None, extent: Extent, tell: Callable[[str], None]
) -> list[CheckResult]:
    """Check a benchmark under these settings and return what was found.

    Args:
        settings: the benchmark and its own settings.
        policy: one that can do its tasks, for what comes after a success; `None`: the expert, if there is one.
        extent: how much is played.
        tell: who is told how far it has come.

    Raises:
        UsageError: it cannot be checked: unknown, not installed, or nothing draws here.
    """
    tell("asking the benchmark")
    try:
        subject = meet(settings, policy, extent)
    except UserCodeError as error:
        cause = error.__cause__ or error
        words = f"asking the benchmark raised {type(cause).__name__}: {' '.join(str(cause).split())}"
        return [
            CheckResult("tasks", "failed", words, "the object, tasks() and spec must work from the settings alone")
        ]
    environment, no_frames = _environment(subject)
    programmes = compose(
        len(subject.tasks),
        extent,
        by_policy=subject.policy is not None,
        film=not no_frames,
        clips=subject.facts.spec.clips_actions,
    )
    with scratch_folder("proctor-check-") as logs:
        boot = PlayerBoot(
            benchmark=subject.path,
            env=to_plain(subject.settings),
            tasks=[task.to_wire() for task in subject.tasks],
            seed=extent.seed,
            policy=subject.policy,
            policy_settings=to_plain(subject.policy_settings) if subject.policy_settings is not None else None,
        )
        recipe = PlayerRecipe(boot, logs, environment, subject.settings.python)
        reports = perform(programmes, recipe, min(usable_cores(), _MOST_PLAYERS), tell)
    if reports.unable or not reports.self_reports:
        remedy = "the benchmark cannot be made in a worker; its settings arrive there as plain values"
        return [CheckResult("imports", "failed", reports.unable, remedy)]
    verdicts = compare(subject, reports)
    no_frames = no_frames or reports.self_reports[0].no_frames
    return [
        *check_claims(subject, reports),
        *check_contract(subject, reports),
        *check_comparisons(subject, verdicts, no_frames),
        check_replay(subject, verdicts, no_frames),
        check_seeds(subject, reports),
        check_drawing(subject, reports),
        *check_endings(subject, reports, verdicts),
        check_lifetime(reports, extent.rounds),
    ]


def _environment(subject: Subject) -> tuple[dict[str, str], str]:
    """Return what makes players draw, where the benchmark draws by GL, and why frames are left out if they are."""
    if not subject.uses_gl:
        return {}, ""
    try:
        return find_renderer(subject.settings.python).env, ""
    except NoPicturesError as error:
        if any(feature.drawn for feature in subject.facts.spec.every.values()):
            raise
        return NO_GL, str(error)


_ARGUMENTS = {name: name for name in ("tasks", "episodes", "steps", "seed")} | {
    "env.type": "benchmark",
    "policy.path": "policy",
    "policy.type": "policy",
}


@for_python(_ARGUMENTS)
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
