"""`eval_info.json` is LeRobot's document, strict JSON, with errors outside every rate."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.eval_info import eval_info
from proctor.plan import make_plan
from proctor.results import ScoredRun
from proctor.stats.intervals import wilson
from proctor.store.filesystem import finite, write_json
from proctor.store.outcomes import Outcomes
from proctor.store.schema import SPANS, EpisodeRecord, RunSession
from proctor.types import Episode, Task

REACH = Task("reach-v3", 0, "reach-v3", "reach", 500)
HARD = [Task("hard", 0, "assembly-v3", "assemble", 500), Task("hard", 1, "hand-insert-v3", "insert", 500)]
TASKS = [REACH, *HARD]
DIRECTORY = Path("/runs/a")

METRICS = {"sum_rewards", "max_rewards", "successes", "video_paths", "predicted_video_paths"}
AGGREGATE = {
    "avg_sum_reward",
    "avg_max_reward",
    "pc_success",
    "n_episodes",
    "video_paths",
    "predicted_video_paths",
}


def finished(task: Task, index: int, success: bool, reward: float = 1.0, **values: Any) -> EpisodeRecord:
    return EpisodeRecord(
        task_group=task.group,
        task_id=task.task_id,
        task=task.name,
        episode_index=index,
        seed=1000 + index,
        status="finished",
        success=success,
        sum_reward=reward,
        max_reward=reward / 2,
        steps=10,
        **values,
    )


def failed(task: Task, index: int) -> EpisodeRecord:
    return EpisodeRecord.failed(Episode(task, index, 1000 + index), 3, "the worker died")


def build(
    records: Sequence[EpisodeRecord], tasks: Sequence[Task] = TASKS, wall: float = 12.0, startup: float = 1.5
) -> dict[str, Any]:
    ended = Outcomes.of(make_plan(tasks, 10, 1000), records)
    held = {place: record for record in records if (place := ended.plan.place_of(record.key)) is not None}
    run = ScoredRun.empty(DIRECTORY, ended.plan)
    run._episodes = ended, held
    run.sessions = [RunSession(100.0, 100.0 + wall, 1, startup)]
    identity = {"seed": 1000, "versions": {"proctor": "1"}, "renderer": None, "machine": {"cpu": "some"}}
    run.settings = {"tags": "night, act", "description": None}
    run.meta = {"identity": identity, "reproducible": True}
    return eval_info(run)


SOME = [
    finished(REACH, 0, True, 4.0, digest="d0", video_path="videos/reach-v3_0/eval_episode_0.mp4"),
    finished(REACH, 1, False, 2.0, metrics={"progress": 0.5}),
    failed(REACH, 2),
    finished(HARD[1], 0, True, 8.0),
]

# Per task: what became of its episodes 0, 1, 2, ...; None is an error.
outcomes = st.lists(st.lists(st.none() | st.booleans(), max_size=5), min_size=len(TASKS), max_size=len(TASKS))


def records_of(outcomes: Sequence[Sequence[bool | None]]) -> list[EpisodeRecord]:
    return [
        failed(task, index) if success is None else finished(task, index, success, float(index))
        for task, results in zip(TASKS, outcomes, strict=True)
        for index, success in enumerate(results)
    ]


def test_lerobots_part_has_exactly_lerobots_keys() -> None:
    info = build(SOME)
    assert all(entry.keys() == {"task_group", "task_id", "metrics"} for entry in info["per_task"])
    assert all(entry["metrics"].keys() == METRICS for entry in info["per_task"])
    assert all(entry.keys() == AGGREGATE for entry in info["per_group"].values())
    assert info["overall"].keys() == AGGREGATE | {"eval_s", "eval_ep_s"}


def test_our_own_keys_stand_beside_lerobots() -> None:
    info = build(SOME)
    assert info.keys() >= {"per_task", "per_group", "overall", "per_episode", "versions", "intervals", "timing"}
    assert info["versions"] == {"proctor": "1", "cpu": "some"}


def test_the_document_reads_as_lerobots_would() -> None:
    info = build(SOME)
    assert info["per_task"][0] == {
        "task_group": "reach-v3",
        "task_id": 0,
        "metrics": {
            "sum_rewards": [4.0, 2.0],
            "max_rewards": [2.0, 1.0],
            "successes": [True, False],
            "video_paths": ["/runs/a/videos/reach-v3_0/eval_episode_0.mp4"],
            "predicted_video_paths": [],
        },
    }
    assert [(entry["task_group"], entry["task_id"]) for entry in info["per_task"]] == [
        ("reach-v3", 0),
        ("hard", 0),
        ("hard", 1),
    ]
    assert info["per_group"]["hard"] == {
        "avg_sum_reward": 8.0,
        "avg_max_reward": 4.0,
        "pc_success": 100.0,
        "n_episodes": 1,
        "video_paths": [],
        "predicted_video_paths": [],
    }
    assert info["overall"] == {
        "avg_sum_reward": pytest.approx(14 / 3),
        "avg_max_reward": pytest.approx(7 / 3),
        "pc_success": pytest.approx(200 / 3),
        "n_episodes": 3,
        "video_paths": ["/runs/a/videos/reach-v3_0/eval_episode_0.mp4"],
        "predicted_video_paths": [],
        "eval_s": 12.0,
        "eval_ep_s": 4.0,
    }


def test_each_episode_tells_all_that_is_known_of_it() -> None:
    episodes = build(SOME)["per_episode"]
    assert len(episodes) == 4
    for episode in episodes:
        assert episode.keys() >= {
            "task_group", "task_id", "task", "episode_index", "seed", "status", "success", "sum_reward",
            "max_reward", "steps", "metrics", "attempts", "seconds", "digest", "pixel_digest", "video_path",
        }  # fmt: skip
    assert episodes[1]["metrics"] == {"progress": 0.5}
    assert episodes[0]["digest"] == "d0"
    assert episodes[0]["video_path"] == "videos/reach-v3_0/eval_episode_0.mp4"
    assert (episodes[2]["status"], episodes[2]["success"], episodes[2]["sum_reward"]) == ("error", None, None)
    assert episodes[2]["attempts"] == 3


@settings(deadline=None)
@given(outcomes=outcomes)
def test_errors_are_outside_every_rate_and_every_list(outcomes: list[list[bool | None]]) -> None:
    info = build(records_of(outcomes))
    every = [success for results in outcomes for success in results]
    known = [success for success in every if success is not None]
    percent = 100 * sum(known) / len(known) if known else None
    assert info["overall"]["n_episodes"] == len(known)
    assert info["overall"]["pc_success"] == (None if percent is None else pytest.approx(percent))
    assert info["errors"]["n_errors"] == len(every) - len(known)
    pessimist = info["errors"]["pc_success_if_errors_failed"]
    assert pessimist == (pytest.approx(100 * sum(known) / len(every)) if every else None)
    for entry, results in zip(info["per_task"], outcomes, strict=True):
        assert entry["metrics"]["successes"] == [success for success in results if success is not None]
        assert len(entry["metrics"]["sum_rewards"]) == len(entry["metrics"]["successes"])
    assert len(info["per_episode"]) == len(every)


@settings(deadline=None)
@given(outcomes=outcomes)
def test_every_rate_has_its_wilson_interval(outcomes: list[list[bool | None]]) -> None:
    intervals = build(records_of(outcomes))["intervals"]

    def expected(*tasks: int) -> dict[str, Any]:
        known = [success for task in tasks for success in outcomes[task] if success is not None]
        rate = wilson(sum(known), len(known))
        return {
            "successes": rate.successes,
            "n_episodes": rate.episodes,
            "running": 0,
            "value": rate.value,
            "low": rate.low,
            "high": rate.high,
        }

    assert (intervals["confidence"], intervals["method"]) == (0.95, "wilson")
    assert intervals["overall"] == {**expected(0, 1, 2), "method": "wilson"}
    assert intervals["per_group"] == {"reach-v3": expected(0), "hard": expected(1, 2)}
    for number, (entry, task) in enumerate(zip(intervals["per_task"], TASKS, strict=True)):
        where = {"task_group": task.group, "task_id": task.task_id, "task": task.name}
        assert entry == {**where, **expected(number)}


def test_the_average_over_tasks_counts_each_task_alike() -> None:
    records = records_of([[True, True], [True, None], [False]])
    macro = build(records)["intervals"]["macro"]
    assert (macro["value"], macro["n_tasks"]) == (pytest.approx(2 / 3), 3)
    assert macro["clustered"]["low"] <= macro["stratified"]["low"] < 2 / 3
    assert build(records_of([[True], [None], []]))["intervals"]["macro"]["clustered"] is None
    assert build([])["intervals"]["macro"] is None


@settings(deadline=None, max_examples=30)
@given(outcomes=outcomes, seed=st.integers(0, 999))
def test_the_order_in_which_episodes_ended_does_not_show(outcomes: list[list[bool | None]], seed: int) -> None:
    records = records_of(outcomes)
    shuffled = random.Random(seed).sample(records, len(records))
    assert build(shuffled) == build(records)


def test_a_run_without_episodes_has_null_for_what_nobody_knows() -> None:
    info = build([])
    assert info["overall"]["pc_success"] is None
    assert info["overall"]["avg_sum_reward"] is None
    assert info["overall"]["eval_ep_s"] is None
    assert [entry["metrics"]["successes"] for entry in info["per_task"]] == [[], [], []]
    assert info["per_episode"] == []


def test_one_task_in_two_groups_is_counted_in_each_by_its_own_episodes() -> None:
    twin = Task("assembly-v3", 0, "assembly-v3", "assemble", 500)
    records = [finished(HARD[0], 0, True), finished(twin, 0, False)]
    info = build(records, tasks=[*HARD, twin])
    assert info["per_group"]["hard"]["pc_success"] == 100.0
    assert info["per_group"]["assembly-v3"]["pc_success"] == 0.0


def test_numbers_that_are_not_finite_become_null_in_the_file(tmp_path: Path) -> None:
    records = [
        finished(REACH, 0, True, math.nan, metrics={"distance": math.inf}),
        finished(REACH, 1, False, -math.inf),
    ]
    write_json(tmp_path / "eval_info.json", build(records))

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    info = json.loads((tmp_path / "eval_info.json").read_text(), parse_constant=refuse)
    assert info["per_task"][0]["metrics"]["sum_rewards"] == [None, None]
    assert info["per_episode"][0]["metrics"] == {"distance": None}
    assert info["overall"]["avg_sum_reward"] is None
    assert info["overall"]["pc_success"] == 50.0


def test_the_document_is_plain_values_only() -> None:
    info = build(SOME)
    assert json.loads(json.dumps(info, allow_nan=False)) == finite(info)


def test_the_time_is_summed_by_span_over_all_episodes() -> None:
    records = [
        finished(REACH, 0, True, timing={"simulate": 1.0, "draw": 2.0}),
        finished(HARD[0], 0, True, timing={"simulate": 0.5, "wait": 4.0}),
    ]
    timing = build(records)["timing"]
    assert timing["wall_s"] == 12.0
    assert timing["startup_s"] == 1.5
    assert timing["steps"] == 20
    assert {f"{span}_s" for span in SPANS} <= timing.keys()
    assert (timing["simulate_s"], timing["draw_s"], timing["wait_s"], timing["reset_s"]) == (1.5, 2.0, 4.0, 0.0)
