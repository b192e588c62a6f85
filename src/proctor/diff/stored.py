"""Two stored results beside each other: which episodes are the same, and where those that are not part."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from proctor.comparison.compare import differing
from proctor.comparison.pairing import shared_tasks
from proctor.comparison.result import Circumstance
from proctor.diff.sources import HarnessEpisode, HarnessResult, HarnessTask
from proctor.engine.rollout import PolicyView
from proctor.errors import UsageError
from proctor.identity import Identity, differences
from proctor.plan import spans
from proctor.replay.differences import Play, StepDifference, difference
from proctor.store.bundles import shareable
from proctor.store.schema import EpisodeRecord
from proctor.store.stored_run import StoredRun
from proctor.types import BenchmarkSpec, Task

Rewards = Literal["equal", "rounding", "different", "unknown"]

_POLICY = ("policy", "rename_map", "seed")
"""What `proctor compare` expects to differ, and a reader of `diff` does not."""


def compare_sums(first: float | None, second: float | None, steps: int | None) -> Rewards:
    """Say whether two sums of an episode's rewards are equal, or differ by the order of adding alone.

    Ours is exact (`math.fsum`), LeRobot's torch's: adding n numbers moves a sum by at most n units in
    its last place.

    >>> compare_sums(1.0, 1.0 + 2**-52, 10), compare_sums(1.0, 1.1, 10)
    ('rounding', 'different')
    """
    if first is None or second is None:
        return "unknown"
    if first == second:
        return "equal"
    near = max(abs(first), abs(second)) * sys.float_info.epsilon * max(1, steps or 1)
    return "rounding" if abs(first - second) <= near else "different"


class EpisodePair(NamedTuple):
    """An episode that both results have."""

    task: str
    first: HarnessEpisode
    second: HarnessEpisode
    rewards: Rewards
    where: StepDifference | None = None
    """The first step and field in which they differ, where both kept their trajectories."""

    @property
    def same_success(self) -> bool:
        """Whether both say the same of its success, as far as they say anything."""
        return None in (self.first.success, self.second.success) or self.first.success == self.second.success

    @property
    def same_bits(self) -> bool | None:
        """Whether both digests are equal; `None` where one side has none."""
        records = self.first.record, self.second.record
        if records[0] is None or records[1] is None or None in (records[0].digest, records[1].digest):
            return None
        return records[0].digests == records[1].digests

    @property
    def same(self) -> bool:
        """Whether nothing differs that both say."""
        if self.first.error or self.second.error:
            return self.first.error == self.second.error
        if self.same_bits is not None:
            return self.same_bits
        return self.same_success and self.rewards != "different"


@dataclass(frozen=True)
class TaskDiff:
    """One task in both results."""

    name: str
    first: HarnessTask
    second: HarnessTask
    pairs: Sequence[EpisodePair]
    only_first: Sequence[int]
    only_second: Sequence[int]


@dataclass(frozen=True)
class StoredDiff:
    """Two results beside each other."""

    first: HarnessResult
    second: HarnessResult
    tasks: Sequence[TaskDiff]
    settings: Sequence[Circumstance]
    paired_by: str
    unpaired: Sequence[str]
    """What has no counterpart, and why."""
    notes: Sequence[str] = field(default_factory=list)

    @property
    def pairs(self) -> list[EpisodePair]:
        """All episodes that both have."""
        return [pair for task in self.tasks for pair in task.pairs]

    @property
    def differing(self) -> list[EpisodePair]:
        """Those of them that are not the same."""
        return [pair for pair in self.pairs if not pair.same]

    @property
    def same(self) -> bool:
        """Whether both have the same episodes, and each is the same."""
        return not self.differing and not self.unpaired


def diff_results(first: HarnessResult, second: HarnessResult) -> StoredDiff:
    """Put a run beside another result.

    Args:
        first: a run of Proctor's.
        second: any result.

    Raises:
        UsageError: they have no episode in common.
    """
    assert first.run is not None, "one side is a run of ours"
    seeds = first.settings.get("seed"), second.settings.get("seed")
    if second.run is not None and seeds[0] != seeds[1]:
        raise UsageError(
            f"{first.shown} and {second.shown} have no episode in common: their seeds are {seeds[0]} and "
            f"{seeds[1]}. Run both with the same --seed."
        )
    tasks = [_diff_task(name, *both) for name, both in _matched(first, second).items()]
    if not any(task.pairs for task in tasks):
        raise UsageError(f"{first.shown} and {second.shown} have no task and episode in common.")
    if second.run is not None:
        tasks = list(_with_steps(tasks, first.run, second.run))
    matched = {id(side) for task in tasks for side in (task.first, task.second)}
    alone = [
        f"{name} alone has the task {task.name}"
        for name, result in (("A", first), ("B", second))
        for task in result.tasks
        if id(task) not in matched and task.episodes
    ]
    return StoredDiff(
        first,
        second,
        tasks,
        _settings(first, second),
        _pairing(second),
        [*alone, *_only(tasks)],
        _seed_notes(tasks) if second.run is None else (),
    )


def _matched(first: HarnessResult, second: HarnessResult) -> dict[str, tuple[HarnessTask, HarnessTask]]:
    if first.run is not None and second.run is not None:
        shared = shared_tasks(first.run.tasks, second.run.tasks)
        return {name: (first.tasks[ours[0]], second.tasks[theirs[0]]) for name, (ours, theirs) in shared.items()}
    found = {}
    for ours in first.tasks:
        theirs = next((one for known in _KNOWN_BY for one in second.tasks if known(ours, one)), None)
        if theirs is not None:
            found[ours.name if ours.name not in found else f"{ours.group}/{ours.name}"] = (ours, theirs)
    return found


_KNOWN_BY = (
    lambda ours, theirs: (ours.group, ours.task_id) == (theirs.group, theirs.task_id),
    lambda ours, theirs: ours.name == theirs.name,
    lambda ours, theirs: ours.prompt is not None and ours.prompt == theirs.prompt,
)
"""By what a task of another harness is ours: place in its group, name, prompt; the first that fits."""


def _diff_task(name: str, ours: HarnessTask, theirs: HarnessTask) -> TaskDiff:
    both = sorted(ours.episodes.keys() & theirs.episodes.keys())
    pairs = []
    for index in both:
        first, second = ours.episodes[index], theirs.episodes[index]
        rewards = compare_sums(first.sum_reward, second.sum_reward, first.steps)
        pairs.append(EpisodePair(name, first, second, rewards))
    alone = [sorted(one.episodes.keys() - {*both}) for one in (ours, theirs)]
    return TaskDiff(name, ours, theirs, pairs, *alone)


def _only(tasks: Sequence[TaskDiff]) -> Iterator[str]:
    for task in tasks:
        for name, indices in (("A", task.only_first), ("B", task.only_second)):
            if indices:
                yield f"{name} alone has {task.name} episodes {', '.join(spans(indices))}"


def _pairing(second: HarnessResult) -> str:
    if second.run is not None:
        return "by task, index and seed"
    return "by task and index: B does not say the seed of an episode"


def _seed_notes(tasks: Sequence[TaskDiff]) -> list[str]:
    """Say what sums of rewards tell of seeds that a file does not: equal ones are no accident."""
    pairs = [pair for task in tasks for pair in task.pairs if pair.rewards != "unknown"]
    if not pairs:
        return []
    equal = sum(pair.rewards in ("equal", "rounding") for pair in pairs)
    if equal:
        return [f"{equal} of {len(pairs)} sums of rewards are equal, so the seeds were the same"]
    for shift in (offset * sign for offset in range(1, 101) for sign in (1, -1)):
        found = [
            compare_sums(task.first.episodes[index + shift].sum_reward, one.sum_reward, 500)
            for task in tasks
            for index, one in task.second.episodes.items()
            if index + shift in task.first.episodes
        ]
        if len(found) > 1 and {*found} <= {"equal", "rounding"}:
            return [f"B's episode i is A's episode i{shift:+d} in all {len(found)} cases: B's seed was {shift:+d}"]
    return ["no sum of rewards is equal: the seeds, or the policy, may have been others"]


@dataclass(frozen=True)
class _SharedRun:
    """A run as a bundle would say it: paths by their last part."""

    identity: Identity
    tasks: Sequence[Task]


def _settings(first: HarnessResult, second: HarnessResult) -> list[Circumstance]:
    """Return what is known to differ of how two results were made."""
    if first.run is not None and second.run is not None:
        ours, theirs = (_SharedRun(shareable(run.identity), run.tasks) for run in (first.run, second.run))
        some = ({name: run.identity.get(name) for name in _POLICY} for run in (ours, theirs))
        found = [*differing(ours, theirs), *(Circumstance(*one) for one in differences(*some))]
        chunks = [
            None if run.policy_spec is None else run.policy_spec.action_steps for run in (first.run, second.run)
        ]
        if chunks[0] != chunks[1]:
            found.append(Circumstance("executed chunk length", *map(repr, chunks)))
        return found
    assert first.run is not None
    limits = {task.max_steps for task in first.run.tasks}
    known: Mapping[str, Any] = {"step limit": limits.pop() if len(limits) == 1 else None, **first.settings}
    return [
        Circumstance(name, repr(known[name]), repr(value))
        for name, value in second.settings.items()
        if known.get(name) is not None and name != "env.type" and known[name] != value
    ]


def _with_steps(tasks: Sequence[TaskDiff], ours: StoredRun, theirs: StoredRun) -> Iterator[TaskDiff]:
    """Find where episodes part that differ, from what both runs kept of them."""
    views = [_view(run) for run in (ours, theirs)]
    seen_alike = views[0] is not None and views[0] == views[1]
    with ours.table() as first, theirs.table() as second:
        for task in tasks:
            found = []
            for pair in task.pairs:
                mine, other = pair.first.record, pair.second.record
                if pair.same or pair.first.error or pair.second.error or mine is None or other is None:
                    found.append(pair)
                    continue
                plays = [_play(first, mine), _play(second, other)]
                found.append(pair._replace(where=_parting(plays, views[0] if seen_alike else None)))
            yield dataclasses.replace(task, pairs=found)


def _play(table: Any, record: EpisodeRecord) -> Play | None:
    trajectory = table.trajectory(record.key)
    return None if trajectory is None else Play(record, trajectory)


def _parting(plays: Sequence[Play | None], view: PolicyView | None) -> StepDifference | None:
    first, second = plays
    if first is None or second is None:
        return None
    if view is None:
        # Looked at in other ways: marks of what was seen say nothing.
        view = PolicyView(frozenset(), False, (), (0,), None)
        first, second = (
            Play(one.record, dataclasses.replace(one.trajectory, marks=b"")) for one in (first, second)
        )
    found = difference(first, second, view, view)
    return None if found is None else found.first


def _view(run: StoredRun) -> PolicyView | None:
    """Return what a run's policy looked at, where its identity tells all that it takes to know that."""
    if run.policy_spec is None or not run.identity.get("spec"):
        return None
    try:
        spec = BenchmarkSpec.from_wire(run.identity["spec"]).renamed(run.identity.get("rename_map") or {})
        return PolicyView.of(run.policy_spec, spec)
    except (KeyError, TypeError, UsageError):  # what processors made of it is not in the identity
        return None
