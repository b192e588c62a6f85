"""Whatever workers do and in whatever order, every episode is handed out once, near the head of the plan."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from proctor.engine.queue import LEAST_ROUNDS, MOST_BUILDING, EpisodeQueue, TaskKey, task_key
from proctor.plan import Plan, make_plan
from proctor.types import Episode, EpisodeKey, Task

A, B, C = "a", "b", "c"


def planned(n_tasks: int, n_episodes: int) -> Plan:
    tasks = [Task("abcdefgh"[number], 0, "abcdefgh"[number], "", 9) for number in range(n_tasks)]
    return make_plan(tasks, n_episodes, 0)


def names(episodes: Sequence[Episode | None]) -> list[str]:
    """Return episodes as a0, b3, ... for reading."""
    return ["-" if episode is None else f"{episode.task.name}{episode.index}" for episode in episodes]


class AnyInterleaving(RuleBasedStateMachine):
    """Workers take, end and give back in any order; a simple model says what the queue may answer."""

    @initialize(
        n_tasks=st.integers(1, 5),
        n_episodes=st.integers(1, 24),
        max_open=st.integers(0, 3),
        rounds=st.integers(LEAST_ROUNDS, 12),
        missing=st.sets(st.integers(0, 119), max_size=30),
    )
    def begin(self, n_tasks: int, n_episodes: int, max_open: int, rounds: int, missing: set[int]) -> None:
        plan = planned(n_tasks, n_episodes)
        self.place = {episode.key: place for place, episode in enumerate(plan)}
        # A resumed run: some of the plan has ended already.
        self.pending = [episode for place, episode in enumerate(plan) if place not in missing]
        self.queue = EpisodeQueue(plan, self.pending, max_open)
        self.queue.set_costs(build_seconds=rounds * MOST_BUILDING, episode_seconds=1.0)
        self.max_open = max_open
        self.window = rounds * n_tasks
        self.waiting = {episode.key: episode for episode in self.pending}
        self.in_flight: list[Episode] = []
        self.ended: list[EpisodeKey] = []

    def open_tasks(self) -> set[TaskKey]:
        return {task_key(episode) for episode in self.in_flight}

    def heads(self) -> dict[TaskKey, int]:
        """Return the first waiting place of every task that may be open."""
        full = self.max_open and len(self.open_tasks()) >= self.max_open
        found: dict[TaskKey, int] = {}
        for episode in self.waiting.values():
            key = task_key(episode)
            if not full or key in self.open_tasks():
                found[key] = min(found.get(key, len(self.place)), self.place[episode.key])
        return found

    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        known = sorted({task_key(episode) for episode in self.pending})
        self.take_for(data.draw(st.none() | st.sampled_from(known) if known else st.none()))

    def take_for(self, held: TaskKey | None) -> None:
        heads = self.heads()
        episode = self.queue.take(held)
        if episode is None:
            assert not heads, "a worker was left waiting while an episode could be handed out"
            return
        assert episode.key in self.waiting, "handed out twice, or never pending"
        key = task_key(episode)
        assert self.place[episode.key] == heads[key], "a task's episodes are handed out in the plan's order"
        if held in heads and heads[held] < min(heads.values()) + self.window:
            assert key == held, "a worker lost its task inside the window"
        del self.waiting[episode.key]
        self.in_flight.append(episode)

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), comes_back=st.booleans())
    def end(self, data: st.DataObject, comes_back: bool) -> None:
        self.end_one(data.draw(st.integers(0, len(self.in_flight) - 1)), comes_back)

    def end_one(self, number: int, comes_back: bool) -> None:
        episode = self.in_flight.pop(number)
        self.queue.ended(episode)
        if comes_back:
            self.queue.put_back(episode)
            self.waiting[episode.key] = episode
        else:
            self.ended.append(episode.key)

    @invariant()
    def no_more_tasks_are_open_than_allowed(self) -> None:
        assert not self.max_open or len(self.open_tasks()) <= self.max_open

    @invariant()
    def the_length_is_what_waits(self) -> None:
        assert len(self.queue) == len(self.waiting)

    def teardown(self) -> None:
        if not hasattr(self, "queue"):
            return
        # Run to the end: with nothing in flight there is always something to hand out.
        while self.waiting or self.in_flight:
            self.take_for(None)
            while self.in_flight:
                self.end_one(0, comes_back=False)
        assert self.queue.take(None) is None
        assert Counter(self.ended) == Counter(episode.key for episode in self.pending)


TestAnyInterleaving = AnyInterleaving.TestCase
TestAnyInterleaving.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)


@settings(deadline=None)
@given(
    n_tasks=st.integers(1, 4),
    n_episodes=st.integers(1, 40),
    workers=st.integers(1, 5),
    slow=st.sets(st.integers(0, 3), max_size=2),
    seed=st.integers(0, 999),
)
def test_no_worker_runs_further_ahead_of_the_head_of_the_plan_than_the_window(
    n_tasks: int, n_episodes: int, workers: int, slow: set[int], seed: int
) -> None:
    # Episodes of slow tasks take fifty turns, of the others one: whoever runs the others is tempted to run away.
    dice = random.Random(seed)
    plan = planned(n_tasks, n_episodes)
    place = {episode.key: place for place, episode in enumerate(plan)}
    queue = EpisodeQueue(plan, plan)
    waiting = set(place.values())
    held: list[TaskKey | None] = [None] * workers
    busy: list[tuple[int, Episode] | None] = [None] * workers
    while waiting:
        for worker in dice.sample(range(workers), workers):
            job = busy[worker]
            if job is not None:
                left, episode = job
                busy[worker] = (left - 1, episode) if left else None
                if not left:
                    queue.ended(episode)
            if busy[worker] is None and (taken := queue.take(held[worker])) is not None:
                ahead = place[taken.key] - min(waiting)
                assert ahead < LEAST_ROUNDS * n_tasks
                waiting.remove(place[taken.key])
                held[worker] = task_key(taken)
                busy[worker] = (50 if plan.index(taken) % n_tasks in slow else 0, taken)


def test_a_worker_whose_task_is_far_ahead_helps_with_the_slowest() -> None:
    plan = planned(2, 20)
    queue = EpisodeQueue(plan, plan)
    assert names([queue.take(None)]) == ["a0"]  # and this worker hangs on to it
    quick: list[Episode] = []
    while not any(episode.task.name == A for episode in quick):
        taken = queue.take((B, 0))
        assert taken is not None
        quick.append(taken)
        queue.ended(taken)
    assert len(quick) <= 2 * LEAST_ROUNDS
    assert names(quick[-1:]) == ["a1"]


@pytest.mark.parametrize(
    ("build", "episode", "rounds"), [(0.0, 1.0, 2), (1.0, 1.0, 20), (0.1, 1.0, 2), (1.0, 4.0, 5)]
)
def test_the_dearer_a_switch_the_longer_a_worker_stays_with_its_task(
    build: float, episode: float, rounds: int
) -> None:
    plan = planned(2, 40)
    queue = EpisodeQueue(plan, plan)
    queue.set_costs(build, episode)
    first = queue.take((A, 0))
    assert first is not None
    queue.ended(first)
    stayed = 0
    while (taken := queue.take((B, 0))) is not None and taken.task.name == B:
        stayed += 1
        # Somebody works on b all the time, so that only the window holds this worker there.
        if stayed > 1:
            queue.ended(taken)
    # b0 stands one place before a1, which is the head of the plan.
    assert stayed == rounds + 1


def test_an_episode_that_took_no_time_at_all_does_no_harm() -> None:
    queue = EpisodeQueue(planned(2, 3), planned(2, 3))
    queue.set_costs(0.1, 0.0)
    assert names([queue.take((B, 0)) for _ in range(3)]) == ["b0", "b1", "b2"]


def test_workers_spread_over_the_tasks_at_first() -> None:
    queue = EpisodeQueue(planned(3, 5), planned(3, 5))
    assert names([queue.take(None) for _ in range(3)]) == ["a0", "b0", "c0"]


def test_a_worker_keeps_its_task() -> None:
    queue = EpisodeQueue(planned(3, 5), planned(3, 5))
    queue.set_costs(build_seconds=1.0, episode_seconds=1.0)
    taken = []
    for _ in range(4):
        episode = queue.take((B, 0))
        assert episode is not None
        taken.append(episode)
        queue.ended(episode)
    assert names(taken) == ["b0", "b1", "b2", "b3"]


def test_a_worker_that_runs_out_of_its_task_takes_up_another() -> None:
    queue = EpisodeQueue(planned(2, 1), planned(2, 1))
    assert names([queue.take((B, 0)), queue.take((B, 0)), queue.take((B, 0))]) == ["b0", "a0", "-"]


def test_no_worker_idles_while_episodes_remain_even_of_one_task() -> None:
    queue = EpisodeQueue(planned(1, 4), planned(1, 4))
    assert names([queue.take(None) for _ in range(5)]) == ["a0", "a1", "a2", "a3", "-"]


def test_an_episode_that_comes_back_is_first_in_its_task_again() -> None:
    queue = EpisodeQueue(planned(1, 4), planned(1, 4))
    first, second = queue.take(None), queue.take(None)
    assert first is not None
    assert second is not None
    for episode in (second, first):
        queue.ended(episode)
        queue.put_back(episode)
    assert names([queue.take(None) for _ in range(4)]) == ["a0", "a1", "a2", "a3"]


def test_with_one_open_task_allowed_the_others_wait_for_it_to_close() -> None:
    queue = EpisodeQueue(planned(2, 2), planned(2, 2), max_open_tasks=1)
    first, second = queue.take(None), queue.take(None)
    assert names([first, second, queue.take(None)]) == ["a0", "a1", "-"]
    assert first is not None
    assert second is not None
    queue.ended(first)
    assert queue.take((B, 0)) is None
    queue.ended(second)
    assert names([queue.take(None)]) == ["b0"]


def test_the_limit_does_not_change_what_is_run() -> None:
    plan = planned(4, 3)
    for limit in (0, 1, 2, 9):
        queue = EpisodeQueue(plan, plan, limit)
        done = set()
        while (episode := queue.take(None)) is not None:
            done.add(episode.key)
            queue.ended(episode)
        assert done == {episode.key for episode in plan}


def test_a_resumed_queue_hands_out_only_what_is_pending() -> None:
    plan = planned(2, 3)
    queue = EpisodeQueue(plan, [plan[1], plan[4]])
    assert len(queue) == 2
    assert names([queue.take(None), queue.take(None), queue.take(None)]) == ["b0", "a2", "-"]


class ListQueue:
    """The same queue made of lists of episodes, as slow as it is plain."""

    def __init__(self, plan: Sequence[Episode], pending: Sequence[Episode], max_open: int) -> None:
        self._place = {episode.key: place for place, episode in enumerate(plan)}
        self._waiting = list(pending)
        self._tasks = len({task_key(episode) for episode in plan})
        self._window, self._max_open = LEAST_ROUNDS * self._tasks, max_open
        self._in_flight: Counter[TaskKey] = Counter()

    def __len__(self) -> int:
        return len(self._waiting)

    def put_back(self, episode: Episode) -> None:
        self._waiting.append(episode)

    def take(self, held: TaskKey | None) -> Episode | None:
        heads: dict[TaskKey, Episode] = {}
        for episode in sorted(self._waiting, key=lambda one: self._place[one.key]):
            if self._may_open(task_key(episode)):
                heads.setdefault(task_key(episode), episode)
        if not heads:
            return None
        place = {key: self._place[episode.key] for key, episode in heads.items()}
        near = [key for key in heads if place[key] < min(place.values()) + self._window]
        chosen = held if held in near else min(near, key=lambda key: (self._in_flight[key] > 0, place[key]))
        self._waiting.remove(heads[chosen])
        self._in_flight[chosen] += 1
        return heads[chosen]

    def ended(self, episode: Episode) -> None:
        self._in_flight[task_key(episode)] -= 1

    def _may_open(self, key: TaskKey) -> bool:
        opened = sum(count > 0 for count in self._in_flight.values())
        return not self._max_open or self._in_flight[key] > 0 or opened < self._max_open


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 2), st.data())
def test_it_hands_out_as_a_queue_of_lists_does(
    n_tasks: int, n_episodes: int, max_open: int, data: st.DataObject
) -> None:
    plan = planned(n_tasks, n_episodes)
    some = data.draw(st.sets(st.integers(0, len(plan) - 1)), label="pending")
    pending = plan.at(np.array(sorted(some), np.int64))
    queue, expected = EpisodeQueue(plan, pending, max_open), ListQueue(plan, list(pending), max_open)
    out: list[Episode] = []
    for _ in range(data.draw(st.integers(0, 30), label="turns")):
        back = data.draw(st.booleans(), label="one comes back")
        if out and back:
            episode = out.pop(data.draw(st.integers(0, len(out) - 1), label="which"))
            again = data.draw(st.booleans(), label="to be tried again")
            for one in (queue, expected):
                one.ended(episode)
                if again:
                    one.put_back(episode)
        held = task_key(data.draw(st.sampled_from(list(plan)), label="held"))
        taken = queue.take(held)
        assert taken == expected.take(held)
        assert len(queue) == len(expected)
        out += [taken] if taken is not None else []
