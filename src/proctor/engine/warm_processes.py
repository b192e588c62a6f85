"""Workers and hosts that no run uses yet, or any more: simulators, GL contexts and imports with them.

Those of an `Evaluator` stay between its runs. Workers also start before their run does, while its policy loads.

A process is used again only if it would be as good as a new one: started in the same surroundings, with the same
benchmark, by content, and a policy that is the same or can be loaded anew. Otherwise it ends and a new one starts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proctor.benchmarks.rendering import Renderer, find_renderer
from proctor.engine.host_handle import Host, HostHandle, HostRecipe
from proctor.engine.queue import TaskKey
from proctor.engine.worker_handle import WorkerHandle, WorkerRecipe

_POLITE_SECONDS = 3.0


class WarmProcesses:
    """The processes that no run is using right now."""

    def __init__(self) -> None:
        self._workers: list[WorkerHandle] = []
        self._hosts: list[HostHandle] = []
        self._renderers: dict[str | None, Renderer] = {}
        self._surroundings: Any = None
        self._process = os.getpid()

    def begin_run(self) -> None:
        """End what was started in other surroundings: a child has those of its start for ever."""
        try:
            folder = Path.cwd()
        except OSError:  # somebody has deleted it
            folder = None
        surroundings = os.getpid(), dict(os.environ), list(sys.path), folder
        if surroundings != self._surroundings:
            self.close()
        self._surroundings = surroundings

    def worker(self, number: int, recipe: WorkerRecipe, host: Host | None) -> WorkerHandle | None:
        """Return a worker that fits the recipe, at work for a run from now on, if there is one."""
        while self._workers:
            worker = self._workers.pop(0)
            if not worker.child.has_ended and worker.fits(recipe):
                worker.join(number, recipe, host)
                return worker
            self._end_worker(worker)
        return None

    @property
    def next_task(self) -> TaskKey | None:
        """The task whose simulator the next worker has."""
        return self._workers[0].held_task if self._workers else None

    def keep_workers(self, workers: Sequence[WorkerHandle]) -> None:
        """Take workers that have nothing to do any more."""
        for worker in workers:
            worker.leave()
        self._workers += workers

    def host(self, recipe: HostRecipe) -> HostHandle | None:
        """Return a host that loads what the recipe says, if there is one that can."""
        while self._hosts:
            host = self._hosts.pop(0)
            if not host.child.has_ended and host.can_load(recipe):
                host.load(recipe)
                return host
            host.stop(0.0)
        return None

    def keep_hosts(self, hosts: Sequence[HostHandle]) -> None:
        """Take hosts that nobody asks any more; those that can load another policy forget theirs meanwhile."""
        for host in hosts:
            if host.recipe.reloads:
                host.unload()
                self._hosts.append(host)
            else:
                host.stop(_POLITE_SECONDS)

    def renderer(self, python: str | None) -> Renderer:
        """Return what draws here, found out once."""
        if python not in self._renderers:
            self._renderers[python] = find_renderer(python)
        return self._renderers[python]

    def close(self, patience: float = _POLITE_SECONDS) -> None:
        """End all processes."""
        workers, hosts = self._workers, self._hosts
        self._workers, self._hosts = [], []
        self._renderers.clear()
        if self._process != os.getpid():
            self._process = os.getpid()
            return  # this is a fork: they are the children of another, which uses them
        for worker in workers:
            worker.child.ask_to_stop()  # all at once, before the first is waited for
        for worker in workers:
            self._end_worker(worker, patience)
        for host in hosts:
            host.stop(patience)

    def _end_worker(self, worker: WorkerHandle, patience: float = _POLITE_SECONDS) -> None:
        worker.child.ask_to_stop()
        worker.child.reap(patience)
        worker.slot.close()
