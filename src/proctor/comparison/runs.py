"""A stored run as a comparison sees it: read-only, and only the episodes that are a fair sample."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from proctor.config.yaml_files import read_run_settings
from proctor.errors import StoreError, UsageError
from proctor.files import as_written_by_proctor, check_folder
from proctor.plan import make_plan, shard_of
from proctor.stats.intervals import CONFIDENCE, Rate, wilson
from proctor.store.episodes import EpisodeTable
from proctor.store.identity import Identity
from proctor.store.merge import check_runs, find_runs
from proctor.store.outcomes import SUCCESS, Outcomes
from proctor.store.reading import read_outcomes
from proctor.store.run_directory import DATABASE
from proctor.store.videos import video_file
from proctor.types import Task

_SHARD = re.compile(r"shard_(\d+)_of_(\d+)")


@dataclass(frozen=True)
class StoredRun:
    """What is known of a run.

    `used` are the episodes that are compared, errors among them; not those of tasks that report no success. Of a
    run that is not complete they are the finished *prefix* of its plan (of each shard's): among the episodes that
    happen to have ended there are too many quick successes, and a comparison on them would flatter the run.
    """

    path: Path
    policy: str
    identity: Identity
    tasks: Sequence[Task]
    used: Outcomes
    directories: Sequence[Path]
    """Where its episodes lie: the run's own directory, and its shards'."""
    ended: int
    planned: int
    stopped: str | None = None
    """The rule that ended it before its plan did; what it had done beyond that place is not compared."""

    @property
    def complete(self) -> bool:
        """Whether every planned episode ended."""
        return self.ended == self.planned

    @property
    def errors(self) -> int:
        """How many of the used ones could not be run."""
        return self.used.errors

    def rate(self, confidence: float = CONFIDENCE) -> Rate:
        """Return the rate over the finished ones of them."""
        return wilson(int(self.used.counts[SUCCESS]), self.used.finished, confidence)

    def video(self, place: int) -> Path | None:
        """Return the video of an episode of its plan, if it has one."""
        if not self.used["filmed"][place]:
            return None
        found = (video_file(directory, self.used.plan[place].key) for directory in self.directories)
        return next(filter(None, found), None)


def read_run(path: Path) -> StoredRun:
    """Read the run in a directory, with the shards that lie below it. Raises `UsageError` if there is none."""
    check_folder(path, "run directory")
    try:
        return _read_run(path)
    except StoreError as error:
        raise UsageError(f"{path} cannot be compared: {error.__cause__ or error}") from error


def _read_run(path: Path) -> StoredRun:
    directories = find_runs([path])
    with as_written_by_proctor(path):
        sources = check_runs(directories, path.absolute())
        plan = make_plan(sources.tasks, sources.per_task, sources.identity["seed"])
        shard = _SHARD.fullmatch(path.absolute().name)
        if shard:
            plan = shard_of(plan, *map(int, shard.groups()))
        used, ended = Outcomes(plan), np.zeros(len(plan), bool)
        stopped: str | None = None
        for directory in directories:
            fair, rule = _fair(directory, sources.tasks)
            stopped = stopped or rule
            places = plan.places_of(fair.plan)
            ended[places[fair.at()]] = True
            used.take_over(fair.first(fair.prefix))
    found = used.ended
    told = np.array([task.reports_success for task in sources.tasks], bool)
    if not told.any():
        raise UsageError(f"{path}: its benchmark reports no success, so there is nothing to compare.")
    used["state"][~told[plan.numbers]] = 0
    return StoredRun(
        path=path,
        policy=_policy(directories[0]),
        identity=sources.identity,
        tasks=sources.tasks,
        used=used,
        directories=directories,
        ended=int(ended.sum()),
        planned=found if stopped else len(plan),
        stopped=stopped,
    )


def _fair(directory: Path, tasks: Sequence[Task]) -> tuple[Outcomes, str | None]:
    """Return what has ended of a directory's own plan, and what stopped it."""
    with EpisodeTable(directory / DATABASE, read_only=True) as table:
        plan = make_plan(tasks, table.meta("n_episodes") or 0, table.meta("identity")["seed"])
        stopped = table.meta("stopped")
        if stopped is not None:
            plan = plan[: stopped["episodes"]]
        shard = _SHARD.fullmatch(directory.name)
        if shard:
            plan = shard_of(plan, *map(int, shard.groups()))
        return read_outcomes(table, plan), stopped["rule"] if stopped else None


def _policy(directory: Path) -> str:
    policy = read_run_settings(directory).get("policy") or {}
    return str(policy.get("path") or policy.get("type"))
