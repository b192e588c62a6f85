"""A stored run as a comparison sees it: read-only, and only the episodes that are a fair sample."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from proctor.benchmarks.protocol import EpisodeKey, Task
from proctor.config.files import read_run_settings
from proctor.engine.plan import finished_prefix, make_plan, shard_of
from proctor.errors import StoreError, UsageError
from proctor.files import as_written_by_proctor, check_folder
from proctor.results import reporting
from proctor.stats.intervals import Rate, wilson
from proctor.store.episodes import EpisodeTable
from proctor.store.identity import Identity
from proctor.store.merge import check_runs, find_runs
from proctor.store.records import EpisodeRecord
from proctor.store.result import counted
from proctor.store.run_directory import DATABASE
from proctor.store.videos import video_file

_SHARD = re.compile(r"shard_(\d+)_of_(\d+)")


@dataclass(frozen=True)
class StoredRun:
    """What is known of a run.

    `records` are in plan order, errors among them. Of a run that is not complete they are the finished *prefix* of
    its plan (of each shard's): among the episodes that happen to have ended there are too many quick successes,
    and a comparison on them would flatter the unfinished run.
    """

    path: Path
    policy: str
    identity: Identity
    tasks: Sequence[Task]
    records: Sequence[EpisodeRecord]
    videos: Mapping[EpisodeKey, Path]
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
        """How many of the records are of episodes that could not be run."""
        return sum(record.status == "error" for record in self.records)

    def rate(self, confidence: float) -> Rate:
        """Return the rate over the finished ones of its records."""
        finished = [record for record in self.records if record.status == "finished"]
        return wilson(sum(bool(record.success) for record in finished), len(finished), confidence)


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
        found: dict[EpisodeKey, EpisodeRecord] = {}
        videos: dict[EpisodeKey, Path] = {}
        ended: set[EpisodeKey] = set()
        stopped: str | None = None
        for directory in directories:
            prefix, keys, rule = _fair(directory, sources.tasks)
            ended |= keys
            stopped = stopped or rule
            for record in prefix:
                if record.key not in found or found[record.key].status == "error":
                    found[record.key] = record
                    video = video_file(directory, record)
                    if video is not None:
                        videos[record.key] = video
    plan = make_plan(sources.tasks, sources.per_task, sources.identity["seed"])
    shard = _SHARD.fullmatch(path.absolute().name)
    if shard:
        plan = shard_of(plan, *map(int, shard.groups()))
    records = [found[episode.key] for episode in plan if episode.key in found]
    told = reporting(sources.tasks)
    if not told:
        raise UsageError(f"{path}: its benchmark reports no success, so there is nothing to compare.")
    return StoredRun(
        path=path,
        policy=_policy(directories[0]),
        identity=sources.identity,
        tasks=sources.tasks,
        records=[record for record in records if record.key[:2] in told],
        videos=videos,
        ended=len(ended),
        planned=len(found) if stopped else len(plan),
        stopped=stopped,
    )


def _fair(directory: Path, tasks: Sequence[Task]) -> tuple[list[EpisodeRecord], set[EpisodeKey], str | None]:
    """Return the finished prefix of a directory's own plan, all that has ended there, and what stopped it."""
    with EpisodeTable(directory / DATABASE, read_only=True) as table:
        records = {record.key: record for record in table.records()}
        plan = make_plan(tasks, table.meta("n_episodes") or 0, table.meta("identity")["seed"])
        plan, stopped = list(counted(plan, table)), table.meta("stopped")
    shard = _SHARD.fullmatch(directory.name)
    if shard:
        plan = shard_of(plan, *map(int, shard.groups()))
    prefix = finished_prefix(plan, records)
    ended = {episode.key for episode in plan if episode.key in records}
    return prefix, ended, stopped["rule"] if stopped else None


def _policy(directory: Path) -> str:
    policy = read_run_settings(directory).get("policy") or {}
    return str(policy.get("path") or policy.get("type"))
