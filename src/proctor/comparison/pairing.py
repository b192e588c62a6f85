"""Which episodes of two stored runs may be compared, and which of them belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proctor.errors import StoreError, UsageError, did_you_mean
from proctor.files import as_written_by_proctor, check_folder
from proctor.identity import Identity
from proctor.plan import shard_of
from proctor.stats.intervals import CONFIDENCE, Rate, success_rate
from proctor.stats.paired import Pairs
from proctor.store.merge import check_runs, find_runs
from proctor.store.outcomes import ERROR, SUCCESS, Outcomes
from proctor.store.run_directory import Shard
from proctor.store.stored_run import StoredRun
from proctor.store.videos import video_file
from proctor.types import Task


@dataclass(frozen=True)
class RunSample:
    """The episodes of a run that are a fair sample of it.

    `used` are the episodes that are compared, errors among them; not those of tasks that report no success. Of a
    run that is not complete they are the finished *prefix* of its plan (of each shard's): among the episodes that
    happen to have ended there are too many quick successes, and a comparison on them would flatter the run.
    """

    path: Path
    runs: Sequence[StoredRun]
    """Where its episodes lie: the run itself, and its shards."""
    identity: Identity
    tasks: Sequence[Task]
    used: Outcomes
    ended: int
    planned: int
    stopped: str | None = None
    """The rule that ended it before its plan did; what it had done beyond that place is not compared."""

    @property
    def policy(self) -> str:
        """The policy, as the user named it."""
        return self.runs[0].policy

    @property
    def complete(self) -> bool:
        """Whether every planned episode ended."""
        return self.ended == self.planned

    @property
    def errors(self) -> int:
        """How many of the used ones could not be run."""
        return self.used.errors

    @property
    def shown(self) -> str:
        """Where it is, to people."""
        return self.runs[0].bundle or str(self.path)

    def rate(self, confidence: float = CONFIDENCE) -> Rate:
        """Return the rate over the finished ones of them."""
        return success_rate(int(self.used.counts[SUCCESS]), self.used.finished, confidence)

    def video(self, place: int) -> Path | None:
        """Return the video of an episode of its plan, if it has one."""
        if not self.used["filmed"][place]:
            return None
        key = self.used.plan[place].key
        return next(filter(None, (video_file(run.path, key) for run in self.runs)), None)


def read_sample(path: Path) -> RunSample:
    """Read the run in a directory, with the shards that lie below it. Raises `UsageError` if there is none."""
    check_folder(path, "run directory")
    try:
        with as_written_by_proctor(path):
            sample = _read(path)
            _ = sample.policy
    except StoreError as error:
        raise UsageError(f"{path} cannot be compared: {error.__cause__ or error}") from error
    return sample


def _read(path: Path) -> RunSample:
    sources = check_runs(find_runs([path]), path.absolute())
    plan = sources.plan
    shard = Shard.named(path.absolute().name)
    if shard is not None:
        plan = shard_of(plan, *shard)
    used, ended = Outcomes(plan), np.zeros(len(plan), bool)
    # Where a rule has stopped the whole run, what its shards had done beyond that place does not count.
    stopped = [run for run in sources.runs if run.path == path.absolute() and run.stopped is not None]
    for run in stopped or sources.runs:
        ended[plan.places_of(run.plan)[run.ended.at()]] = True
        used.take_over(run.ended.first(run.ended.prefix))
    found = used.ended
    told = np.array([task.reports_success for task in sources.tasks], bool)
    if not told.any():
        raise UsageError(f"{path}: the environment reports no success flag, so there is nothing to compare.")
    used["state"][~told[plan.numbers]] = 0
    rules = [run.stopped["rule"] for run in stopped or sources.runs if run.stopped is not None]
    return RunSample(
        path=path,
        runs=sources.runs,
        identity=sources.identity,
        tasks=sources.tasks,
        used=used,
        ended=int(ended.sum()),
        planned=found if rules else len(plan),
        stopped=rules[0] if rules else None,
    )


class TaskPair(NamedTuple):
    """One task as both runs know it: where its used episodes are in the plan of each."""

    name: str
    group: str
    runs: tuple[RunSample, RunSample]
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


def shared_tasks(first: Sequence[Task], second: Sequence[Task]) -> dict[str, tuple[list[int], list[int]]]:
    """Return the tasks that two runs share by their names, in the first run's order, and where each run has them.

    A task is known by its name: it may lie in another group of the other run's choice of tasks. Where a run has a
    name twice, the group tells them apart.
    """
    plain = all(len({task.name for task in tasks}) == len(tasks) for tasks in (first, second))
    found: dict[str, tuple[list[int], list[int]]] = {}
    for side, tasks in enumerate((first, second)):
        for place, task in enumerate(tasks):
            name = task.name if plain else f"{task.group}/{task.name}"
            found.setdefault(name, ([], []))[side].append(place)
    return {name: places for name, places in found.items() if all(places)}


def match(first: RunSample, second: RunSample, wanted: Sequence[str] = ()) -> list[TaskPair]:
    """Return the tasks that two runs share, in the first run's order. Raises `UsageError` if there are none."""
    shared = shared_tasks(first.tasks, second.tasks)
    for name in wanted:
        if name not in shared:
            raise UsageError(f"--tasks={name}: the runs do not share such a task.{did_you_mean(name, shared)}")
    names = [name for name in shared if name in wanted] if wanted else list(shared)
    if not names:
        raise UsageError(f"{first.shown} and {second.shown} have no task in common.")

    def places(run: RunSample, numbers: Sequence[int]) -> NDArray[np.int64]:
        return np.concatenate([run.used.of_task(number) for number in numbers])

    runs = (first, second)
    found = [
        TaskPair(name, first.tasks[shared[name][0][0]].group, runs, *map(places, runs, shared[name]))
        for name in names
    ]
    return [task for task in found if len(task.first) and len(task.second)]
