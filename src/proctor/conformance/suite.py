"""The whole suite: learn what there is, have it played, compare."""

from __future__ import annotations

from collections.abc import Callable

from proctor.benchmarks.rendering import NO_GL, find_renderer
from proctor.blame import UserCodeError
from proctor.config.settings import EnvSettings, PolicySettings
from proctor.config.wire import to_plain
from proctor.conformance.claims import check_claims
from proctor.conformance.comparisons import check_comparisons, check_seeds, compare
from proctor.conformance.contract import check_contract
from proctor.conformance.drawing import check_drawing
from proctor.conformance.endings import check_endings
from proctor.conformance.lifetime import check_lifetime
from proctor.conformance.player import PlayerBoot
from proctor.conformance.playing import PlayerRecipe, perform
from proctor.conformance.results import CheckResult
from proctor.conformance.score import Extent, compose
from proctor.conformance.subject import Subject, meet
from proctor.errors import NoPicturesError
from proctor.machine.cores import usable_cores
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
        seen = perform(programmes, recipe, min(usable_cores(), _MOST_PLAYERS), tell)
    if seen.unable or not seen.introductions:
        remedy = "the benchmark cannot be made in a worker; its settings arrive there as plain values"
        return [CheckResult("imports", "failed", seen.unable, remedy)]
    verdicts = compare(subject, seen)
    return [
        *check_claims(subject, seen),
        *check_contract(subject, seen),
        *check_comparisons(subject, verdicts, no_frames or seen.introductions[0].no_frames),
        check_seeds(subject, seen),
        check_drawing(subject, seen),
        *check_endings(subject, seen, verdicts),
        check_lifetime(seen, extent.rounds),
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
