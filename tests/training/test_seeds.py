"""A policy is not tested on what it was trained on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proctor.errors import StoreError, UsageError
from proctor.plan import make_plan
from proctor.training.seeds import check_unseen
from proctor.types import Task

PLAN = make_plan([Task(name, 0, name, "", 9) for name in ("reach", "push")], 4, 1000)


def dataset(place: Path, *episodes: tuple[str, int]) -> Path:
    (place / "meta").mkdir(parents=True)
    told = {"episodes": [{"task": task, "seed": seed} for task, seed in episodes]}
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
