"""The same answer every time: equal digests however an evaluation is run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import proctor
from cases import crossed
from harness import SUPPORT, THOUGHTFUL, Digests, digests, run_tiny
from tiny_policies import Counting, Thoughtful


@pytest.mark.parametrize(("workers", "placement"), crossed([2, 1, 5], ["central", "worker"]))
def test_worker_count_and_placement_change_nothing(
    tmp_path: Path, reference: Digests, workers: int, placement: str
) -> None:
    evaluation = run_tiny(tmp_path / "run", policy={"placement": placement}, eval={"batch_size": workers})
    assert digests(evaluation) == reference


def test_videos_change_nothing(tmp_path: Path, reference: Digests) -> None:
    evaluation = run_tiny(tmp_path / "run", eval={"max_episodes_rendered": 2})
    assert digests(evaluation) == reference
    assert sum(record.video_path is not None for record in evaluation.records) == 6


def test_running_in_this_process_changes_nothing(tmp_path: Path, reference: Digests) -> None:
    assert digests(run_tiny(tmp_path / "run", eval={"use_async_envs": False})) == reference


def test_a_live_policy_object_changes_nothing(tmp_path: Path, reference: Digests) -> None:
    assert digests(run_tiny(tmp_path / "run", live=Thoughtful())) == reference


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["random", "zero"])
def test_a_policy_that_never_looks_runs_alike_everywhere(tmp_path: Path, kind: str) -> None:
    central, worker = (
        run_tiny(tmp_path / placement, policy={"path": None, "type": kind, "placement": placement})
        for placement in ("central", "worker")
    )
    assert digests(central) == digests(worker)
    assert len(set(digests(worker).values())) == 12
    assert all(record.looks == 0 for record in worker.records)


def test_recycled_workers_change_nothing(tmp_path: Path, reference: Digests) -> None:
    found = digests(run_tiny(tmp_path / "run", task="a,b", n_episodes=2, eval={"recycle_after": 1}))
    assert len(found) == 4
    assert found.items() <= reference.items()


def test_a_limit_on_open_tasks_changes_nothing(tmp_path: Path, reference: Digests) -> None:
    assert digests(run_tiny(tmp_path / "run", env={"max_parallel_tasks": 1})) == reference


def test_more_episodes_extend_a_run_and_change_nothing_of_it(tmp_path: Path, reference: Digests) -> None:
    first = run_tiny(tmp_path / "run", n_episodes=1)
    assert len(first.records) == 3
    assert digests(run_tiny(tmp_path / "run", n_episodes=4)) == reference


def test_another_seed_changes_everything(tmp_path: Path, reference: Digests) -> None:
    other = digests(run_tiny(tmp_path / "run", seed=1))
    assert other.keys() == reference.keys()
    assert not set(other.values()) & set(reference.values())


def test_the_same_task_and_seed_give_the_same_episode_whatever_other_tasks_run(
    tmp_path: Path, reference: Digests
) -> None:
    alone = digests(run_tiny(tmp_path / "run", task="b"))
    assert alone == {key: digest for key, digest in reference.items() if key.group == "b"}


def test_a_policy_with_hidden_state_sees_its_own_episode_only(tmp_path: Path) -> None:
    runs = [
        proctor.evaluate(
            Counting(), benchmark=f"{SUPPORT / 'tiny.py'}:Tiny", task="a,b", n_episodes=3,
            workers=workers, output_dir=tmp_path / str(workers), display="none",
        )
        for workers in (1, 3)
    ]  # fmt: skip
    first, second = ([record.digests for record in run] for run in runs)
    assert first == second


any_way = given(
    workers=st.integers(1, 4),
    batch=st.sampled_from([1, 2, 7]),
    lanes=st.sampled_from([1, 2, 5]),
    recycle=st.sampled_from([0, 1, 3]),
    open_tasks=st.integers(0, 3),
    videos=st.integers(0, 2),
    split=st.integers(1, 4),
)


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@any_way
def test_some_ways_to_run_give_the_same_digests(reference: Digests, **way: int) -> None:
    run_in_two_sessions(reference, **way)


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@any_way
def test_any_way_to_run_gives_the_same_digests(reference: Digests, **way: int) -> None:
    run_in_two_sessions(reference, **way)


def run_in_two_sessions(
    reference: Digests,
    *,
    workers: int,
    batch: int,
    lanes: int,
    recycle: int,
    open_tasks: int,
    videos: int,
    split: int,
) -> None:
    options: dict[str, Any] = {
        "policy": {"path": THOUGHTFUL, "kwargs": {"batch": batch, "lanes": lanes}},
        "env": {"max_parallel_tasks": open_tasks},
        "eval": {"batch_size": workers, "recycle_after": recycle, "max_episodes_rendered": videos},
    }
    with tempfile.TemporaryDirectory() as directory:
        run_tiny(Path(directory) / "run", n_episodes=split, **options)
        assert digests(run_tiny(Path(directory) / "run", **options)) == reference
