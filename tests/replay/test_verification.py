"""`proctor verify` names what was forged, and says exactly what its sample proves."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from harness import SUPPORT, THOUGHTFUL, run_cli, run_tiny
from proctor.plan import make_plan
from proctor.replay.verification import draw, new_seed, statement
from proctor.store.bundles import write_bundle
from proctor.store.stored_run import StoredRun
from proctor.store.trajectories import Trajectory
from proctor.types import Task
from replay.test_replay import forge, forge_trajectory

TINY = f"--env.type={SUPPORT / 'tiny.py'}:Tiny"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "run"
    run_tiny(path, task="a,b")
    return path


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


def bundled(run: Path) -> str:
    path = run.parent / "shared.proctor"
    write_bundle(StoredRun.open(run), path)
    return str(path)


def test_a_sample_is_drawn_without_replacement_and_again_by_its_seed() -> None:
    plan = make_plan([Task("a", 0, "a", "", 9)], 500, 0)
    seed = new_seed()
    sample = draw(plan, 59, seed)
    assert len({episode.index for episode in sample}) == 59
    assert draw(plan, 59, seed) == sample != draw(plan, 59, new_seed())
    assert draw(plan, 501, seed) is plan


def test_each_episode_is_as_likely_as_any_other() -> None:
    plan = make_plan([Task("a", 0, "a", "", 9)], 20, 0)
    times = [0] * 20
    for seed in range(4_000):
        for episode in draw(plan, 5, seed):
            times[episode.index] += 1
    # 4,000 samples of a quarter each: five standard deviations of 27.
    assert all(abs(one - 1_000) < 137 for one in times)


def test_the_statement_says_what_was_proved() -> None:
    assert statement(0, 59, 500) == "0 of 59 differ: with 95 % confidence fewer than 4.8 % of 500 episodes do"
    assert statement(0, 8, 8) == "0 of 8 differ: these are all episodes"
    assert statement(2, 59, 500) == "2 of 59 differ"


def test_a_run_and_its_bundle_are_verified_with_and_without_the_policy(whole: Path) -> None:
    done = run_cli("verify", bundled(whole), TINY, "--sample=5", f"--policy.path={THOUGHTFUL}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "by replay: 0 of 5 differ: with 95 % confidence fewer than" in done.stdout
    assert "with the policy: 0 of 5 differ" in done.stdout
    assert "the actions are the policy's own" in done.stdout
    seed = done.stdout.partition("--sample-seed=")[2].split()[0]
    again = run_cli("verify", str(whole), "--sample=5", f"--sample-seed={seed}")
    assert (again.returncode, f"--sample-seed={seed}\n" in again.stdout) == (0, True)


def test_the_actions_of_another_policy_are_named(whole: Path) -> None:
    done = run_cli("verify", str(whole), "--sample=2", "--policy.type=random")
    assert done.returncode == 1, done.stderr
    assert "by replay: 0 of 2 differ" in done.stdout
    assert "with the policy: 2 of 2 differ; the actions are not this policy's" in done.stdout
    assert ": step 0, action: stored " in done.stdout


def push(trajectory: Trajectory) -> Trajectory:
    return dataclasses.replace(trajectory, actions=[trajectory.actions[0] + 1])


@pytest.mark.parametrize("what", ["outcome", "action", "seed", "digest"])
def test_each_forgery_in_a_bundle_is_named(copy: Path, what: str) -> None:
    match what:
        case "outcome":
            forge(copy, "b", 2, success=0)
            words = "b episode 2: success: stored False, now True"
        case "action":
            forge_trajectory(copy, "b", 2, push)
            words = "b episode 2: step 1, reward: stored"
        case "seed":
            forge(copy, "b", 2, seed=5)
            words = "b episode 2: seed: stored 5, now 1002"
        case _:
            forge(copy, "b", 2, digest="0" * 64)
            words = "b episode 2: digest: stored 000"
    done = run_cli("verify", bundled(copy), TINY)
    assert done.returncode == 1, done.stderr
    assert words in done.stdout
    assert "by replay: 1 of 8 differ; they are not what is stored" in done.stdout


def test_a_bundle_names_no_code_to_run(whole: Path) -> None:
    for command in ("verify", "replay"):
        done = run_cli(command, bundled(whole))
        assert done.returncode == 2
        assert (
            "the bundle's benchmark is tiny.py:Tiny, which does not come with an installed package" in done.stderr
        )
