"""Which episodes of two runs belong together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proctor.comparison.runs import StoredRun
from proctor.errors import UsageError, did_you_mean
from proctor.stats.paired import Pairs
from proctor.store.outcomes import ERROR, SUCCESS


class Matched(NamedTuple):
    """One task as both runs know it: where its used episodes are in the plan of each."""

    name: str
    group: str
    runs: tuple[StoredRun, StoredRun]
    first: NDArray[np.int64]
    second: NDArray[np.int64]

    def both(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the episodes are that both have: same index, same seed."""
        # The seed of an episode is that of its plan and its index.
        if self.runs[0].used.plan.seed != self.runs[1].used.plan.seed:
            return self.first[:0], self.second[:0]
        first = self.runs[0].used.plan.indices[self.first]
        second = self.runs[1].used.plan.indices[self.second]
        _, ours, theirs = np.intersect1d(first, second, assume_unique=True, return_indices=True)
        return self.first[ours], self.second[theirs]

    def states(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return how episodes ended in each run."""
        return self.runs[0].used["state"][first], self.runs[1].used["state"][second]

    def shared(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the episodes are that both finished."""
        first, second = self.both()
        ours, theirs = self.states(first, second)
        finished = (ours != ERROR) & (theirs != ERROR)
        return first[finished], second[finished]

    def pairs(self) -> Pairs:
        """Return how often both, one or neither succeeded, of those that both finished."""
        ours, theirs = (states == SUCCESS for states in self.states(*self.shared()))
        kinds = (ours & theirs, ours & ~theirs, ~ours & theirs, ~ours & ~theirs)
        return Pairs(*(int(kind.sum()) for kind in kinds))

    def rates(self) -> list[tuple[int, int]]:
        """Return successes and finished episodes of each run."""
        found = self.states(self.first, self.second)
        return [(int((states == SUCCESS).sum()), int((states != ERROR).sum())) for states in found]


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

    def places(run: StoredRun, name: str) -> NDArray[np.int64]:
        numbers = [place for place, task in enumerate(run.tasks) if known_as(task.group, task.name) == name]
        return np.concatenate([run.used.of_task(number) for number in numbers])

    runs = (first, second)
    found = [Matched(name, groups[name], runs, *(places(run, name) for run in runs)) for name in names]
    return [task for task in found if len(task.first) and len(task.second)]
