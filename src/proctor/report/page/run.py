"""A run as its report sees it: everything that its directory holds, read once and never written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from proctor.config.yaml_files import read_run_settings, shard_in
from proctor.errors import StoreError, UsageError
from proctor.files import as_written_by_proctor, check_folder, read_json
from proctor.plan import Plan, make_plan, shard_of
from proctor.report.page.choice import episodes_for_curves
from proctor.results import Results
from proctor.store.episodes import EpisodeTable, wall_and_startup
from proctor.store.identity import Identity
from proctor.store.outcomes import Outcomes
from proctor.store.reading import StoredRecords
from proctor.store.result import StoredResult, read_result
from proctor.store.run_directory import DATABASE, SHARD_DIRECTORIES, RunDirectory, Shard
from proctor.store.schema import Note, RewardCurve, RunSession
from proctor.store.sqlite_file import is_begun
from proctor.types import EpisodeKey, Task


@dataclass(frozen=True)
class Run:
    """What is known of a run. Of one that a rule has `stopped`, the plan ends where it did."""

    directory: RunDirectory
    settings: Mapping[str, Any]
    identity: Identity
    versions: Mapping[str, str]
    stored: StoredResult
    notes: Sequence[Note]
    reproducible: bool
    curves: Mapping[EpisodeKey, RewardCurve]

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.directory.path

    @property
    def results(self) -> Results:
        """What its episodes came to."""
        return self.stored.results

    @property
    def ended(self) -> Outcomes:
        """How each of them ended."""
        return self.results.ended

    @property
    def tasks(self) -> Sequence[Task]:
        """All its tasks."""
        return self.results.tasks

    @property
    def plan(self) -> Plan:
        """The episodes that count."""
        return self.ended.plan

    @property
    def complete(self) -> bool:
        """Whether every one of them has ended."""
        return self.stored.complete

    @property
    def records(self) -> StoredRecords:
        """All that ended, in plan order."""
        return self.stored.records

    @cached_property
    def sessions(self) -> Sequence[RunSession]:
        """When it was worked on."""
        return sorted(self.stored.sessions)

    @cached_property
    def wall(self) -> float:
        """The seconds in which it was worked on."""
        return wall_and_startup(self.sessions)[0]

    @cached_property
    def startup(self) -> float:
        """The seconds in which its processes started."""
        return wall_and_startup(self.sessions)[1]

    @property
    def stopped(self) -> Mapping[str, Any] | None:
        """Where and why a rule ended it."""
        return self.results.stopped

    @cached_property
    def prefix(self) -> int:
        """How many episodes, from the plan's start, a curve may be drawn of.

        Success ends an episode early, so of a run that is not complete the episodes that happen to have ended hold
        too many successes.
        """
        return self.ended.prefix

    @property
    def policy(self) -> str:
        """The policy, as the user named it."""
        policy = self.settings.get("policy") or {}
        return str(policy.get("path") or policy.get("type") or "unknown policy")

    @property
    def benchmark(self) -> str:
        """The benchmark's name."""
        return str((self.settings.get("env") or {}).get("type") or "unknown benchmark").rpartition(":")[2]

    @property
    def name(self) -> str:
        """What to call it: the name its user gave it, else its directory's."""
        return str(self.settings.get("job_name") or self.path.name)


def read_report_run(path: Path, stored: StoredResult | None = None) -> Run:
    """Read the run in a directory, also one that goes on. Raises `UsageError` if there is none."""
    check_folder(path, "run directory")
    try:
        if not is_begun(path / DATABASE):
            if any(path.glob(SHARD_DIRECTORIES)):
                raise UsageError(f"{path} holds shards that are not merged yet. Run: proctor merge {path}")
            raise UsageError(f"{path} holds no run: there is no {DATABASE}.")
        settings = read_run_settings(path)
        with as_written_by_proctor(path):
            return _read(path.absolute(), settings, stored)
    except StoreError as error:
        raise UsageError(str(error)) from error


def _read(path: Path, settings: Mapping[str, Any], stored: StoredResult | None) -> Run:
    shard = _shard(settings)
    with EpisodeTable(path / DATABASE, read_only=True) as table:
        identity, tasks = table.meta("identity"), table.meta("tasks")
        if identity is None or tasks is None:
            raise UsageError(f"{path} holds a run that never started: there is nothing to show.")
        if stored is None:
            plan = make_plan([Task(**task) for task in tasks], table.meta("n_episodes") or 0, identity["seed"])
            stored = read_result(table, plan if shard is None else shard_of(plan, *shard))
        directory = RunDirectory(path, shard)
        return Run(
            directory=directory,
            settings=settings,
            identity=identity,
            versions=_versions(directory.result, identity),
            stored=stored,
            notes=table.notes(),
            reproducible=bool(table.meta("reproducible")),
            curves=table.reward_curves(
                stored.results.ended.plan[place].key for place in episodes_for_curves(stored.results.ended)
            ),
        )


def _shard(settings: Mapping[str, Any]) -> Shard | None:
    number, of = shard_in(settings)
    return Shard(number, of) if of > 1 else None


def _versions(result: Path, identity: Identity) -> dict[str, str]:
    """Return what the run's result says it ran with; of one that has no result yet, what its identity says."""
    try:
        return {str(name): str(value) for name, value in dict(read_json(result)["versions"]).items()}
    except (OSError, ValueError, KeyError, TypeError):
        return {**identity["versions"], "cpu": identity["machine"]["cpu"]}
