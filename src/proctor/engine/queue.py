"""The queue: which episode a worker runs next. It decides when, never what, an episode yields.

Episodes near the head of the plan go first, so that its finished prefix grows, which stopping rules read. Inside
a window a worker keeps its task, because switching means building another simulator. Beyond that no worker idles
while episodes remain.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Sequence

from proctor.benchmarks.protocol import Episode

TaskKey = tuple[str, int]

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

    def __init__(self, plan: Sequence[Episode], pending: Iterable[Episode], max_open_tasks: int = 0) -> None:
        self._place = {episode.key: place for place, episode in enumerate(plan)}
        self._waiting: dict[TaskKey, list[tuple[int, Episode]]] = {}
        for episode in pending:
            self.put_back(episode)
        self._tasks = max(1, len({task_key(episode) for episode in plan}))
        self._window = LEAST_ROUNDS * self._tasks
        self._max_open = max_open_tasks
        self._in_flight: Counter[TaskKey] = Counter()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def put_back(self, episode: Episode) -> None:
        """Add an episode at its place of the plan: a new one, or one whose attempt came to nothing."""
        entry = (self._place[episode.key], episode)
        insort(self._waiting.setdefault(task_key(episode), []), entry, key=lambda item: item[0])

    def set_costs(self, build_seconds: float, episode_seconds: float) -> None:
        """Tell what a switch and an episode cost, so that workers stay with a task for long enough."""
        rounds = build_seconds / (MOST_BUILDING * max(episode_seconds, 1e-6))
        self._window = max(LEAST_ROUNDS, round(rounds)) * self._tasks

    def take(self, held: TaskKey | None) -> Episode | None:
        """Return the next episode for a worker that has a simulator for `held`, or `None`: it must wait."""
        heads = {key: entries[0][0] for key, entries in self._waiting.items() if entries and self._may_open(key)}
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
        _, episode = self._waiting[key].pop(0)
        self._in_flight[key] += 1
        return episode

    def _may_open(self, key: TaskKey) -> bool:
        if not self._max_open or self._in_flight[key] > 0:
            return True
        return sum(count > 0 for count in self._in_flight.values()) < self._max_open
