"""A run as its report sees it: everything that its directory holds, read once and never written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from proctor.benchmarks.protocol import Episode, EpisodeKey, Task
from proctor.config.files import read_run_settings, shard_in
from proctor.engine.plan import finished_prefix, make_plan, shard_of
from proctor.errors import StoreError, UsageError
from proctor.files import as_written_by_proctor, check_folder, read_json
from proctor.report.page.choice import episodes_for_curves
from proctor.results import Results
from proctor.store.episodes import EpisodeTable, Note, Session, is_begun
from proctor.store.identity import Identity
from proctor.store.records import Attempt, EpisodeRecord
from proctor.store.result import counted, read_results
from proctor.store.rewards import RewardCurve
from proctor.store.run_directory import DATABASE, SHARD_DIRECTORIES, RunDirectory, Shard


@dataclass(frozen=True)
class Run:
    """What is known of a run. `results` are those of all that ended, in plan order.

    Of a run that a rule has `stopped`, the plan ends where it did, and `planned` says how long it was to be.
    """

    directory: RunDirectory
    settings: Mapping[str, Any]
    identity: Identity
    versions: Mapping[str, str]
    tasks: Sequence[Task]
    plan: Sequence[Episode]
    planned: int
    results: Results
    attempts: Sequence[Attempt]
    notes: Sequence[Note]
    sessions: Sequence[Session]
    wall: float
    startup: float
    reproducible: bool
    curves: Mapping[EpisodeKey, RewardCurve]

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.directory.path

    @property
    def complete(self) -> bool:
        """Whether every planned episode ended."""
        return len(self.records) == len(self.plan)

    @property
    def records(self) -> Sequence[EpisodeRecord]:
        """All that ended."""
        return self.results.records

    @property
    def stopped(self) -> Mapping[str, Any] | None:
        """Where and why a rule ended it."""
        return self.results.stopped

    @cached_property
    def prefix(self) -> Sequence[EpisodeRecord]:
        """The records that a curve may be drawn of: all, or the finished prefix of the plan.

        Success ends an episode early, so of a run that is not complete the episodes that happen to have ended hold
        too many successes.
        """
        return finished_prefix(self.plan, {record.key: record for record in self.records})

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


def read_report_run(path: Path) -> Run:
    """Read the run in a directory, also one that goes on. Raises `UsageError` if there is none."""
    check_folder(path, "run directory")
    try:
        if not is_begun(path / DATABASE):
            if any(path.glob(SHARD_DIRECTORIES)):
                raise UsageError(f"{path} holds shards that are not merged yet. Run: proctor merge {path}")
            raise UsageError(f"{path} holds no run: there is no {DATABASE}.")
        settings = read_run_settings(path)
        with as_written_by_proctor(path):
            return _read(path.absolute(), settings)
    except StoreError as error:
        raise UsageError(str(error)) from error


def _read(path: Path, settings: Mapping[str, Any]) -> Run:
    shard = _shard(settings)
    with EpisodeTable(path / DATABASE, read_only=True) as table:
        identity, tasks = table.meta("identity"), table.meta("tasks")
        if identity is None or tasks is None:
            raise UsageError(f"{path} holds a run that never started: there is nothing to show.")
        tasks = [Task(**task) for task in tasks]
        plan = make_plan(tasks, table.meta("n_episodes") or 0, identity["seed"])
        if shard is not None:
            plan = shard_of(plan, *shard)
        planned, plan = len(plan), list(counted(plan, table))
        results = read_results(table, tasks, plan)
        wall, startup = table.wall_and_startup()
        directory = RunDirectory(path, shard)
        return Run(
            directory=directory,
            settings=settings,
            identity=identity,
            versions=_versions(directory.result, identity),
            tasks=tasks,
            plan=plan,
            planned=planned,
            results=results,
            attempts=table.attempts(),
            notes=table.notes(),
            sessions=sorted(table.sessions()),
            wall=wall,
            startup=startup,
            reproducible=bool(table.meta("reproducible")),
            curves=table.reward_curves(record.key for record in episodes_for_curves(results.records)),
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
