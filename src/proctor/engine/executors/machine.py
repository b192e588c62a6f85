"""This machine as the place where episodes run: worker processes and a host for the policy, or this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from proctor.config.settings import Settings
from proctor.engine.executors.inline import run_inline
from proctor.engine.executors.local import Coordinator, Feed, RunOrder
from proctor.engine.executors.protocol import Ending, RunFacts, Workforce
from proctor.engine.handles import HostThread
from proctor.engine.interrupts import Interrupts
from proctor.engine.preparation import Preparation, PreparedRun, new_bell
from proctor.engine.rollout import LocalActor
from proctor.engine.stopping import StopRules
from proctor.engine.workforce import WorkerRange, worker_range
from proctor.events import Watcher
from proctor.machine.processes import open_file_limit
from proctor.machine.resources import available_memory, usable_cores
from proctor.plan import Plan
from proctor.policies.protocol import Policy
from proctor.store.identity import Identity
from proctor.store.outcomes import Outcomes
from proctor.store.run_directory import RunDirectory
from proctor.store.schema import Ledger
from proctor.types import Episode, Task


class ThisMachine:
    """Runs episodes here.

    Args:
        settings: all settings, validated.
        directory: where videos and logs go.
        live_policy: an object of the caller's to evaluate, instead of what `settings.policy` names.
        feed: episodes that arrive while it runs, where not all are known at the start.
    """

    def __init__(
        self,
        settings: Settings,
        directory: RunDirectory,
        live_policy: Policy | None = None,
        feed: Feed | None = None,
    ) -> None:
        self._settings, self._directory, self._feed = settings, directory, feed
        self._preparation = Preparation(settings, directory.logs, live_policy)

    @property
    def tasks(self) -> Sequence[Task]:
        """The benchmark's tasks."""
        return self._preparation.facts.tasks

    def prepare(
        self,
        stack: ExitStack,
        interrupts: Interrupts,
        stored: Identity | None,
        tell: Callable[[str], None],
    ) -> PreparedMachine:
        """Load the policy and find a renderer."""
        prepared = self._preparation.prepare(stack, interrupts, tell, stored)
        return PreparedMachine(self._settings, self._directory, self._preparation, prepared, stack, self._feed)


@dataclass(frozen=True)
class PreparedMachine:
    """This machine, with the policy loaded."""

    settings: Settings
    directory: RunDirectory
    preparation: Preparation
    prepared: PreparedRun
    stack: ExitStack
    feed: Feed | None

    @property
    def facts(self) -> RunFacts:
        """What results depend on, and what the user should read."""
        prepared = self.prepared
        return RunFacts(prepared.identity, prepared.policy.spec.reproducible, prepared.notes)

    def staff(self, before: Outcomes) -> LocalJob:
        """Decide how many workers there are, and whether the policy runs in them."""
        return self.staff_for(before, before.pending)

    def staff_for(self, before: Outcomes, pending: Plan) -> LocalJob:
        """Do so where something like `pending` is to run, of which not all is known yet."""
        workers = self._worker_range(pending)
        prepared = self.preparation.place(self.prepared, pending, workers.start)
        if prepared.policy.is_copied:
            workers = WorkerRange(workers.start, workers.start)  # each more would load the policy again
        order = self._order(prepared, before, pending, workers)
        return LocalJob(self, prepared, order, Workforce(workers.start, self._placement(prepared)))

    def _worker_range(self, pending: Plan) -> WorkerRange:
        asked = self.settings.eval.batch_size if self.settings.eval.use_async_envs else 1
        return worker_range(
            asked,
            episodes=max(1, len(pending)),
            cores=usable_cores(),
            memory=available_memory() // 2,
            files=open_file_limit(),
            on_gpu=self.prepared.on_gpu,
        )

    def _placement(self, prepared: PreparedRun) -> str:
        if not self.settings.eval.use_async_envs:
            return "inline"
        if self.preparation.live is not None:
            return "thread"
        return "central" if prepared.policy.hosts else "worker"

    def _order(self, prepared: PreparedRun, before: Outcomes, pending: Plan, workers: WorkerRange) -> RunOrder:
        s, directory, videos = self.settings, self.directory, prepared.videos

        # Without `self`: a circle would keep the hosts' memory until it is collected.
        def video_path(episode: Episode) -> Path | None:
            return (
                None if episode.index >= videos else directory.path / directory.video(episode.task, episode.index)
            )

        def recording_path(episode: Episode) -> Path | None:
            return directory.recording(episode.key) if s.eval.recording else None

        return RunOrder(
            pending=pending if self.feed is None else pending[:0],
            before=before,
            workers=workers,
            recipe=self.preparation.recipe(prepared),
            eval=s.eval,
            limits=s.limits,
            max_open_tasks=s.env.max_parallel_tasks,
            video_path=video_path,
            recording_path=recording_path,
            on_gpu=prepared.on_gpu,
            place=f"shard {directory.shard.number}/" if directory.shard is not None else "",
        )

    def abandon(self) -> None:
        """End the hosts."""
        self.prepared.policy.stop(0.0)


@dataclass(frozen=True)
class LocalJob:
    """Episodes to run on this machine."""

    machine: PreparedMachine
    prepared: PreparedRun
    order: RunOrder
    workforce: Workforce

    def run(
        self,
        ledger: Ledger,
        watchers: Sequence[Watcher],
        interrupts: Interrupts,
        rules: StopRules | None = None,
    ) -> Ending:
        """Run to the end, with workers, or without if the settings say so."""
        order, policy, preparation = self.order, self.prepared.policy, self.machine.preparation
        if not self.machine.settings.eval.use_async_envs:
            assert policy.local is not None
            os.environ.update(order.recipe.environment)  # before the simulator's first import
            actor = LocalActor(policy.local, self.prepared.spec.action_size, policy.prove or (lambda: None))
            return run_inline(order, preparation.benchmark, actor, ledger, watchers, interrupts, rules)
        coordinator = Coordinator(order, ledger, watchers, interrupts, rules, policy.hosts, self.machine.feed)
        if preparation.live is not None:
            size, bell = self.prepared.spec.action_size, new_bell(self.machine.stack)
            coordinator.serve_live(HostThread(preparation.live, size, bell, coordinator.blame))
        return coordinator.run()
