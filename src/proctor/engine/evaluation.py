"""An evaluation from settings to result: settle everything, run, write the result."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import shutil
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from proctor.config.plain_values import to_plain
from proctor.config.settings import Settings
from proctor.engine.demonstrations import DemonstrationQuota
from proctor.engine.executors.protocol import Ending, Executor, Job, RunContext
from proctor.engine.executors.this_machine import ThisMachine
from proctor.engine.interrupts import Interrupts
from proctor.engine.stopping import Stop, rules_for
from proctor.engine.warm_processes import WarmProcesses
from proctor.errors import (
    DamagedError,
    IdentityError,
    Interrupted,
    ProctorError,
    RunError,
    RunLockedError,
    StoreError,
    UsageError,
)
from proctor.eval_info import write_eval_info
from proctor.events import Audience, RunOutline, RunStart, Stage, Watcher
from proctor.installation import missing_package
from proctor.plan import Plan, as_choice, make_plan, shard_of
from proctor.policies.names import short_name
from proctor.policies.protocol import LivePolicy
from proctor.recording.assembly import assemble, check_can_record, recover
from proctor.results import Evaluation, ScoredRun
from proctor.store.episodes import EpisodeTable
from proctor.store.filesystem import missing_folders, prepare_directory
from proctor.store.lock import RunLock
from proctor.store.outcomes import FAILURE, SUCCESS
from proctor.store.run_directory import RunDirectory, Shard, default_directory, open_run
from proctor.store.schema import EpisodeRecord
from proctor.store.stored_run import StoredRun

_TRIES = 20
"""Names that are tried for a run directory, where the user has given none."""


class NoteKeeper(Watcher):
    """Puts what the user is told into the run's table, for those who were not there."""

    def __init__(self) -> None:
        self._table: EpisodeTable | None = None
        self._early: list[str] = []

    def keep_in(self, table: EpisodeTable) -> None:
        """Store what was told so far, and from now on at once."""
        self._table = table
        for message in self._early:
            self.note(message)

    def note(self, message: str) -> None:
        """Keep a message. A disk that is full is told of by the results, which matter more."""
        if self._table is None:
            self._early.append(message)
            return
        with contextlib.suppress(StoreError):
            self._table.add_note(message)


class EvaluationRun:
    """Runs one evaluation: owns its directory, its table and its display; an executor runs the episodes.

    Args:
        settings: all settings, validated.
        directory: where the run lies.
        executor: what runs the episodes, this machine or a cluster.
        watchers: who is told of progress.
    """

    def __init__(
        self, settings: Settings, directory: RunDirectory, executor: Executor, watchers: Sequence[Watcher] = ()
    ) -> None:
        self._settings, self._directory, self._executor = settings, directory, executor
        self._notes = NoteKeeper()
        self._watcher = Audience([*watchers, self._notes])
        shard = directory.shard or Shard(0, 1)
        plan = make_plan(executor.tasks, settings.eval.n_episodes, settings.seed, settings.only)
        self._plan = shard_of(plan, *shard)
        self._rules = rules_for(settings, self._plan)

    def run(self) -> Evaluation:
        """Run what is missing and write the result. Raises `UsageError` before anything has started."""
        self._directory.check_usable()
        path = self._directory.path
        created = missing_folders(path)
        prepare_directory(self._directory.path, len(self._plan))
        try:
            return self._run()
        except RunError as error:
            if isinstance(error, DamagedError) or not self._directory.holds_a_run():
                raise
            # What is stored can be gone on with: the user is told how.
            return self._unread(error=error)
        finally:
            # A command that was refused or stopped before its run began leaves nothing behind.
            self._directory.remove_if_unused(created)

    def _run(self) -> Evaluation:
        with ExitStack() as stack:
            stack.enter_context(RunLock(self._directory.path))
            self._directory.remove_leftovers()
            recover(self._directory.path)
            interrupts = stack.enter_context(Interrupts())
            outline = run_outline(self._settings, self._directory, self._plan)
            # Whatever ends the command: a display that draws itself anew stops before anything else is printed.
            stack.callback(self._watcher.ended)
            self._watcher.planned(outline)
            context = RunContext(stack, interrupts, self._watcher)
            try:
                with interrupts.abruptly():  # what is loaded here may be anybody's code
                    stored = self._directory.stored_identity()
                    pending = self._directory.likely_pending(self._plan)
                    prepared = self._executor.prepare(context, stored, pending)
            except Interrupted:
                return self._unread(interrupts.first)
            try:
                facts = prepared.facts
                table = stack.enter_context(self._directory.table())
                episodes = self._settings.eval.n_episodes
                before = open_run(
                    table, facts.identity, self._plan, episodes, self._directory.path, self._settings.only
                )
                table.set_meta("reproducible", facts.policy_spec.reproducible)
                table.set_meta("policy_spec", facts.policy_spec.to_wire())
                table.set_meta("tasks", [task.to_wire() for task in self._executor.tasks])
                self._directory.write_config(to_plain(self._settings))
                job = prepared.staff(before)
                session = table.begin_session(job.workforce.workers)
                self._notes.keep_in(table)
                self._watcher.started(RunStart(outline, before, *job.workforce))
                for note in facts.notes:
                    self._watcher.note(note)
                if self._rules is not None:
                    self._rules.begin(before)
            except BaseException:
                prepared.abandon()
                raise
            try:
                if self._rules is not None and self._rules.stop is not None:
                    prepared.abandon()  # what is stored says enough already
                    ending = Ending()
                else:
                    ending = self._execute(job, context, table)
            except BaseException as error:  # of which nobody has thought
                with contextlib.suppress(ProctorError):
                    table.end_session(session, 0.0, f"{type(error).__name__}: {error}")
                raise
            try:
                table.check()  # whatever else ended the run, this matters more
            except StoreError as gone:
                return self._unread(error=gone)
            self._watcher.doing(Stage("writing the results"))
            done = self._conclude(table, session, ending, interrupts)
            return dataclasses.replace(done, nothing_to_do=not len(before.pending))

    def _execute(self, job: Job, context: RunContext, table: EpisodeTable) -> Ending:
        try:
            return job.run(context, table, self._rules)
        except ProctorError as error:
            return Ending(error=error)

    def _conclude(self, table: EpisodeTable, session: int, ending: Ending, interrupts: Interrupts) -> Evaluation:
        """Write the result, also of a run that was cut short."""
        error, recorded = ending.error, 0
        result, info = ScoredRun.empty(self._directory.path, self._plan), dict[str, Any]()
        try:
            table.end_session(session, ending.startup, ending.words)
            run = ScoredRun(self._directory.path, self._plan)
            stop, problem = self._decide(run)
            error = error or (problem if ending.stopped_by is None else None)
            table.set_meta("stopped", stop.to_meta() if stop is not None else None)
            info, result = write_eval_info(run), run
            self._directory.remove_leftovers()
            if self._settings.eval.recording and interrupts.count <= 1:
                wanted = self._wanted(run)
                recorded = assemble(self._directory.path, wanted)
                if self._settings.eval.demonstrations and recorded < len(wanted):
                    raise StoreError(
                        f"{len(wanted) - recorded} of {len(wanted)} demonstrations have no recording: they ended "
                        "before they were recorded, or their dataset was deleted. Record into a new --output_dir."
                    )
            if error is None and ending.stopped_by is None and not run.complete:
                left = len(run.ended.missing)
                error = RunError(f"{left} episodes have not ended, and nothing says why.")
                table.end_session(session, ending.startup, str(error))
        except ProctorError as problem:
            error = error or problem
        return Evaluation(result, info, ending.stopped_by, error, recorded)

    def _decide(self, run: ScoredRun) -> tuple[Stop | None, ProctorError | None]:
        """Return where the run stops before the end of its plan, and what it lacks that it was to have."""
        wanted = self._settings.eval.demonstrations
        if not wanted:
            return (self._rules.decide(run.all_ended) if self._rules is not None else None), None
        demonstrations = DemonstrationQuota(run.all_ended, wanted)
        return demonstrations.stop, demonstrations.problem

    def _wanted(self, run: ScoredRun) -> Sequence[EpisodeRecord]:
        """Return the records of the episodes that the dataset is to have."""
        settings, ended = self._settings.eval, run.all_ended
        if settings.demonstrations:
            return run.all_records.at(DemonstrationQuota(ended, settings.demonstrations).places)
        return run.records.at(run.ended.at(SUCCESS)) if settings.only_success else run.records

    def _unread(self, stopped_by: signal.Signals | None = None, error: ProctorError | None = None) -> Evaluation:
        """Return the evaluation of a run whose episodes were not looked at: it has none yet, or is gone."""
        return Evaluation(ScoredRun.empty(self._directory.path, self._plan), {}, stopped_by, error)


def evaluate_settings(
    settings: Settings,
    watchers: Sequence[Watcher] = (),
    live_policy: LivePolicy | None = None,
    warm: WarmProcesses | None = None,
) -> Evaluation:
    """Run one evaluation from validated settings: on this machine, or on the nodes of a cluster.

    Args:
        settings: all settings.
        watchers: who is told of progress.
        live_policy: the caller's own to evaluate, instead of what `settings.policy` names.
        warm: where processes are kept that can be used again.
    """
    settings = with_failures(settings)
    if settings.eval.recording:
        check_can_record()
    if settings.cluster.address is not None:
        _check_sendable(settings.cluster.address, live_policy)
    else:
        if not isinstance(live_policy, Path | None) and settings.policy.placement == "worker":
            raise UsageError("a live policy object runs in this process; give file.py:Name to run it in workers.")
        check_interpreter(settings)
    if warm is not None:
        warm.begin_run()
    for _ in range(_TRIES if settings.output_dir is None else 0):
        try:
            return _evaluate_in(run_directory(settings), settings, watchers, live_policy, warm)
        except (RunLockedError, IdentityError):
            pass  # another process has just begun a run of this name: the next name is free
    return _evaluate_in(run_directory(settings), settings, watchers, live_policy, warm)


def with_failures(settings: Settings) -> Settings:
    """Return settings that name the failures of the run that `--failed` names, if it does, one by one."""
    if settings.failed is None:
        return settings
    run = StoredRun.open(settings.failed)
    failures = run.plan.at(run.ended.at(FAILURE))
    if not failures:
        raise UsageError(f"--failed={settings.failed}: none of its episodes is a failure.")
    return dataclasses.replace(settings, only=as_choice(failures), failed=None)


def _evaluate_in(
    directory: RunDirectory,
    settings: Settings,
    watchers: Sequence[Watcher],
    live_policy: LivePolicy | None,
    warm: WarmProcesses | None,
) -> Evaluation:
    directory.check_begun(settings.resume)
    executor: Executor
    if settings.cluster.address is not None:
        from proctor.engine.executors.ray_cluster.driver import RayCluster

        executor = RayCluster(settings, directory)
    else:
        executor = ThisMachine(settings, directory, live_policy, warm=warm)
    return EvaluationRun(settings, directory, executor, watchers).run()


def _check_sendable(address: str, live_policy: LivePolicy | None) -> None:
    """Refuse what a cluster cannot run."""
    if live_policy is not None:
        raise UsageError(
            f"--cluster.address={address}: a live policy object cannot leave this process; "
            "give file.py:Name, which is sent to the nodes, or the path of a checkpoint."
        )
    if importlib.util.find_spec("ray") is None:
        raise missing_package(f"--cluster.address={address}", "ray", "ray")


def run_directory(settings: Settings) -> RunDirectory:
    """Return the directory of a run, or of its shard."""
    shard = Shard(settings.eval.shard_id, settings.eval.num_shards)
    return RunDirectory(output_directory(settings), shard if shard.of > 1 else None)


def output_directory(settings: Settings) -> Path:
    """Return where a run goes."""
    policy = short_name(settings.policy.type, settings.policy.path)
    job_name = settings.job_name or f"{_benchmark_name(settings)}_{policy}"
    return (settings.output_dir or default_directory(job_name)).absolute()


def run_outline(settings: Settings, directory: RunDirectory, plan: Plan) -> RunOutline:
    """Return what those who watch are told first."""
    return RunOutline(
        plan=plan,
        policy=settings.policy.path or settings.policy.type,
        benchmark=_benchmark_name(settings),
        directory=directory.path,
        demonstrations=settings.eval.demonstrations,
    )


def _benchmark_name(settings: Settings) -> str:
    return settings.env.type.rpartition(":")[2]


def check_interpreter(settings: Settings) -> None:
    """Refuse a `--policy.python` or `--env.python` that is not there, or that would not be used."""
    for section, python in (("policy", settings.policy.python), ("env", settings.env.python)):
        if python is not None and shutil.which(python) is None:
            raise UsageError(f"--{section}.python={python}: there is no such program.")
    if settings.env.python is not None and not settings.eval.use_async_envs:
        raise UsageError("--env.python runs simulators in processes of their own: no --eval.use_async_envs=false.")
    if settings.policy.python is None:
        return
    if settings.policy.placement == "worker" or not settings.eval.use_async_envs:
        raise UsageError(
            "--policy.python runs the policy in a process of its own; leave out --policy.placement=worker "
            "and --eval.use_async_envs=false."
        )
