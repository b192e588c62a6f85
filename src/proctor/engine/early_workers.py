"""Workers that import and build simulators while the policy is loaded: the slower of the two is waited for."""

from __future__ import annotations

from collections.abc import Sequence

from proctor.engine.warm_processes import WarmProcesses
from proctor.engine.worker_handle import WorkerHandle, WorkerRecipe
from proctor.types import Episode


class EarlyWorkers:
    """Starts them one after the other, so that nobody takes the core on which the policy is imported.

    Args:
        recipe: what they need to start.
        episodes: whose simulators they build, one each.
        at_once: how many build at the same time.
    """

    def __init__(self, recipe: WorkerRecipe, episodes: Sequence[Episode], at_once: int) -> None:
        self._recipe, self._episodes, self._at_once = recipe, episodes, max(1, at_once)
        self._workers: list[WorkerHandle] = []
        self._has_room = True
        self.kept = WarmProcesses()
        """Where the run finds them."""

    def go_on(self) -> None:
        """Start those for whom there is a core by now."""
        building = sum(not (worker.is_ready or worker.child.has_ended) for worker in self._workers)
        left = self._episodes[len(self._workers) :] if self._has_room else ()
        for episode in left[: max(0, self._at_once - building)]:
            try:
                worker = WorkerHandle(len(self._workers), self._recipe, None)
            except OSError:
                self._has_room = False  # the run finds out by itself
                break
            worker.build(episode)
            self._workers.append(worker)
            self.kept.keep_workers([worker])

    def __str__(self) -> str:
        """Say how many simulators are built."""
        return f"simulators {sum(worker.is_ready for worker in self._workers)}/{len(self._episodes)}"
