"""An evaluation from settings to result: settle everything, run, write the result."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import proctor
from proctor.benchmarks.gl import NO_GL, Renderer, find_renderer
from proctor.benchmarks.protocol import Benchmark, Episode
from proctor.config.registry import benchmark_path, load_object, policy_path
from proctor.config.settings import Settings
from proctor.config.wire import to_plain
from proctor.engine.coordinator import Coordinator
from proctor.engine.crew import WorkerRecipe
from proctor.engine.events import RunStart, Watcher
from proctor.engine.hosts import HostProcess, HostRecipe, HostThread, Interrupted
from proctor.engine.inline import run_inline
from proctor.engine.interrupts import Interrupts
from proctor.engine.job import Ending, Job
from proctor.engine.placement import choose_placement, worker_count
from proctor.engine.plan import make_plan
from proctor.engine.rollout import View
from proctor.engine.seat import check_fit
from proctor.errors import NoPicturesError, ProctorError, UsageError
from proctor.machine.cores import usable_cores
from proctor.machine.memory import available_memory
from proctor.policies.protocol import Policy, PolicySpec
from proctor.store.atomic import write_json
from proctor.store.episodes import EpisodeTable
from proctor.store.eval_info import build_eval_info
from proctor.store.filesystem import prepare_directory
from proctor.store.identity import UNKNOWN, Identity, cpu_kind, identity_fields, installed_versions
from proctor.store.lock import RunLock
from proctor.store.records import EpisodeRecord
from proctor.store.run_directory import RunDirectory, default_directory, open_run


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation came to. `error` and `stopped_by` say why it may be incomplete."""

    directory: Path
    plan: Sequence[Episode]
    records: Sequence[EpisodeRecord]
    info: dict[str, Any]
    stopped_by: signal.Signals | None = None
    error: ProctorError | None = None


@dataclass(frozen=True)
class Served:
    """A policy that is ready: what it needs, and who answers for it if not the workers themselves."""

    spec: PolicySpec
    policy: Policy | None = None
    hosts: Sequence[HostProcess] = ()

    def stop(self, patience: float) -> None:
        """End the hosts."""
        for host in self.hosts:
            host.stop(patience)


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
        self._settings, self._watchers, self._live = settings, watchers, live_policy
        self._benchmark_path = benchmark_path(settings.env.type)
        benchmark_class: type[Benchmark] = load_object(self._benchmark_path)
        self._benchmark = benchmark_class(settings.env)
        self._spec = self._benchmark.spec.renamed(settings.rename_map)
        self._plan = make_plan(self._benchmark.tasks(), settings.eval.n_episodes, settings.seed)
        self._benchmark.check_installed()
        self._policy_path = policy_path(settings.policy.type) if live_policy is None else ""
        self._benchmark_name = settings.env.type.rpartition(":")[2]
        job_name = settings.job_name or f"{self._benchmark_name}_{settings.policy.type}"
        self._directory = RunDirectory((settings.output_dir or default_directory(job_name)).absolute())
        self._videos = settings.eval.max_episodes_rendered

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
            try:
                served = self._prepare_policy(stack, interrupts)
            except Interrupted:
                return Evaluation(self._directory.path, self._plan, [], {}, interrupts.first)
            try:
                check_fit(served.spec, self._spec)
                renderer = self._choose_renderer(served.spec)
                identity = self._identity(served.spec, renderer)
                table = stack.enter_context(self._directory.table())
                pending = open_run(table, identity, self._plan, self._directory.path)
                self._directory.write_config(to_plain(self._settings))
                workers = self._worker_count(pending)
                served = self._place(served, pending, workers)
                job = self._job(pending, served, renderer, workers)
                session = table.begin_session(job.workers)
                self._announce(table, job, served)
            except BaseException:
                served.stop(0.0)
                raise
            ending = self._execute(job, served, table, interrupts, stack)
            return self._conclude(table, session, ending, identity, served.spec)

    def _prepare_policy(self, stack: ExitStack, interrupts: Interrupts) -> Served:
        """Load the policy where it will run, as far as that is known, and learn what it needs.

        The host is started first of all: a policy that does not load or does not fit is refused before any
        simulator starts. A light policy is cheap enough to be made here, only to be asked.
        """
        if self._live is not None:
            return Served(self._live.spec, policy=self._live)
        policy_class: type[Policy] = load_object(self._policy_path)
        settings = self._settings.policy
        inline = not self._settings.eval.use_async_envs
        if settings.python is None and (policy_class.light or inline):
            policy = policy_class.from_settings(settings, self._spec)
            if inline or settings.placement != "central":
                return Served(policy.spec, policy=policy)
        # All start loading before the first is waited for.
        hosts = [HostProcess(recipe, _new_bell(stack), generation=1) for recipe in self._host_recipes()]
        try:
            specs = [host.wait_ready(self._settings.limits, interrupts) for host in hosts]
            for spec, host in zip(specs, hosts, strict=True):
                if (spec.identity, spec.batch) != (specs[0].identity, specs[0].batch):
                    raise UsageError(
                        f"--policy.device names devices that give different bits: {specs[0].identity} and "
                        f"{spec.identity} ({host.recipe.settings.get('device')}). Use devices of one kind."
                    )
        except BaseException:
            for host in hosts:
                host.stop(0.0)
            raise
        return Served(specs[0], hosts=hosts)

    def _host_recipes(self) -> list[HostRecipe]:
        """Return a recipe per device that the policy is to run on."""
        settings = self._settings.policy
        devices = [name.strip() for name in (getattr(settings, "device", None) or "").split(",")]
        plain = to_plain(settings)
        return [
            HostRecipe(
                policy=self._policy_path,
                settings={**plain, "device": device} if device else plain,
                benchmark=self._spec.to_wire(),
                log=self._directory.logs / ("host.log" if number == 0 else f"host-{number}.log"),
                python=settings.python,
            )
            for number, device in enumerate(devices)
        ]

    def _place(self, served: Served, pending: Sequence[Episode], workers: int) -> Served:
        """Decide where the policy runs, now that it is known what it costs and how much it has to do."""
        asked = self._settings.policy.placement
        if not served.hosts or asked == "central" or self._settings.policy.python is not None:
            return served
        if asked == "auto":
            asks = sum(episode.task.max_steps for episode in pending) / (served.spec.action_steps or 1)
            cost = served.hosts[0].cost if len(served.hosts) == 1 else None
            asked = choose_placement(cost, asks, workers, usable_cores(), available_memory() // 2)
        if asked == "central":
            return served
        served.stop(1.0)
        return Served(served.spec)

    def _choose_renderer(self, spec: PolicySpec) -> Renderer | None:
        """Find a GL that works if anything will be drawn; without one, videos are left out."""
        looks = View.of(spec, self._spec).drawn
        if not self._benchmark.uses_gl or not (looks or self._videos):
            return None
        try:
            return find_renderer()
        except NoPicturesError as error:
            if looks:
                raise
            self._videos = 0
            self._tell(f"no videos: {error}")
            return None

    def _gl_environment(self, renderer: Renderer | None) -> dict[str, str]:
        if not self._benchmark.uses_gl:
            return {}
        return NO_GL if renderer is None else renderer.env

    def _identity(self, spec: PolicySpec, renderer: Renderer | None) -> Identity:
        looks = View.of(spec, self._spec).drawn
        fingerprint = spec.fingerprint
        if fingerprint is None:
            # Nobody can tell whether it is the same policy next time: such a run is never resumed.
            fingerprint = f"{UNKNOWN} {uuid.uuid4()}"
        return cast(
            Identity,
            to_plain(
                {
                    "env": identity_fields(self._settings.env),
                    "tasks": [task.name for task in self._benchmark.tasks()],
                    "prompts": [task.prompt for task in self._benchmark.tasks()],
                    "seed": self._settings.seed,
                    "policy": {
                        "type": self._settings.policy.type,
                        "fingerprint": fingerprint,
                        "batch": spec.batch,
                        **spec.identity,
                    },
                    "rename_map": self._settings.rename_map,
                    "renderer": renderer.name if renderer is not None and looks else None,
                    "cpu": cpu_kind(),
                    "versions": installed_versions(self._benchmark.distributions()),
                }
            ),
        )

    def _worker_count(self, pending: Sequence[Episode]) -> int:
        asked = self._settings.eval.batch_size if self._settings.eval.use_async_envs else 1
        return worker_count(asked, max(1, len(pending)), usable_cores())

    def _job(self, pending: Sequence[Episode], served: Served, renderer: Renderer | None, workers: int) -> Job:
        s = self._settings
        in_worker = not served.hosts and self._live is None
        recipe = WorkerRecipe(
            benchmark=self._benchmark_path,
            env=to_plain(s.env),
            policy_spec=served.spec.to_wire(),
            logs=self._directory.logs,
            environment=self._gl_environment(renderer),
            policy=self._policy_path if in_worker else None,
            policy_settings=to_plain(s.policy) if in_worker else None,
            video_fps=s.eval.video_fps,
            rename_map=s.rename_map,
        )
        return Job(
            plan=self._plan,
            pending=pending,
            workers=workers,
            recipe=recipe,
            eval=s.eval,
            limits=s.limits,
            max_open_tasks=s.env.max_parallel_tasks,
            video_path=self._video_path,
        )

    def _announce(self, table: EpisodeTable, job: Job, served: Served) -> None:
        if not self._settings.eval.use_async_envs:
            placement = "inline"
        elif self._live is not None:
            placement = "thread"
        else:
            placement = "central" if served.hosts else "worker"
        start = RunStart(
            plan=self._plan,
            already=table.records(),
            workers=job.workers,
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
            if self._live is not None:
                size = self._spec.action_size
                coordinator.serve_live(HostThread(self._live, size, _new_bell(stack), coordinator.blame))
            return coordinator.run()
        except ProctorError as error:
            return Ending(error=error)
        finally:
            for watcher in self._watchers:
                watcher.ended()

    def _video_path(self, episode: Episode) -> Path | None:
        if episode.index >= self._videos:
            return None
        return self._directory.path / self._directory.video(episode.task, episode.index)

    def _conclude(
        self, table: EpisodeTable, session: int, ending: Ending, identity: Identity, spec: PolicySpec
    ) -> Evaluation:
        """Write the result, also of a run that was cut short."""
        error = ending.error
        records: list[EpisodeRecord] = []
        info: dict[str, Any] = {}
        try:
            table.end_session(session, ending.startup)
            planned = {episode.key for episode in self._plan}
            records = [record for record in table.records() if record.key in planned]
            wall, startup = table.wall_and_startup()
            info = build_eval_info(
                self._benchmark.tasks(),
                records,
                directory=self._directory.path,
                wall_seconds=wall,
                startup_seconds=startup,
                versions=self._versions(identity),
                run={
                    "complete": len(records) == len(self._plan),
                    "n_planned": len(self._plan),
                    "seed": self._settings.seed,
                    "reproducible": spec.reproducible,
                    "identity": identity,
                },
            )
            write_json(self._directory.eval_info, info)
            self._directory.remove_leftovers()
        except ProctorError as problem:
            error = error or problem
        return Evaluation(self._directory.path, self._plan, records, info, ending.stopped_by, error)

    def _versions(self, identity: Identity) -> dict[str, str]:
        return {
            "proctor": proctor.__version__,
            "python": platform.python_version(),
            **identity["versions"],
            **({"gl_renderer": identity["renderer"]} if identity["renderer"] else {}),
            "cpu": identity["cpu"],
        }

    def _tell(self, message: str) -> None:
        for watcher in self._watchers:
            watcher.note(message)


def _new_bell(stack: ExitStack) -> int:
    bell = os.eventfd(0, os.EFD_CLOEXEC)
    stack.callback(os.close, bell)
    return bell


def evaluate_settings(
    settings: Settings, watchers: Sequence[Watcher] = (), live_policy: Policy | None = None
) -> Evaluation:
    """Run one evaluation from validated settings."""
    if live_policy is not None and settings.policy.placement == "worker":
        raise UsageError("a live policy object runs in this process; give file.py:Name to run it in workers.")
    if settings.policy.python is not None:
        _check_interpreter(settings)
    return Evaluator(settings, watchers, live_policy).run()


def _check_interpreter(settings: Settings) -> None:
    python = settings.policy.python
    if shutil.which(str(python)) is None:
        raise UsageError(f"--policy.python={python}: there is no such program.")
    if settings.policy.placement == "worker" or not settings.eval.use_async_envs:
        raise UsageError(
            "--policy.python runs the policy in a process of its own; leave out --policy.placement=worker "
            "and --eval.use_async_envs=false."
        )
