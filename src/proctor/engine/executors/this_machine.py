"""This machine as the place where episodes run: worker processes and a host for the policy, or this process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from proctor.config.settings import Settings
from proctor.engine.eventfd import EventFd
from proctor.engine.executors.inline import run_inline
from proctor.engine.executors.local import Coordinator
from proctor.engine.executors.protocol import Ending, RunContext, RunFacts, Workforce
from proctor.engine.executors.run_order import Feed, RunOrder
from proctor.engine.host_handle import HostThread
from proctor.engine.preparation import Preparation, PreparedRun
from proctor.engine.rollout import LocalActor
from proctor.engine.stopping import StopRules
from proctor.engine.warm_processes import WarmProcesses
from proctor.engine.workforce import WorkerRange, worker_range
from proctor.identity import Identity
from proctor.machine.processes import open_file_limit
from proctor.machine.resources import available_memory, usable_cores
from proctor.plan import Plan
from proctor.policies.protocol import LivePolicy
from proctor.store.outcomes import Outcomes
from proctor.store.run_directory import RunDirectory
from proctor.store.schema import Ledger
from proctor.types import Episode, Task


class ThisMachine:
    """Runs episodes here.

    Args:
        settings: all settings, validated.
        directory: where videos and logs go.
        live_policy: an object of the caller's to evaluate.
        feed: episodes that arrive while it runs, where not all are known at the start.
        warm: where processes are kept that can be used again.
    """

    def __init__(
        self,
        settings: Settings,
        directory: RunDirectory,
        live_policy: LivePolicy | None = None,
        feed: Feed | None = None,
        warm: WarmProcesses | None = None,
    ) -> None:
        self.settings, self.directory, self.feed, self.warm = settings, directory, feed, warm
        self.preparation = Preparation(settings, directory.logs, live_policy, warm, films_later=feed is None)

    @property
    def tasks(self) -> Sequence[Task]:
        """The benchmark's tasks."""
        return self.preparation.facts.tasks

    def prepare(
        self, context: RunContext, stored: Identity | None, pending: Sequence[Episode] = ()
    ) -> PreparedMachine:
        """Load the policy and find a renderer."""
        _, interrupts, watcher = context
        prepared = self.preparation.prepare(interrupts, watcher.note, stored, pending, watcher.doing)
        return PreparedMachine(self, prepared)


@dataclass(frozen=True)
class PreparedMachine:
    """This machine, with the policy loaded."""

    machine: ThisMachine
    prepared: PreparedRun

    @property
    def facts(self) -> RunFacts:
        """What results depend on, and what the user should read."""
        prepared = self.prepared
        return RunFacts(prepared.identity, prepared.policy.spec, prepared.notes)

    def staff(self, before: Outcomes, pending: Plan | None = None) -> LocalJob:
        """Decide how many workers there are, and whether the policy runs in them.

        `pending` is something like what is to run, where not all is known yet.
        """
        machine, pending = self.machine, before.pending if pending is None else pending
        settings = machine.settings
        workers = worker_range(
            settings.eval.batch_size if settings.eval.use_async_envs else 1,
            episodes=max(1, len(pending)),
            cores=usable_cores(),
            memory=available_memory() // 2,
            files=open_file_limit(),
            on_gpu=self.prepared.on_gpu,
        )
        prepared = machine.preparation.place(self.prepared, pending, workers.start)
        if prepared.policy.is_copied:
            workers = WorkerRange(workers.start, workers.start)  # each more would load the policy again
        order = RunOrder(
            settings=settings,
            directory=machine.directory,
            before=before,
            pending=pending if machine.feed is None else pending[:0],
            workers=workers,
            prepared=prepared,
            recipe=machine.preparation.recipe(prepared),
            copying=machine.preparation.copying(prepared),
            feed=machine.feed,
            warm=machine.warm,
        )
        return LocalJob(machine, order)

    def abandon(self) -> None:
        """End the hosts."""
        self.prepared.policy.stop(0.0)


@dataclass(frozen=True)
class LocalJob:
    """Episodes to run on this machine."""

    machine: ThisMachine
    order: RunOrder

    @property
    def workforce(self) -> Workforce:
        """How many workers begin, and where the policy runs."""
        if not self.machine.settings.eval.use_async_envs:
            placement = "inline"
        elif self.machine.preparation.live is not None:
            placement = "thread"
        else:
            placement = "central" if self.order.prepared.policy.hosts else "worker"
        workers = self.order.workers
        return Workforce(workers.start, placement, undecided=workers.most > 1 and self.order.may_be_copied)

    def run(self, context: RunContext, ledger: Ledger, rules: StopRules | None = None) -> Ending:
        """Run to the end, with workers, or without if the settings say so."""
        order, preparation = self.order, self.machine.preparation
        policy, action_size = order.prepared.policy, order.prepared.spec.action_size
        if not self.machine.settings.eval.use_async_envs:
            assert policy.local is not None
            os.environ.update(order.recipe.environment)  # before the simulator's first import
            actor = LocalActor(policy.local, action_size, policy.prove or (lambda: None))
            return run_inline(order, preparation.benchmark, actor, context, ledger, rules)
        coordinator = Coordinator(order, context, ledger, rules, policy.hosts)
        if preparation.live is not None:
            bell = context.stack.enter_context(closing(EventFd()))
            coordinator.serve_live(HostThread(preparation.live, action_size, bell, coordinator.blame))
        return coordinator.run()
