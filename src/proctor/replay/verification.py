"""Whether a run is what it says: a sample of its episodes, replayed, and run again with its policy."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np

from proctor.config.flags import merge
from proctor.config.load import build_settings
from proctor.engine.evaluation import evaluate_settings
from proctor.engine.rollout import PolicyView
from proctor.errors import RunError, UsageError
from proctor.events import Watcher
from proctor.machine.scratch import scratch_folder
from proctor.plan import Plan, as_choice
from proctor.replay.differences import EpisodeDifference, Play, difference
from proctor.replay.replayer import settings_of
from proctor.stats.sampling import most_bad
from proctor.store.stored_run import StoredRun
from proctor.types import EpisodeKey

CONFIDENCE = 0.95


def new_seed() -> int:
    """Return a seed that nobody can have known when the run was made: the system's own randomness."""
    return secrets.randbits(63)


def draw(plan: Plan, size: int, seed: int) -> Plan:
    """Return a random sample of a plan's episodes, each as likely as any other; all if there are no more."""
    if size >= len(plan):
        return plan
    places = np.random.default_rng(seed).choice(len(plan), size, replace=False)
    return plan.at(np.sort(places).astype(np.int64))


def statement(differing: int, sample: int, population: int) -> str:
    """Say what a sample of which some differ proves of all episodes, and no more.

    >>> statement(0, 59, 500)
    '0 of 59 differ: with 95 % confidence fewer than 4.8 % of 500 episodes do'
    >>> statement(0, 12, 12)
    '0 of 12 differ: these are all episodes'
    """
    if differing:
        return f"{differing} of {sample} differ"
    if sample == population:
        return f"0 of {sample} differ: these are all episodes"
    share = (most_bad(0, sample, population, CONFIDENCE) + 1) / population
    return (
        f"0 of {sample} differ: with {100 * CONFIDENCE:.0f} % confidence fewer than {100 * share:.1f} % "
        f"of {population} episodes do"
    )


def policy_differences(
    run: StoredRun, plan: Plan, seen: PolicyView, given: Mapping[str, Any], watcher: Watcher
) -> list[EpisodeDifference]:
    """Run episodes again with a policy, and say in which it does otherwise than the run.

    Args:
        run: the run.
        plan: some of its episodes.
        seen: what its policy looked at.
        given: the settings of the policy, and others that hold instead of the run's own.
        watcher: who is told of progress.

    Raises:
        UsageError: the policy cannot be loaded.
        RunError: it could not be run to the end.
    """
    with scratch_folder("proctor-verify-") as folder:
        tree = merge({**settings_of(run), "only": as_choice(plan)}, dict(given))
        settings = build_settings({**tree, "output_dir": str(folder / "run"), "display": "none"})
        evaluation = evaluate_settings(settings, [watcher])
        if evaluation.error is not None:
            raise evaluation.error
        again = StoredRun.open(evaluation.directory)
        if not again.complete or again.ended.errors:
            raise RunError("the policy's episodes could not all be run, so nothing is said of its actions.")
        plays = ((_play(run, episode.key), _play(again, episode.key)) for episode in plan)
        found = (difference(stored, now, seen, seen) for stored, now in plays)
        return [one for one in found if one is not None]


def _play(run: StoredRun, key: EpisodeKey) -> Play:
    with run.table() as table:
        (record,) = table.find([key])
        trajectory = table.trajectory(key)
    if trajectory is None:
        raise UsageError(f"{run.path}: {key.group} episode {key.episode_index} has no stored actions.")
    return Play(record, trajectory)
