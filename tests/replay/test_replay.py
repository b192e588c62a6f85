"""Stored actions, run through the simulator alone, give the episode that is stored; what was changed is named."""

from __future__ import annotations

import dataclasses
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import SUPPORT, digests, run_cli, run_tiny
from proctor.benchmarks.metaworld.tasks import MT50
from proctor.config.load import build_settings
from proctor.engine.evaluation import evaluate_settings
from proctor.engine.interrupts import Interrupts
from proctor.engine.merging import merge_runs
from proctor.errors import UsageError
from proctor.events import Watcher
from proctor.replay.replayer import Replay, Replayer, replayable
from proctor.store.episodes import EpisodeTable
from proctor.store.stored_run import StoredRun
from proctor.store.trajectories import Trajectory, pack_trajectory


def replay(path: Path, words: str = "", pixels: bool = True, **given: Any) -> Replay:
    run = StoredRun.open(path)
    plan, _ = replayable(run, words)
    with Interrupts() as interrupts, Replayer(run, given, pixels) as replayer:
        return replayer.replay(plan, Watcher(), interrupts)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "run"
    run_tiny(path)
    return path


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


def forge(path: Path, task: str, index: int, **columns: Any) -> None:
    """Change an episode as a forger would: with checksums that are right again."""
    with EpisodeTable(path / "run.sqlite") as table:
        tables, key = table._tables, (task, 0, index)
        with tables.transaction():
            before = tables.find("episodes", key)
            assert before is not None
            tables.replace("episodes", before, {**before, **columns})


def forge_trajectory(path: Path, task: str, index: int, change: Callable[[Trajectory], Trajectory]) -> None:
    with EpisodeTable(path / "run.sqlite") as table:
        tables, key = table._tables, (task, 0, index)
        with tables.transaction():
            row, before = tables.find("trajectories", key), tables.find("episodes", key)
            assert row is not None
            assert before is not None
            trajectory = table.trajectory(StoredRun(path).planned[0].key._replace(group=task, episode_index=index))
            assert trajectory is not None
            packed = pack_trajectory(change(trajectory))
            tables.replace("trajectories", row, {**row, "trajectory": packed})
            tables.replace("episodes", before, {**before, "trajectory_bytes": len(packed)})


def test_every_episode_is_the_same(whole: Path) -> None:
    found = replay(whole)
    assert (found.same, found.differing, found.failed, found.pixels) == (12, [], [], "")
    assert not found.elsewhere


@pytest.mark.parametrize(
    "how",
    [
        {"eval": {"use_async_envs": False}},
        {"policy": {"placement": "central"}},
        {"env": {"mischief": "step.kill!:b:2:3 step.raise!:a:1:2"}},
        {"policy": {"path": f"{SUPPORT / 'processed.py'}:Follows"},
         "env": {"type": f"{SUPPORT / 'processed.py'}:ProcessedTiny"}},
        {"policy": {"path": f"{SUPPORT / 'processed.py'}:WithItsOwn"}},
        {"rename_map": {"observation.state": "observation.arm"},
         "policy": {"path": None, "type": "random"}},
        {"policy": {"path": None, "type": "random"}},
    ],
)  # fmt: skip
@pytest.mark.sampled(4)
def test_so_it_is_however_the_run_was_made(tmp_path: Path, how: dict[str, Any]) -> None:
    run_tiny(tmp_path / "run", n_episodes=2, **how)
    found = replay(tmp_path / "run")
    assert (found.same, found.differing, found.failed) == (6, [], [])


def test_so_it_is_after_a_resume_a_merge_and_of_a_shard(tmp_path: Path) -> None:
    for number in range(2):
        run_tiny(tmp_path / "run", n_episodes=2, eval={"shard_id": number, "num_shards": 2})
    assert replay(tmp_path / "run" / "shard_1_of_2").same == 3
    merge_runs([tmp_path / "run"])
    run_tiny(tmp_path / "run", n_episodes=3)
    assert replay(tmp_path / "run").same == 9


def test_chosen_episodes_are_replayed_alone(whole: Path) -> None:
    assert replay(whole, "a:1-2,c").same == 6
    with pytest.raises(UsageError, match="no task is called 'd'"):
        replay(whole, "d:0")
    with pytest.raises(UsageError, match="each task has episodes 0 to 3 here"):
        replay(whole, "a:4")


def test_without_pictures_physics_are_compared(whole: Path) -> None:
    found = replay(whole, "a", pixels=False)
    assert (found.same, found.pixels) == (4, "they were left out")


def test_pictures_of_another_renderer_are_not_compared(copy: Path) -> None:
    with EpisodeTable(copy / "run.sqlite") as table:
        table.set_meta("identity", {**table.meta("identity"), "renderer": "another"})
    forge(copy, "a", 0, pixel_digest="0" * 64)
    found = replay(copy, "a")
    assert (found.same, found.pixels) == (4, "they were drawn by another, and here is None")


def test_the_command_says_that_pictures_could_not_be_checked_and_why(copy: Path) -> None:
    done = run_cli("replay", str(copy), "a:0-1")
    assert "pixels" not in done.stdout
    done = run_cli("replay", str(copy), "a:0-1", "--pixels=false")
    assert (done.returncode, "pixels not checkable here: they were left out\n" in done.stdout) == (0, True)
    with EpisodeTable(copy / "run.sqlite") as table:
        table.set_meta("identity", {**table.meta("identity"), "renderer": "another"})
    done = run_cli("replay", str(copy), "a:0-1")
    assert done.returncode == 0, done.stderr
    assert "pixels not checkable here: they were drawn by another, and here is None\n" in done.stdout


def first(path: Path, words: str) -> str:
    (found,) = replay(path, words).differing
    return str(found)


def test_a_forged_result_is_named(copy: Path) -> None:
    forge(copy, "a", 1, success=0)
    assert first(copy, "a") == "a episode 1: success: stored False, now True"
    forge(copy, "b", 0, sum_reward=99.0)
    assert first(copy, "b").startswith("b episode 0: sum_reward: stored 99.0, now ")
    forge(copy, "c", 3, digest="f" * 64)
    assert first(copy, "c").startswith(f"c episode 3: digest: stored {'f' * 40}..., now ")


def test_a_forged_action_is_named_by_the_step_it_changed(copy: Path) -> None:
    def push(trajectory: Trajectory) -> Trajectory:
        actions = trajectory.actions[0].copy()
        actions[2] += 1
        return dataclasses.replace(trajectory, actions=[actions])

    forge_trajectory(copy, "a", 2, push)
    assert first(copy, "a").startswith("a episode 2: step 3, reward: stored ")


def test_actions_that_end_too_soon_or_too_late_are_named(copy: Path) -> None:
    def cut(trajectory: Trajectory) -> Trajectory:
        steps = trajectory.steps - 1
        return dataclasses.replace(
            trajectory,
            actions=[trajectory.actions[0][:steps]],
            rewards=trajectory.rewards[:steps],
            chunks=np.ones(steps, np.int64),
            succeeded=None,
        )

    forge_trajectory(copy, "a", 2, cut)
    assert "ending: stored terminated, now it goes on" in first(copy, "a")


def test_a_forged_seed_is_named(copy: Path) -> None:
    forge(copy, "a", 0, seed=7)
    assert first(copy, "a") == "a episode 0: seed: stored 7, now 1000"
    with EpisodeTable(copy / "run.sqlite") as table:
        table.set_meta("identity", {**table.meta("identity"), "seed": 7})
    found = replay(copy, "b")
    assert len(found.differing) == 4
    assert {one.first.step for one in found.differing if one.first} == {0}


def test_a_simulator_that_fails_is_no_difference(whole: Path) -> None:
    found = replay(whole, "a", env={"mischief": "step.raise:a:1:2"})
    assert (found.same, found.differing) == (3, [])
    assert found.failed[0].startswith("a episode 1: step raised RuntimeError")


def test_a_run_without_actions_cannot_be_replayed(tmp_path: Path) -> None:
    run_tiny(tmp_path / "run", task="a", n_episodes=1, eval={"store_actions": False})
    with pytest.raises(UsageError, match="none of its episodes has stored actions"):
        replay(tmp_path / "run")


def test_the_command_says_what_differs_and_ends_with_1(copy: Path) -> None:
    before = (copy / "run.sqlite").read_bytes()
    done = run_cli("replay", str(copy), "a:0-1", "b:3")
    assert (done.returncode, done.stdout.splitlines()[-1].partition(";")[0]) == (
        0,
        "3 of 3 episodes the same, 0 differ",
    )
    assert (copy / "run.sqlite").read_bytes() == before
    forge(copy, "b", 3, steps=7)
    done = run_cli("replay", str(copy), "--only=b:3", "--workers=1")
    assert done.returncode == 1, done.stderr
    assert "b episode 3: steps: stored 7, now " in done.stdout
    assert "0 of 1 episode the same, 1 differ" in done.stdout


def test_a_damaged_table_is_refused(copy: Path) -> None:
    database = sqlite3.connect(copy / "run.sqlite")
    with database:
        database.execute(
            "UPDATE trajectories SET trajectory = zeroblob(length(trajectory)) WHERE task_group = 'b'"
        )
    database.close()
    done = run_cli("replay", str(copy), "b:0")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "is damaged: the row of b episode 0 in its table 'trajectories'" in done.stderr


def metaworld(path: Path, task: str, n_episodes: int, **env: Any) -> None:
    tree = {
        "policy": {"type": "expert"},
        "env": {"type": "metaworld", "task": task, **env},
        "eval": {"n_episodes": n_episodes},
        "output_dir": str(path),
        "display": "none",
    }
    evaluate_settings(build_settings(tree))


@pytest.mark.parametrize(
    "tasks",
    [
        pytest.param("reach-v3,push-v3,pick-place-v3,window-close-v3", id="some"),
        pytest.param(",".join(MT50), id="all", marks=pytest.mark.slow),
    ],
)
def test_meta_world_is_replayed_to_the_bit(tmp_path: Path, tasks: str) -> None:
    pytest.importorskip("metaworld")
    metaworld(tmp_path / "run", tasks, 2, obs_type="state")
    found = replay(tmp_path / "run")
    assert (found.same, found.differing, found.failed) == (len(digests(tmp_path / "run")), [], [])


@pytest.mark.gl
def test_a_run_of_pictures_whose_policy_has_its_own_interpreter_is_replayed_with_them(tmp_path: Path) -> None:
    pytest.importorskip("metaworld")
    tree = {
        "policy": {"path": f"{SUPPORT / 'pixel_policy.py'}:Pixels", "python": sys.executable},
        "env": {
            "type": "metaworld",
            "task": "reach-v3",
            "observation_height": 32,
            "observation_width": 32,
            "episode_length": 12,
        },
        "eval": {"n_episodes": 1},
        "output_dir": str(tmp_path / "run"),
        "display": "none",
    }
    evaluate_settings(build_settings(tree))
    found = replay(tmp_path / "run")
    assert (found.same, found.differing, found.pixels) == (1, [], "")
    with EpisodeTable(tmp_path / "run" / "run.sqlite") as table:
        key = next(iter(digests(tmp_path / "run")))
        trajectory = table.trajectory(key)
    assert trajectory is not None
    assert trajectory.marks
