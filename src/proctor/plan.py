"""The plan: config in, a fixed sequence of episodes out. Nothing is decided later.

Episodes are made when they are asked for: a plan of a million takes no more memory than its tasks. An episode's
*place* is its index in the plan; whatever is kept of every episode is kept by place, in arrays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from proctor.config.settings import MOST_EPISODES
from proctor.errors import UsageError, did_you_mean
from proctor.files import clip
from proctor.types import Episode, EpisodeKey, Task

Places = range | NDArray[np.int64]


_MOST_TEXT = 60_000
"""Bytes of a task's group, name and prompt together: they travel with every first question of an episode."""


class Plan(Sequence[Episode]):
    """Episode 0 of every task, then episode 1 of every task, and so on; or a part of that, in the same order.

    Args:
        tasks: the tasks of the whole plan.
        n_episodes: how many episodes each has.
        seed: episode i of every task runs with `seed + i`, as in LeRobot.
        within: the places of the whole plan that this part has, ascending; all of them by default.
    """

    def __init__(self, tasks: Sequence[Task], n_episodes: int, seed: int, within: Places | None = None) -> None:
        self._tasks, self._n_episodes, self._seed = tasks, n_episodes, seed
        self._within = range(n_episodes * len(tasks)) if within is None else within
        self._number = {(task.group, task.task_id): number for number, task in enumerate(tasks)}

    def __len__(self) -> int:
        return len(self._within)

    @overload
    def __getitem__(self, place: int) -> Episode: ...

    @overload
    def __getitem__(self, place: slice) -> Plan: ...

    def __getitem__(self, place: int | slice) -> Episode | Plan:
        if isinstance(place, slice):
            return Plan(self._tasks, self._n_episodes, self._seed, self._within[place])
        index, number = divmod(int(self._within[place]), len(self._tasks))
        return Episode(self._tasks[number], index, self._seed + index)

    def __iter__(self) -> Iterator[Episode]:
        return map(self.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(ours == theirs for ours, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def place_of(self, key: EpisodeKey) -> int | None:
        """Return where an episode is; `None` if the plan has no such."""
        group, task_id, index = key
        number = self._number.get((group, task_id))
        if number is None or not 0 <= index < self._n_episodes:
            return None
        return self._find(index * len(self._tasks) + number)

    def _find(self, whole: int) -> int | None:
        if isinstance(self._within, range):
            return self._within.index(whole) if whole in self._within else None
        place = int(np.searchsorted(self._within, whole))
        return place if place < len(self._within) and self._within[place] == whole else None

    def places_of(self, episodes: Iterable[Episode]) -> NDArray[np.int64]:
        """Return where episodes of this plan are, in their order."""
        if isinstance(episodes, Plan) and episodes._tasks == self._tasks:
            return np.searchsorted(np.asarray(self._within, np.int64), np.asarray(episodes._within, np.int64))
        found = (self.place_of(episode.key) for episode in episodes)
        return np.array([place for place in found if place is not None], np.int64)

    def at(self, places: NDArray[np.int64]) -> Plan:
        """Return the episodes at some places, which ascend, as a plan of their own."""
        return Plan(self._tasks, self._n_episodes, self._seed, np.asarray(self._within, np.int64)[places])

    @cached_property
    def tasks(self) -> list[Task]:
        """The tasks that have an episode here, in the order of the whole plan."""
        if isinstance(self._within, range):  # its tasks come round after at most as many steps as there are
            found = {whole % len(self._tasks) for whole in self._within[: len(self._tasks)]}
        else:
            found = set(np.unique(self._within % len(self._tasks)).tolist())
        return [self._tasks[number] for number in sorted(found)]

    @cached_property
    def numbers(self) -> NDArray[np.int32]:
        """Of every place, which of `all_tasks` its task is."""
        return (np.asarray(self._within, np.int64) % max(1, len(self._tasks))).astype(np.int32)

    @property
    def n_episodes(self) -> int:
        """How many episodes each task has in the whole plan."""
        return self._n_episodes

    @property
    def all_tasks(self) -> Sequence[Task]:
        """The tasks of the whole plan, of which this may be a part."""
        return self._tasks

    @property
    def seed(self) -> int:
        """The seed of every task's first episode."""
        return self._seed

    @property
    def indices(self) -> NDArray[np.int64]:
        """Of every place, its episode's index."""
        return np.asarray(self._within, np.int64) // max(1, len(self._tasks))

    @property
    def most_steps(self) -> int:
        """How many steps all episodes together may take."""
        counts = np.bincount(self.numbers, minlength=len(self._tasks)).tolist()
        return sum(count * task.max_steps for count, task in zip(counts, self._tasks, strict=True))

    @cached_property
    def n_repeated(self) -> int:
        """How many episodes begin from the same initial state as an earlier one."""
        most = [self._n_episodes if task.initial_states is None else task.initial_states for task in self._tasks]
        if all(states >= self._n_episodes for states in most):
            return 0
        indices = np.asarray(self._within, np.int64) // len(self._tasks)
        return int((indices >= np.asarray(most)[self.numbers]).sum())


def make_plan(tasks: Sequence[Task], n_episodes: int, seed: int, only: str | None = None) -> Plan:
    """Return the whole plan, or those of its episodes that `only` names.

    Resumed runs and shards are parts of it; any prefix of the whole is balanced over the tasks.
    """
    seen: set[tuple[str, int]] = set()
    for task in tasks:
        if not task.group and len(tasks) > 1:
            raise UsageError("--env.task: a task's name is empty. Look for a comma too many.")
        if (task.group, task.task_id) in seen:
            raise UsageError(
                f"--env.task names '{task.group}' twice. Name it once; use --eval.n_episodes for more."
            )
        seen.add((task.group, task.task_id))
        _check_text(task)
    if n_episodes * len(tasks) > MOST_EPISODES:
        raise UsageError(
            f"--eval.n_episodes={n_episodes}: {n_episodes * len(tasks):,} episodes of {len(tasks):,} tasks, "
            f"and a run has at most {MOST_EPISODES:,}. Ask for {MOST_EPISODES // len(tasks):,} or fewer."
        )
    plan = Plan(tasks, n_episodes, seed)
    return chosen(plan, only) if only else plan


def _check_text(task: Task) -> None:
    """Refuse a task whose name or prompt no table and no message can hold."""
    try:
        size = len(f"{task.group}{task.name}{task.prompt}".encode())
    except UnicodeEncodeError:
        raise UsageError(f"the task {task.name!a} has a name or prompt that is not Unicode text.") from None
    if size > _MOST_TEXT:
        raise UsageError(
            f"the task {task.name[:60]!r} has a name and prompt of {size:,} bytes; at most {_MOST_TEXT:,} fit."
        )


def repeats_note(plan: Plan) -> str | None:
    """Say how many episodes begin as an earlier one did: to a policy without chance they tell little new."""
    if not plan.n_repeated:
        return None
    known = [(task.initial_states, task) for task in plan.tasks if task.initial_states is not None]
    first = sorted((one for one in known if one[0] < plan.n_episodes), key=lambda one: one[0])
    groups = ", ".join(dict.fromkeys(task.group for _, task in first))
    return (
        f"{plan.n_repeated} of {len(plan)} episodes begin as an earlier one did: {groups} has "
        f"{first[0][0]} initial states a task. The policy draws no random numbers, "
        "so these episodes tell little new."
    )


_CHOICE = re.compile(r"(.+?)(?::(\d{1,18})(?:-(\d{1,18}))?)?", re.DOTALL)


def chosen(plan: Plan, words: str) -> Plan:
    """Return the episodes that a comma list names: `TASK`, `TASK:7` or `TASK:0-4`; a group names all its tasks.

    Raises:
        UsageError: one of them is not in the plan.
    """
    places: set[int] = set()
    for word in filter(None, map(str.strip, words.split(","))):
        name, first, last = _CHOICE.fullmatch(word).groups()  # type: ignore[union-attr]
        tasks = [task for task in plan.tasks if name in (task.name, task.group)]
        if not tasks:
            names = {task.name for task in plan.tasks} | {task.group for task in plan.tasks}
            raise UsageError(f"--only={clip(word)}: no task is called '{clip(name)}'.{did_you_mean(name, names)}")
        indices = range(int(first), int(last or first) + 1) if first else range(plan.n_episodes)
        if not indices or indices[-1] >= plan.n_episodes:
            raise UsageError(
                f"--only={clip(word)}: each task has episodes 0 to {plan.n_episodes - 1} here "
                f"(--eval.n_episodes={plan.n_episodes})."
            )
        found = (plan.place_of(EpisodeKey(task.group, task.task_id, i)) for task in tasks for i in indices)
        here = {place for place in found if place is not None}
        if not here:
            raise UsageError(f"--only={clip(word)}: this is no episode of the run's part of the plan.")
        places |= here
    if not places:
        raise UsageError(f"--only names no episode: --only=TASK:EPISODE, for example --only={_example(plan)}.")
    return plan.at(np.array(sorted(places), np.int64))


def as_choice(plan: Plan) -> str:
    """Return the words that choose the episodes of a part of a plan: see `chosen`."""
    indices: dict[str, list[int]] = {}
    for episode in plan:
        indices.setdefault(episode.task.name, []).append(episode.index)
    return ",".join(f"{name}:{span}" for name, own in indices.items() for span in spans(sorted(set(own))))


def spans(numbers: Iterable[int]) -> list[str]:
    """Return ascending numbers in short.

    >>> spans([0, 1, 2, 5, 7, 8])
    ['0-2', '5', '7-8']
    """
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return [str(first) if first == last else f"{first}-{last}" for first, last in found]


def _example(plan: Plan) -> str:
    return f"{plan[0].task.name}:{plan[0].index}" if len(plan) else "reach-v3:0"


def shard_of(plan: Plan, shard_id: int, num_shards: int) -> Plan:
    """Return every `num_shards`-th episode of a plan, from `shard_id` on; the shards together are the plan.

    Because the plan takes the tasks in turn, shards differ by one episode at most. A plan that is extended by
    more episodes per task extends its shards.
    """
    return plan[shard_id::num_shards]
