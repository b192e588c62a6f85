"""Whether a run's actions are a policy's own: some of its episodes run again with it, and compared."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proctor.config.flags import merge
from proctor.config.load import build_settings
from proctor.engine.evaluation import evaluate_settings
from proctor.engine.rollout import PolicyView
from proctor.events import Progress, Watcher
from proctor.identity import UNKNOWN, differences
from proctor.machine.scratch import scratch_folder
from proctor.plan import Plan, as_choice
from proctor.replay.differences import EpisodeDifference, Play, difference, first_other_action, first_other_look
from proctor.replay.replayer import settings_of
from proctor.replay.verification import Sample
from proctor.store.bundles import shareable
from proctor.store.stored_run import StoredRun
from proctor.types import EpisodeKey

_NOT_RUN = "could not be run again"
_NO_FINGERPRINT = "its policy has no fingerprint, so nobody can tell whether this is the same one"


@dataclass
class PolicyCheck:
    """What came of running episodes again with a policy.

    Attributes:
        asked: how many were to be run.
        same: how many are the same in all that was compared.
        others: those in which it acts otherwise, though it saw the same until then: they are not its own.
        misled: those in which it saw something else before it acted otherwise, which says nothing of the policy.
        apart: those with its actions that differ in something else.
        failed: those that could not be run, and why.
        pixels: why pictures were not compared; empty if they were, or if the policy saw none.
        elsewhere: in what policy and machine are not those of the run.
        stopped_by: the signal that ended it.
    """

    asked: int
    same: int = 0
    others: list[EpisodeDifference] = field(default_factory=list)
    misled: list[EpisodeDifference] = field(default_factory=list)
    apart: list[EpisodeDifference] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    pixels: str = ""
    elsewhere: tuple[str, ...] = ()
    stopped_by: signal.Signals | None = None

    @property
    def differing(self) -> list[EpisodeDifference]:
        """All that differ in anything."""
        return [*self.others, *self.misled, *self.apart]

    def sample(self, population: int) -> Sample:
        """Return what it says of the actions of all episodes."""
        unproved = {"saw something else first": len(self.misled), _NOT_RUN: len(self.failed)}
        cut_off = self.asked - self.same - len(self.differing) - len(self.failed)
        return Sample(self.asked, population, len(self.others), unproved, cut_off)


class _ProgressAlone(Watcher):
    """Passes progress on, and no notes: they are about a run that nobody asked for."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def progress(self, progress: Progress) -> None:
        """Pass it on."""
        self._watcher.progress(progress)


def check_policy(
    run: StoredRun, plan: Plan, seen: PolicyView, given: Mapping[str, Any], watcher: Watcher
) -> PolicyCheck:
    """Run episodes again with a policy, and say in which it does otherwise than the run.

    Args:
        run: the run.
        plan: some of its episodes, which keep their actions.
        seen: what its policy looked at.
        given: the settings of the policy, and others that hold instead of the run's own.
        watcher: who is told of progress.

    Raises:
        UsageError: the policy cannot be loaded.
        ProctorError: it failed while it ran.
    """
    with scratch_folder("proctor-verify-") as folder:
        tree = merge({**settings_of(run), "only": as_choice(plan)}, dict(given))
        settings = build_settings({**tree, "output_dir": str(folder / "run"), "display": "none"})
        evaluation = evaluate_settings(settings, [_ProgressAlone(watcher)])
        if evaluation.error is not None:
            raise evaluation.error
        found = PolicyCheck(len(plan), stopped_by=evaluation.stopped_by)
        if not evaluation.info:  # stopped before its first episode
            return found
        again = StoredRun.open(evaluation.directory)
        found.elsewhere = _elsewhere(run, again)
        before, now = run.identity.get("renderer"), again.identity["renderer"]
        if seen.drawn and before != now:
            found.pixels = f"they were drawn by {before}, and here is {now}"
        for record in again.records:
            _judge(run, again, record.key, seen, found)
    return found


def _judge(run: StoredRun, again: StoredRun, key: EpisodeKey, seen: PolicyView, found: PolicyCheck) -> None:
    stored, now = _play(run, key), _play(again, key)
    if stored is None or now is None:
        (record,) = again.find([key])
        why = record.error or "it made too many steps for its actions to be kept"
        found.failed.append(f"{record.task} episode {key.episode_index}: {why}")
        return
    other = difference(stored, now, seen, seen, pixels=not found.pixels)
    act = first_other_action(stored.trajectory, now.trajectory)
    look = first_other_look(stored.trajectory, now.trajectory, seen, seen) if _looks_alike(run, again) else None
    if other is None:
        found.same += 1
    elif act is None:
        found.apart.append(other)
    elif look is not None and look.step <= act.step:
        found.misled.append(EpisodeDifference(other.task, other.index, look))
    else:
        found.others.append(EpisodeDifference(other.task, other.index, act))


def _looks_alike(run: StoredRun, again: StoredRun) -> bool:
    """Whether both policies look at the same, so that what they saw can be compared look by look."""
    names = ("observation_keys", "observation_offsets", "action_steps", "env_processors")
    return all(getattr(run.policy_spec, name) == getattr(again.policy_spec, name) for name in names)


def _play(run: StoredRun, key: EpisodeKey) -> Play | None:
    with run.table() as table:
        (record,), trajectory = table.find([key]), table.trajectory(key)
    return None if trajectory is None else Play(record, trajectory)


def _elsewhere(run: StoredRun, again: StoredRun) -> tuple[str, ...]:
    """Say in what the policy, its versions, the renderer and the machine are not those of the run."""
    named = []
    # Paths by their last part, as a bundle has them.
    for name, before, now in differences(shareable(run.identity), shareable(again.identity)):
        if name == "policy.fingerprint" and UNKNOWN in before and UNKNOWN in now:
            named.append(_NO_FINGERPRINT)
        else:
            named.append(f"{name}: {before} in the run, {now} here")
    return tuple(named)
