"""The plan is fixed, balanced, and seeds every episode by LeRobot's rule."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import run_tiny
from proctor.errors import UsageError
from proctor.events import Watcher
from proctor.plan import Plan, make_plan, repeats_note, shard_of
from proctor.types import Episode, Task


class Notes(Watcher):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


task_lists = st.lists(
    st.builds(
        Task,
        group=st.sampled_from(["easy", "hard", "mt10"]),
        task_id=st.integers(0, 4),
        name=st.text(max_size=3),
        prompt=st.just("do it"),
        max_steps=st.just(9),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda task: (task.group, task.task_id),
)

A, B = Task("a", 0, "reach-v3", "reach", 500), Task("b", 0, "push-v3", "push", 500)


def test_episode_0_of_every_task_comes_before_episode_1_of_any() -> None:
    assert make_plan([A, B], 2, 1000) == [
        Episode(A, 0, 1000),
        Episode(B, 0, 1000),
        Episode(A, 1, 1001),
        Episode(B, 1, 1001),
    ]


@settings(deadline=None)
@given(tasks=task_lists, n_episodes=st.integers(1, 8), seed=st.integers(0, 2**40))
def test_episode_i_of_every_task_runs_with_seed_plus_i(tasks: list[Task], n_episodes: int, seed: int) -> None:
    plan = make_plan(tasks, n_episodes, seed)
    assert len(plan) == len(tasks) * n_episodes
    assert all(episode.seed == seed + episode.index for episode in plan)
    for task in tasks:
        assert [episode.index for episode in plan if episode.task is task] == list(range(n_episodes))


@settings(deadline=None)
@given(tasks=task_lists, n_episodes=st.integers(1, 8))
def test_no_two_episodes_share_a_key(tasks: list[Task], n_episodes: int) -> None:
    plan = make_plan(tasks, n_episodes, 0)
    assert len({episode.key for episode in plan}) == len(plan)


@settings(deadline=None)
@given(tasks=task_lists, n_episodes=st.integers(1, 8), data=st.data())
def test_any_prefix_is_balanced_over_the_tasks(tasks: list[Task], n_episodes: int, data: st.DataObject) -> None:
    plan = make_plan(tasks, n_episodes, 0)
    length = data.draw(st.integers(0, len(plan)))
    counts = Counter(dict.fromkeys(tasks, 0)) + Counter(episode.task for episode in plan[:length])
    sizes = [counts[task] for task in tasks]
    assert max(sizes) - min(sizes) <= 1


@settings(deadline=None)
@given(tasks=task_lists, few=st.integers(1, 5), more=st.integers(0, 5))
def test_a_longer_plan_begins_with_the_shorter_one(tasks: list[Task], few: int, more: int) -> None:
    assert make_plan(tasks, few + more, 7)[: few * len(tasks)] == make_plan(tasks, few, 7)


@settings(deadline=None)
@given(tasks=task_lists)
def test_an_episode_does_not_depend_on_which_other_tasks_are_planned(tasks: list[Task]) -> None:
    alone = make_plan(tasks[:1], 3, 5)
    assert [episode for episode in make_plan(tasks, 3, 5) if episode.task is tasks[0]] == alone


def test_a_task_named_twice_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"--env\.task names 'a' twice"):
        make_plan([A, B, A], 3, 0)


def test_one_task_may_stand_in_two_groups() -> None:
    twin = Task("mt10", 4, "reach-v3", "reach", 500)
    assert len(make_plan([A, twin], 2, 0)) == 4


@settings(deadline=None)
@given(tasks=task_lists, n_episodes=st.integers(1, 3))
def test_an_episode_survives_the_way_to_a_worker(tasks: list[Task], n_episodes: int) -> None:
    for episode in make_plan(tasks, n_episodes, 3):
        assert Episode.from_wire(episode.to_wire()) == episode


@settings(deadline=None)
@given(tasks=task_lists, n_episodes=st.integers(1, 8), shards=st.integers(1, 60))
def test_the_shards_together_are_the_plan_without_overlap(tasks: list[Task], n_episodes: int, shards: int) -> None:
    plan = make_plan(tasks, n_episodes, 11)
    parts = [shard_of(plan, number, shards) for number in range(shards)]
    assert Counter(episode for part in parts for episode in part) == Counter(plan)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    # Each keeps the plan's order and its seeds.
    assert all(part == [episode for episode in plan if episode in part] for part in parts)


@settings(deadline=None)
@given(tasks=task_lists, few=st.integers(1, 4), more=st.integers(0, 4), shards=st.integers(1, 9))
def test_more_episodes_extend_every_shard(tasks: list[Task], few: int, more: int, shards: int) -> None:
    for number in range(shards):
        short = shard_of(make_plan(tasks, few, 3), number, shards)
        assert shard_of(make_plan(tasks, few + more, 3), number, shards)[: len(short)] == short


@settings(deadline=None)
@given(task_lists, st.integers(0, 6), st.integers(0, 9), st.integers(1, 5), st.integers(0, 4), st.data())
def test_parts_of_a_plan_are_those_of_the_list_that_it_stands_for(
    tasks: list[Task], n_episodes: int, seed: int, shards: int, shard: int, data: st.DataObject
) -> None:
    whole = [Episode(task, index, seed + index) for index in range(n_episodes) for task in tasks]
    plan = make_plan(tasks, n_episodes, seed)
    listed = whole[shard % shards :: shards]
    part = shard_of(plan, shard % shards, shards)
    chosen = sorted(
        data.draw(st.sets(st.integers(0, len(listed) - 1)) if listed else st.just(set()), label="places")
    )
    for expected, found in ((whole, plan), (listed, part), ([listed[one] for one in chosen], _at(part, chosen))):
        assert list(found) == expected
        assert found == expected
        assert [found.place_of(episode.key) for episode in whole] == [
            expected.index(episode) if episode in expected else None for episode in whole
        ]
        assert found.places_of(found).tolist() == list(range(len(expected)))
        assert set(found.tasks) == {episode.task for episode in expected}
        assert [tasks[number] for number in found.numbers] == [episode.task for episode in expected]
        assert found.indices.tolist() == [episode.index for episode in expected]
        assert found.most_steps == sum(episode.task.max_steps for episode in expected)
    assert plan.place_of(Episode(tasks[0], n_episodes, 0).key) is None
    assert plan.places_of(part).tolist() == [whole.index(episode) for episode in listed]


def _at(plan: Plan, places: list[int]) -> Plan:
    return plan.at(np.array(places, np.int64))


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 6))
def test_repeated_episodes_are_counted(states: list[int | None], n_episodes: int) -> None:
    tasks = [Task(f"g{number}", 0, "t", "", 9, initial_states=count) for number, count in enumerate(states)]
    plan = make_plan(tasks, n_episodes, 0)
    assert plan.n_repeated == sum(episode.repeats for episode in plan)
    assert (repeats_note(plan) is not None) == (plan.n_repeated > 0)


def _memory(make: Callable[[], object]) -> int:
    """Return the bytes that it takes to make something."""
    tracemalloc.start()
    try:
        kept = make()
        taken = tracemalloc.get_traced_memory()[1]
        del kept
        return taken
    finally:
        tracemalloc.stop()


def test_a_plan_takes_no_more_memory_for_a_million_episodes_than_for_ten() -> None:
    assert _memory(lambda: make_plan([A, B], 500_000, 0)) < 100_000
    assert _memory(lambda: shard_of(make_plan([A, B], 500_000, 0), 1, 7)) < 100_000


def test_too_many_episodes_are_refused_before_they_are_planned() -> None:
    def refused() -> None:
        with pytest.raises(UsageError, match="a run has at most 1,000,000"):
            make_plan([A, B], 10**9, 0)

    assert _memory(refused) < 100_000


def test_episodes_beyond_the_initial_states_are_counted_and_told() -> None:
    fixed = [Task("libero_10", number, f"task {number}", "do it", 9, initial_states=3) for number in (4, 7)]
    assert repeats_note(make_plan([*fixed, A], 3, 0)) is None
    assert repeats_note(make_plan([A], 500, 0)) is None
    note = repeats_note(make_plan([*fixed, A], 5, 0))
    assert note is not None
    assert note.startswith("4 of 15 episodes begin as an earlier one did: libero_10 has 3 initial states a task.")


@pytest.mark.parametrize(("policy", "warned"), [("zero", True), ("random", False)])
def test_only_a_policy_without_chance_is_warned_about_repeats(policy: str, warned: bool, tmp_path: Path) -> None:
    watcher = Notes()
    done = run_tiny(
        tmp_path / "run",
        watcher=watcher,
        policy={"path": None, "type": policy},
        env={"initial_states": 2},
        n_episodes=3,
    )
    assert any("begin as an earlier one did" in note for note in watcher.notes) is warned
    assert done.info["run"]["n_repeated"] == 3
