"""The queue: which episode a worker runs next. It decides when, never what, an episode yields.

Episodes near the head of the plan go first, so that its finished prefix grows, which stopping rules read. Inside
a window a worker keeps its task, because switching means building another simulator. Beyond that no worker idles
while episodes remain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from proctor.config.settings import MOST_EPISODES
from proctor.plan import Plan
from proctor.types import Episode

TaskKey = tuple[str, int]

NOTHING = MOST_EPISODES
"""The head of a task of which no episode waits: behind every place."""

LEAST_ROUNDS = 2
MOST_BUILDING = 0.05
"""The share of the time that building simulators may take: the shorter episodes are, the longer a worker stays."""


def task_key(episode: Episode) -> TaskKey:
    """Return what a built simulator is good for."""
    return (episode.task.group, episode.task.task_id)


class EpisodeQueue:
    """Episodes still to be handed out, by task.

    Args:
        plan: the whole plan, which gives every episode its place.
        pending: the part of it that is to run.
        max_open_tasks: how many tasks may be in flight at once; 0: no limit.
    """

    def __init__(self, plan: Plan, pending: Iterable[Episode], max_open_tasks: int = 0) -> None:
        self._plan = plan
        self._waiting = {key: _Waiting(places) for key, places in _by_task(plan, pending)}
        self._length = sum(map(len, self._waiting.values()))
        self._tasks = max(1, len(plan.tasks))
        self._window = LEAST_ROUNDS * self._tasks
        self._max_open = max_open_tasks
        self._in_flight: Counter[TaskKey] = Counter()
        self._most: dict[TaskKey, int] = {}

    def __len__(self) -> int:
        return self._length

    def put_back(self, episode: Episode) -> None:
        """Add an episode at its place of the plan: a new one, or one whose attempt came to nothing."""
        place = self._plan.place_of(episode.key)
        if place is None:
            raise KeyError(episode.key)
        self._waiting[task_key(episode)].put_back(place)
        self._length += 1

    def set_costs(self, build_seconds: float, episode_seconds: float) -> None:
        """Tell what a switch and an episode cost, so that workers stay with a task for long enough."""
        rounds = build_seconds / (MOST_BUILDING * max(episode_seconds, 1e-6))
        self._window = max(LEAST_ROUNDS, round(rounds)) * self._tasks

    def set_most(self, key: TaskKey, most: int | None) -> None:
        """Let at most so many episodes of a task be in flight at once; `None`: any number."""
        self._most[key] = MOST_EPISODES if most is None else most

    def drop_behind(self, key: TaskKey, place: int) -> None:
        """Forget the waiting episodes of a task behind a place of the plan."""
        before = len(self._waiting[key])
        self._waiting[key].drop_behind(place)
        self._length -= before - len(self._waiting[key])

    def take(self, held: TaskKey | None) -> Episode | None:
        """Return the next episode for a worker that has a simulator for `held`, or `None`: it must wait."""
        heads = {
            key: waiting.head
            for key, waiting in self._waiting.items()
            if waiting.head != NOTHING and self._may_open(key)
        }
        if not heads:
            return None
        limit = min(heads.values()) + self._window
        if held in heads and heads[held] < limit:
            return self._hand_out(held)
        # A task that nobody works on keeps the simulators of the others in use.
        near = [key for key, head in heads.items() if head < limit]
        return self._hand_out(min(near, key=lambda key: (self._in_flight[key] > 0, heads[key])))

    def ended(self, episode: Episode) -> None:
        """Note that an episode which was handed out is no longer in flight, whatever came of it."""
        self._in_flight[task_key(episode)] -= 1

    def _hand_out(self, key: TaskKey) -> Episode:
        self._length -= 1
        self._in_flight[key] += 1
        return self._plan[self._waiting[key].take()]

    def _may_open(self, key: TaskKey) -> bool:
        if self._in_flight[key] >= self._most.get(key, MOST_EPISODES):
            return False
        if not self._max_open or self._in_flight[key] > 0:
            return True
        return sum(count > 0 for count in self._in_flight.values()) < self._max_open


class _Waiting:
    """The places of one task's episodes: those that nobody has had yet, in order, and those that came back."""

    def __init__(self, places: NDArray[np.int64]) -> None:
        self._fresh, self._next = places, 0
        self._returned: list[int] = []
        self.head = int(places[0]) if len(places) else NOTHING

    def __len__(self) -> int:
        return len(self._fresh) - self._next + len(self._returned)

    def put_back(self, place: int) -> None:
        heappush(self._returned, place)
        self.head = min(place, self.head)

    def take(self) -> int:
        taken = self.head
        if self._returned and self._returned[0] == taken:
            heappop(self._returned)
        else:
            self._next += 1
        self._find_head()
        return taken

    def drop_behind(self, place: int) -> None:
        self._fresh = self._fresh[: max(self._next, int(np.searchsorted(self._fresh, place, "right")))]
        self._returned = [returned for returned in self._returned if returned <= place]
        heapify(self._returned)
        self._find_head()

    def _find_head(self) -> None:
        fresh = int(self._fresh[self._next]) if self._next < len(self._fresh) else NOTHING
        self.head = min(fresh, self._returned[0]) if self._returned else fresh


def _by_task(plan: Plan, pending: Iterable[Episode]) -> Iterator[tuple[TaskKey, NDArray[np.int64]]]:
    keys = [(task.group, task.task_id) for task in plan.all_tasks]
    places = np.sort(plan.places_of(pending))
    order = np.argsort(plan.numbers[places], kind="stable")
    counts = np.bincount(plan.numbers[places], minlength=len(plan.all_tasks))
    yield from zip(keys, np.split(places[order], np.cumsum(counts)[:-1]), strict=True)
