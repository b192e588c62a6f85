"""So many successes of every task (`--eval.demonstrations`): which episodes are still needed for them, and which
are the ones.

The demonstrations of a task are its first successes by index, whichever ended first. So they are the same for any
number of workers, and after any crash: what ended beyond the last of them is kept, and not among them.
"""

from __future__ import annotations

from bisect import insort

import numpy as np
from numpy.typing import NDArray

from proctor.engine.queue import EpisodeQueue, TaskKey
from proctor.engine.stopping import Stop
from proctor.errors import RunError
from proctor.store.outcomes import SUCCESS, Outcomes
from proctor.store.schema import EpisodeRecord


class DemonstrationQuota:
    """The successes that a run has come to, and how many it lacks.

    Args:
        before: what of the plan has ended.
        wanted: successes of every task.
    """

    def __init__(self, before: Outcomes, wanted: int) -> None:
        self._plan, self._wanted, self._before = before.plan, wanted, before
        self._places: dict[TaskKey, list[int]] = {}
        for number, task in enumerate(before.plan.all_tasks):
            places = before.of_task(number)
            self._places[task.group, task.task_id] = places[before["state"][places] == SUCCESS].tolist()

    @property
    def places(self) -> NDArray[np.int64]:
        """Where in the plan the demonstrations are, ascending: of every task its first successes."""
        chosen = [np.asarray(places[: self._wanted], np.int64) for places in self._places.values()]
        return np.sort(np.concatenate(chosen))

    @property
    def lacking(self) -> dict[TaskKey, int]:
        """How many successes each task lacks that has too few."""
        found = {key: self._wanted - len(places) for key, places in self._places.items()}
        return {key: count for key, count in found.items() if count > 0}

    @property
    def stop(self) -> Stop | None:
        """Where the run ends whose episodes have ended so; `None` if some are still to run.

        Its rates are those of as many episodes of every task as it is to have successes. They run whatever comes
        of them, so they are a fair sample. What only some tasks need, because others failed, is none.
        """
        states = self._before["state"]
        for number, places in enumerate(self._places.values()):
            own = np.flatnonzero(self._plan.numbers == number)
            last = places[self._wanted - 1] if len(places) >= self._wanted else len(self._plan)
            if not states[own[own <= last]].all():
                return None
        found = {"decision": "recorded", "played": self._before.ended}
        return Stop(self._wanted * len(self._places), f"{self._wanted} demonstrations of every task", found)

    @property
    def problem(self) -> RunError | None:
        """What to say if all episodes have ended and successes are lacking."""
        lacking, episodes = self.lacking, self._plan.n_episodes
        if not lacking or self.stop is None:
            return None
        names = {(task.group, task.task_id): task.name for task in self._plan.all_tasks}
        (first, missing), others = next(iter(lacking.items())), len(lacking) - 1
        more = f", and {others} other task{'' if others == 1 else 's'} too few" if others else ""
        return RunError(
            f"{names[first]} has {self._wanted - missing} of {self._wanted} demonstrations after {episodes} "
            f"episodes{more}. The dataset has what there is. Let it try more: --eval.n_episodes={2 * episodes}"
        )

    def add(self, record: EpisodeRecord) -> bool:
        """Take an episode that has ended; returns whether it has succeeded."""
        place = self._plan.place_of(record.key)
        if place is None or not record.success:
            return False
        insort(self._places[record.key[:2]], place)
        return True

    def restrict_all(self, queue: EpisodeQueue) -> None:
        """Take from a queue all that no task needs any more."""
        for key in self._places:
            self.restrict(queue, key)

    def restrict(self, queue: EpisodeQueue, key: TaskKey) -> None:
        """Take from a queue what a task no longer needs.

        While successes are lacking, no more episodes are in flight than could be all of them. Then only what comes
        before the last of them may still run: one that is tried again.
        """
        places = self._places[key]
        lacking = self._wanted - len(places)
        queue.set_most(key, lacking if lacking > 0 else None)
        if lacking <= 0:
            queue.drop_behind(key, places[self._wanted - 1])
