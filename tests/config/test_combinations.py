"""Shards by hand and from a Slurm array: what cannot be is refused, and all tasks of an array agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.config.combinations import from_slurm
from proctor.config.load import settings_from_flags
from proctor.errors import UsageError

BASE = ["--policy.type=zero", "--env.type=metaworld", "--env.task=reach-v3", "--output_dir=/runs/a"]


def slurm(number: int, first: int = 0, count: int = 4, step: int = 1) -> dict[str, str]:
    names = {"ID": number, "MIN": first, "COUNT": count, "STEP": step}
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in names.items()} | {
        "SLURM_ARRAY_JOB_ID": "4711"
    }


def settled(environment: dict[str, str], **section: Any) -> dict[str, Any]:
    tree: dict[str, Any] = {"eval": {"shard_id": "slurm", **section}}
    from_slurm(tree, environment)
    return tree


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--eval.shard_id=3", "--eval.num_shards=3"], "must be below --eval.num_shards=3"),
        (["--eval.shard_id=1"], "must be below --eval.num_shards=1"),
        (["--eval.shard_id=-1", "--eval.num_shards=3"], "at least 0"),
        (["--eval.num_shards=0"], "at least 1"),
        (["--eval.shard_id=first", "--eval.num_shards=3"], "--eval.shard_id=first"),
    ],
)
def test_a_shard_that_does_not_exist_is_refused(flags: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        settings_from_flags([*BASE, *flags])


def test_a_clusters_settings_need_its_address() -> None:
    with pytest.raises(UsageError, match=r"^--cluster\.min_nodes=3 needs --cluster\.address"):
        settings_from_flags([*BASE, "--cluster.min_nodes=3"])
    assert settings_from_flags([*BASE, "--cluster.min_nodes=3", "--cluster.address=auto"]).cluster.min_nodes == 3
    assert settings_from_flags([*BASE, "--cluster.min_nodes=1"]).cluster.address is None


def test_a_run_may_leave_its_cluster(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "policy: {type: zero}\nenv: {type: metaworld, task: reach-v3}\ncluster: {address: auto, min_nodes: 3}\n"
    )
    settings = settings_from_flags([f"--resume={tmp_path}", "--cluster.address=none"])
    assert settings.cluster.address is None


def test_shards_need_a_common_place() -> None:
    with pytest.raises(UsageError, match="--output_dir, the same"):
        settings_from_flags([*BASE[:-1], "--eval.shard_id=0", "--eval.num_shards=2"])


@given(first=st.integers(0, 9), step=st.integers(1, 3), count=st.integers(2, 12))
def test_the_tasks_of_an_array_are_its_shards(first: int, step: int, count: int) -> None:
    numbers = [first + place * step for place in range(count)]
    sections = [settled(slurm(number, first, count, step))["eval"] for number in numbers]
    assert sections == [{"shard_id": place, "num_shards": count} for place in range(count)]


def test_an_array_shares_a_directory_that_its_number_names() -> None:
    places = {settled(slurm(number))["output_dir"] for number in range(4)}
    assert places == {"outputs/eval/slurm_4711"}


def test_a_directory_that_was_given_is_kept() -> None:
    tree = {"eval": {"shard_id": "slurm"}, "output_dir": "mine"}
    from_slurm(tree, slurm(1))
    assert tree["output_dir"] == "mine"


def test_part_of_an_array_can_be_sent_again_when_the_number_of_shards_is_given() -> None:
    assert settled(slurm(7, first=7, count=1), num_shards="10")["eval"] == {"shard_id": 7, "num_shards": "10"}


@pytest.mark.parametrize("environment", [slurm(7, first=7, count=1), slurm(9, first=1, count=3)])
def test_part_of_an_array_is_not_taken_for_a_whole_one(environment: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"Give --eval\.num_shards"):
        settled(environment)


def test_outside_an_array_slurm_is_refused() -> None:
    with pytest.raises(UsageError, match="SLURM_ARRAY_TASK_ID is not set"):
        settled({})


def test_slurms_variables_reach_a_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in slurm(2).items():
        monkeypatch.setenv(name, value)
    found = settings_from_flags([*BASE[:-1], "--eval.shard_id=slurm"])
    assert (found.eval.shard_id, found.eval.num_shards) == (2, 4)
    assert str(found.output_dir) == "outputs/eval/slurm_4711"
