"""Which episodes of two runs belong together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from proctor.comparison.runs import StoredRun
from proctor.errors import UsageError, did_you_mean
from proctor.stats.paired import Pairs
from proctor.store.records import EpisodeRecord


class Matched(NamedTuple):
    """One task as both runs know it."""

    name: str
    group: str
    first: Sequence[EpisodeRecord]
    second: Sequence[EpisodeRecord]

    def shared(self) -> list[tuple[EpisodeRecord, EpisodeRecord]]:
        """Return the episodes that both finished: same index, same seed."""
        theirs = {(r.episode_index, r.seed): r for r in self.second if r.status == "finished"}
        return [
            (record, theirs[record.episode_index, record.seed])
            for record in self.first
            if record.status == "finished" and (record.episode_index, record.seed) in theirs
        ]


def match(first: StoredRun, second: StoredRun, wanted: Sequence[str] = ()) -> list[Matched]:
    """Return the tasks that two runs share, in the first run's order. Raises `UsageError` if there are none.

    A task is known by its name: it may lie in another group of the other run's choice of tasks. Where a run has a
    name twice, the group tells them apart.
    """
    plain = all(len({task.name for task in run.tasks}) == len(run.tasks) for run in (first, second))

    def known_as(group: str, name: str) -> str:
        return name if plain else f"{group}/{name}"

    there = {known_as(task.group, task.name) for task in second.tasks}
    names = [name for task in first.tasks if (name := known_as(task.group, task.name)) in there]
    for name in wanted:
        if name not in names:
            raise UsageError(f"--tasks={name}: the runs do not share such a task.{did_you_mean(name, names)}")
    names = [name for name in names if name in wanted] if wanted else names
    if not names:
        raise UsageError(f"{first.path} and {second.path} have no task in common.")
    groups = {known_as(task.group, task.name): task.group for task in first.tasks}
    found = [
        Matched(
            name,
            groups[name],
            *(
                [record for record in run.records if known_as(record.task_group, record.task) == name]
                for run in (first, second)
            ),
        )
        for name in names
    ]
    return [task for task in found if task.first and task.second]


def count_pairs(shared: Sequence[tuple[EpisodeRecord, EpisodeRecord]]) -> Pairs:
    """Return how often both, one or neither succeeded."""
    outcomes = [(bool(ours.success), bool(theirs.success)) for ours, theirs in shared]
    return Pairs(*(outcomes.count(kind) for kind in ((True, True), (True, False), (False, True), (False, False))))
