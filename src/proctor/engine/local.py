"""This machine as the place where episodes run: worker processes, and a host for the policy."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from proctor.config.settings import Settings
from proctor.engine.bell import Bell
from proctor.engine.coordinator import Coordinator
from proctor.engine.feed import Feed
from proctor.engine.hosts import HostThread
from proctor.engine.inline import run_inline
from proctor.engine.interrupts import Interrupts
from proctor.engine.job import Ending, Job
from proctor.engine.placement import Crew, crew_size
from proctor.engine.preparation import Preparation, Ready, Served, new_bell
from proctor.engine.rollout import LocalActor
from proctor.engine.site import Settled, Staff
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
        self._ready: Ready
        self._served: Served
        self._job: Job
        self._bell: Bell | None = None

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
    ) -> Settled:
        """Load the policy and find a renderer."""
        self._preparation.keep_batch(stored)
        self._ready = self._preparation.prepare(stack, interrupts, tell)
        self._served = self._ready.served
        if self._preparation.live is not None:
            self._bell = new_bell(stack)
        return Settled(self._ready.identity, self._served.spec.reproducible, self._ready.notes)

    def staff(self, before: Outcomes, pending: Plan) -> Staff:
        """Decide how many workers there are, and whether the policy runs in them."""
        crew = self._crew(pending)
        self._served = self._preparation.place(self._served, pending, crew.start)
        if self._served.is_copied:
            crew = Crew(crew.start, crew.start)  # each more would load the policy again
        self._job = self._make_job(before, pending, crew)
        return Staff(crew.start, self._placement())

    def _crew(self, pending: Plan) -> Crew:
        asked = self._settings.eval.batch_size if self._settings.eval.use_async_envs else 1
        return crew_size(
            asked,
            episodes=max(1, len(pending)),
            cores=usable_cores(),
            memory=available_memory() // 2,
            files=open_file_limit(),
            on_gpu=self._ready.on_gpu,
        )

    def _placement(self) -> str:
        if not self._settings.eval.use_async_envs:
            return "inline"
        if self._preparation.live is not None:
            return "thread"
        return "central" if self._served.hosts else "worker"

    def _make_job(self, before: Outcomes, pending: Plan, crew: Crew) -> Job:
        s, directory, videos = self._settings, self._directory, self._ready.videos

        # Without `self`, which holds the job: a circle would keep the hosts' memory until it is collected.
        def video_path(episode: Episode) -> Path | None:
            return (
                None if episode.index >= videos else directory.path / directory.video(episode.task, episode.index)
            )

        def recording_path(episode: Episode) -> Path | None:
            return directory.recording(episode.task, episode.index) if s.eval.recording else None

        return Job(
            pending=pending if self._feed is None else pending[:0],
            before=before,
            crew=crew,
            recipe=self._preparation.recipe(self._ready, self._served),
            eval=s.eval,
            limits=s.limits,
            max_open_tasks=s.env.max_parallel_tasks,
            video_path=video_path,
            recording_path=recording_path,
            on_gpu=self._ready.on_gpu,
            place=f"shard {directory.shard.number}/" if directory.shard is not None else "",
        )

    def run(self, ledger: Ledger, watchers: Sequence[Watcher], interrupts: Interrupts) -> Ending:
        """Run to the end, with workers, or without if the settings say so."""
        job, served = self._job, self._served
        if not self._settings.eval.use_async_envs:
            assert served.policy is not None
            os.environ.update(job.recipe.environment)  # before the simulator's first import
            actor = LocalActor(served.policy, job.recipe.spec["action_size"], served.prove or (lambda: None))
            return run_inline(job, self._preparation.benchmark, actor, ledger, watchers, interrupts)
        coordinator = Coordinator(job, ledger, watchers, interrupts, served.hosts, self._feed)
        live = self._preparation.live
        if live is not None:
            assert self._bell is not None
            size = self._preparation.spec.action_size
            coordinator.serve_live(HostThread(live, size, self._bell, coordinator.blame))
        return coordinator.run()

    def abandon(self) -> None:
        """End the hosts."""
        self._served.stop(0.0)
