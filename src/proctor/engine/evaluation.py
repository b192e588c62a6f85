"""An evaluation from settings to result: settle everything, run, write the result."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proctor.benchmarks.protocol import Episode
from proctor.config.settings import Settings
from proctor.config.wire import to_plain
from proctor.engine.coordinator import Coordinator
from proctor.engine.events import RunStart, Watcher
from proctor.engine.hosts import HostThread, Interrupted
from proctor.engine.inline import run_inline
from proctor.engine.interrupts import Interrupts
from proctor.engine.job import Ending, Job
from proctor.engine.placement import Crew, crew_size
from proctor.engine.plan import make_plan, shard_of
from proctor.engine.preparation import Preparation, Ready, Served, new_bell
from proctor.errors import ProctorError, UsageError
from proctor.machine.cores import usable_cores
from proctor.machine.memory import available_memory
from proctor.policies.protocol import Policy
from proctor.store.episodes import EpisodeTable
from proctor.store.filesystem import prepare_directory
from proctor.store.lock import RunLock
from proctor.store.records import EpisodeRecord
from proctor.store.result import write_result
from proctor.store.run_directory import RunDirectory, Shard, default_directory, open_run


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation came to. `error` and `stopped_by` say why it may be incomplete."""

    run: RunDirectory
    plan: Sequence[Episode]
    records: Sequence[EpisodeRecord]
    info: dict[str, Any]
    stopped_by: signal.Signals | None = None
    error: ProctorError | None = None

    @property
    def directory(self) -> Path:
        """Where everything of it lies."""
        return self.run.path


class Evaluator:
    """Runs one evaluation.

    Args:
        settings: all settings, validated.
        watchers: who is told of progress.
        live_policy: an object of the caller's to evaluate, instead of what `settings.policy` names.
    """

    def __init__(
        self, settings: Settings, watchers: Sequence[Watcher] = (), live_policy: Policy | None = None
    ) -> None:
        self._settings, self._watchers = settings, watchers
        self._benchmark_name = settings.env.type.rpartition(":")[2]
        shard = Shard(settings.eval.shard_id, settings.eval.num_shards)
        self._directory = RunDirectory(output_directory(settings), shard if shard.of > 1 else None)
        self._preparation = Preparation(settings, self._directory.logs, live_policy)
        self._benchmark = self._preparation.benchmark
        self._plan = shard_of(make_plan(self._benchmark.tasks(), settings.eval.n_episodes, settings.seed), *shard)
        self._benchmark.check_installed()

    def run(self) -> Evaluation:
        """Run what is missing and write the result. Raises `UsageError` before anything has started."""
        self._directory.check_usable()
        path = self._directory.path
        created = [folder for folder in (path, *path.parents) if not folder.exists()]
        prepare_directory(self._directory.path, len(self._plan))
        try:
            return self._run()
        finally:
            # A command that was refused or stopped before its run began leaves nothing behind.
            self._directory.remove_if_unused(created)

    def _run(self) -> Evaluation:
        with ExitStack() as stack:
            stack.enter_context(RunLock(self._directory.path))
            self._directory.remove_leftovers()
            interrupts = stack.enter_context(Interrupts())
            self._preparation.keep_batch(self._directory.stored_identity())
            try:
                ready = self._preparation.prepare(stack, interrupts, self._tell)
            except Interrupted:
                return Evaluation(self._directory, self._plan, [], {}, interrupts.first)
            served = ready.served
            try:
                table = stack.enter_context(self._directory.table())
                episodes = self._settings.eval.n_episodes
                pending = open_run(table, ready.identity, self._plan, episodes, self._directory.path)
                table.set_meta("reproducible", served.spec.reproducible)
                self._directory.write_config(to_plain(self._settings))
                crew = self._crew(pending, ready)
                served = self._preparation.place(served, pending, crew.start)
                job = self._job(pending, ready, served, crew)
                session = table.begin_session(crew.start)
                self._announce(table, job, served)
            except BaseException:
                served.stop(0.0)
                raise
            ending = self._execute(job, served, table, interrupts, stack)
            return self._conclude(table, session, ending)

    def _crew(self, pending: Sequence[Episode], ready: Ready) -> Crew:
        asked = self._settings.eval.batch_size if self._settings.eval.use_async_envs else 1
        return crew_size(asked, max(1, len(pending)), usable_cores(), available_memory() // 2, ready.on_gpu)

    def _job(self, pending: Sequence[Episode], ready: Ready, served: Served, crew: Crew) -> Job:
        s = self._settings

        def video_path(episode: Episode) -> Path | None:
            if episode.index >= ready.videos:
                return None
            return self._directory.path / self._directory.video(episode.task, episode.index)

        return Job(
            plan=self._plan,
            pending=pending,
            crew=crew,
            recipe=self._preparation.recipe(ready, served),
            eval=s.eval,
            limits=s.limits,
            max_open_tasks=s.env.max_parallel_tasks,
            video_path=video_path,
            on_gpu=ready.on_gpu,
        )

    def _announce(self, table: EpisodeTable, job: Job, served: Served) -> None:
        if not self._settings.eval.use_async_envs:
            placement = "inline"
        elif self._preparation.live is not None:
            placement = "thread"
        else:
            placement = "central" if served.hosts else "worker"
        start = RunStart(
            plan=self._plan,
            already=table.records(),
            workers=job.crew.start,
            placement=placement,
            policy=self._settings.policy.path or self._settings.policy.type,
            benchmark=self._benchmark_name,
            directory=self._directory.path,
        )
        for watcher in self._watchers:
            watcher.started(start)
        for note in served.spec.notes:
            self._tell(note)

    def _execute(
        self, job: Job, served: Served, table: EpisodeTable, interrupts: Interrupts, stack: ExitStack
    ) -> Ending:
        try:
            if not self._settings.eval.use_async_envs:
                assert served.policy is not None
                os.environ.update(job.recipe.environment)  # before the simulator's first import
                return run_inline(job, self._benchmark, served.policy, table, self._watchers, interrupts)
            coordinator = Coordinator(job, table, self._watchers, interrupts, served.hosts)
            live = self._preparation.live
            if live is not None:
                size = self._preparation.spec.action_size
                coordinator.serve_live(HostThread(live, size, new_bell(stack), coordinator.blame))
            return coordinator.run()
        except ProctorError as error:
            return Ending(error=error)
        finally:
            for watcher in self._watchers:
                watcher.ended()

    def _conclude(self, table: EpisodeTable, session: int, ending: Ending) -> Evaluation:
        """Write the result, also of a run that was cut short."""
        error = ending.error
        records: list[EpisodeRecord] = []
        info: dict[str, Any] = {}
        try:
            table.end_session(session, ending.startup)
            records, info = write_result(self._directory, table, self._benchmark.tasks(), self._plan)
            self._directory.remove_leftovers()
        except ProctorError as problem:
            error = error or problem
        return Evaluation(self._directory, self._plan, records, info, ending.stopped_by, error)

    def _tell(self, message: str) -> None:
        for watcher in self._watchers:
            watcher.note(message)


def evaluate_settings(
    settings: Settings, watchers: Sequence[Watcher] = (), live_policy: Policy | None = None
) -> Evaluation:
    """Run one evaluation from validated settings."""
    if live_policy is not None and settings.policy.placement == "worker":
        raise UsageError("a live policy object runs in this process; give file.py:Name to run it in workers.")
    if settings.policy.python is not None:
        check_interpreter(settings)
    return Evaluator(settings, watchers, live_policy).run()


def output_directory(settings: Settings) -> Path:
    """Return where a run goes."""
    benchmark = settings.env.type.rpartition(":")[2]
    job_name = settings.job_name or f"{benchmark}_{settings.policy.type}"
    return (settings.output_dir or default_directory(job_name)).absolute()


def check_interpreter(settings: Settings) -> None:
    """Refuse a `--policy.python` that is not there, or that would not be used."""
    python = settings.policy.python
    if shutil.which(str(python)) is None:
        raise UsageError(f"--policy.python={python}: there is no such program.")
    if settings.policy.placement == "worker" or not settings.eval.use_async_envs:
        raise UsageError(
            "--policy.python runs the policy in a process of its own; leave out --policy.placement=worker "
            "and --eval.use_async_envs=false."
        )
