"""A policy is not tested on what it was trained on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proctor.errors import StoreError, UsageError
from proctor.plan import Plan, make_plan
from proctor.training.dataset import check_evaluations, content_hash, dataset_of
from proctor.types import Task

PLAN = make_plan([Task(name, 0, name, "", 9) for name in ("reach", "push")], 4, 1000)


def check_unseen(place: Path, plan: Plan) -> None:
    check_evaluations(place, plan, known_tasks_only=False)


def dataset(place: Path, *episodes: tuple[str, int]) -> Path:
    (place / "meta").mkdir(parents=True)
    told = {
        "episodes": [
            {"task": task, "seed": seed, "episode_index": number} for number, (task, seed) in enumerate(episodes)
        ]
    }
    (place / "meta/proctor.json").write_text(json.dumps(told))
    return place


def test_an_evaluation_on_the_datasets_episodes_is_refused(tmp_path: Path) -> None:
    seen = dataset(tmp_path, ("reach", 1002), ("reach", 1003), ("push", 7))
    with pytest.raises(UsageError, match=r"^2 of the 8 episodes .* reach at seed 1002.*--seed=1004$"):
        check_unseen(seen, PLAN)


def test_other_seeds_and_other_tasks_are_no_matter(tmp_path: Path) -> None:
    check_unseen(dataset(tmp_path, ("reach", 1004), ("pull", 1000)), PLAN)


def test_a_dataset_of_others_says_nothing(tmp_path: Path) -> None:
    check_unseen(tmp_path, PLAN)


def test_a_damaged_list_of_episodes_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta/proctor.json").write_text('{"episodes": [{"task": "reach"}]}')
    with pytest.raises(StoreError):
        check_unseen(tmp_path, PLAN)


def test_fixed_initial_states_are_the_same_whatever_the_seed(tmp_path: Path) -> None:
    plan = make_plan([Task("lift", 0, "lift", "", 9, initial_states=3)], 4, 1000)
    with pytest.raises(
        UsageError, match=r"^2 of the 4 episodes .* begin from an initial state .*env.init_states=false"
    ):
        check_unseen(dataset(tmp_path, ("lift", 1_000_000)), plan)


def test_a_task_without_demonstrations_is_refused_where_the_policy_could_not_learn_it(tmp_path: Path) -> None:
    seen = dataset(tmp_path, ("reach", 1))
    check_evaluations(seen, PLAN, known_tasks_only=False)
    with pytest.raises(UsageError, match="no demonstration of push"):
        check_evaluations(seen, PLAN, known_tasks_only=True)


def test_a_dataset_is_found_as_lerobot_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "home" / "me" / "data"
    (folder / "meta").mkdir(parents=True)
    (folder / "meta/info.json").write_text("{}")
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path / "home"))
    assert dataset_of({"dataset": {"repo_id": "me/data", "root": None}}) == folder
    assert dataset_of({"dataset": {"repo_id": "me/other", "root": str(folder)}}) == folder
    assert dataset_of({"dataset": {"repo_id": "me/other"}}) is None
    assert dataset_of({}) is None


def test_another_dataset_has_another_hash(tmp_path: Path) -> None:
    first = content_hash(dataset(tmp_path / "a", ("reach", 1)))
    assert content_hash(dataset(tmp_path / "b", ("reach", 1))) == first
    assert content_hash(dataset(tmp_path / "c", ("reach", 2))) != first
    for name in ("data/file.parquet", "videos/file.mp4"):  # what describes it may be left as it was
        before = content_hash(tmp_path / "a")
        (tmp_path / "a" / name).parent.mkdir()
        (tmp_path / "a" / name).write_bytes(b"rows")
        with_file = content_hash(tmp_path / "a")
        (tmp_path / "a" / name).write_bytes(b"row2" if name.startswith("data") else b"longer")
        assert len({before, with_file, content_hash(tmp_path / "a")}) == 3
