"""The plan is fixed, balanced, and seeds every episode by LeRobot's rule."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import run_tiny
from proctor.benchmarks.protocol import Episode, Task
from proctor.engine.events import Watcher
from proctor.errors import UsageError
from proctor.plan import make_plan, repeats_note, shard_of


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
