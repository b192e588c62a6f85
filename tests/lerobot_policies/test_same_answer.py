"""An episode's result is the same bits however it is run, and the bits of LeRobot's own loop."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import digests, flags
from lerobot_runs import Result, evaluate, lerobots_own, settings_tree
from proctor.results import Evaluation

Checkpoint = Callable[[str], Path]

KINDS = ("act", "diffusion", "ensemble", "smolvla")


def options(kind: str, **changes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    # A temporal ensemble is drawn at every step, so it gets fewer episodes.
    small: dict[str, dict[str, Any]] = {"env": {"task": "reach-v3"}, "eval": {"n_episodes": 2}}
    merged = dict(small) if kind == "ensemble" else {}
    for section, values in changes.items():
        merged[section] = {**merged.get(section, {}), **values}
    return merged


@pytest.fixture(scope="module")
def alone(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Evaluation]:
    """Each checkpoint evaluated by one worker: what every other way must equal."""
    made: dict[str, Evaluation] = {}

    def get(kind: str) -> Evaluation:
        if kind not in made:
            place = tmp_path_factory.mktemp(f"alone-{kind}") / "run"
            made[kind] = evaluate(place, checkpoint(kind), **options(kind, eval={"batch_size": 1}))
        return made[kind]

    return get


Alone = Callable[[str], Evaluation]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_as_lerobots_own_loop_on_each_episode_alone(
    kind: str, checkpoint: Checkpoint, alone: Alone
) -> None:
    evaluation = alone(kind)
    ours = {r.key: Result(r.steps, r.success, r.sum_reward, r.max_reward) for r in evaluation.records}
    chosen = [episode for episode in evaluation.plan if episode.index == 1]
    theirs = {episode.key: lerobots_own(checkpoint(kind), episode) for episode in chosen}
    assert theirs == {key: ours[key] for key in theirs}


@pytest.mark.parametrize("workers", [3, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_workers(
    kind: str, workers: int, tmp_path: Path, checkpoint: Checkpoint, alone: Alone
) -> None:
    changed = options(kind, eval={"batch_size": workers}, policy={"placement": "central"})
    assert digests(evaluate(tmp_path / "run", checkpoint(kind), **changed)) == digests(alone(kind))


@pytest.mark.parametrize("kind", ["act", "diffusion"])
def test_a_copy_in_every_worker(kind: str, tmp_path: Path, checkpoint: Checkpoint, alone: Alone) -> None:
    evaluation = evaluate(tmp_path / "run", checkpoint(kind), policy={"placement": "worker"})
    assert digests(evaluation) == digests(alone(kind))


def test_two_hosts(tmp_path: Path, checkpoint: Checkpoint, alone: Alone) -> None:
    both = {"policy": {"device": "cpu,cpu"}, "eval": {"batch_size": 4}}
    assert digests(evaluate(tmp_path / "run", checkpoint("act"), **both)) == digests(alone("act"))
    assert (tmp_path / "run/logs/host-1.log").exists()


def test_everything_in_one_process(tmp_path: Path, checkpoint: Checkpoint, alone: Alone) -> None:
    # As a command: it sets torch and GL up for all that follows in its process.
    tree = settings_tree(tmp_path / "run", checkpoint("diffusion"), eval={"use_async_envs": False})
    subprocess.run([sys.executable, "-m", "proctor", "eval", *flags(tree)], check=True, timeout=200)
    assert digests(tmp_path / "run") == digests(alone("diffusion"))


@pytest.mark.skipif("PROCTOR_SIM_PYTHON" not in os.environ, reason="make test-lerobot names a second interpreter")
@pytest.mark.timeout(1500)  # three processes that import torch, one after the other
@pytest.mark.parametrize("kind", ["act", "diffusion", "ensemble"])
def test_through_another_interpreter(kind: str, tmp_path: Path, checkpoint: Checkpoint, alone: Alone) -> None:
    """Simulators in an environment without torch and lerobot, the policy in this one."""
    changes = options(kind, policy={"python": sys.executable}, eval={"batch_size": 3})
    tree = settings_tree(tmp_path / "run", checkpoint(kind), **changes)
    simulators = os.environ["PROCTOR_SIM_PYTHON"]
    subprocess.run([simulators, "-m", "proctor", "eval", *flags(tree)], check=True, timeout=600)
    assert digests(tmp_path / "run") == digests(alone(kind))
    if kind == "act":
        replay_with_pictures(simulators, tmp_path / "run")


def replay_with_pictures(simulators: str, run: Path) -> None:
    """Replay a run without its policy's interpreter, to the last pixel that it saw."""
    found = digests(run)
    assert all(pixels is not None for _, pixels in found.values())
    command = [simulators, "-m", "proctor", "replay", str(run)]
    done = subprocess.run(command, check=False, timeout=600, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(found)} of {len(found)} episodes the same" in done.stdout
    assert "pixels not checkable" not in done.stdout


def test_a_larger_batch_is_another_run_but_no_row_depends_on_the_others(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    four = {"policy": {"batch_size": 4, "placement": "central"}}
    one = evaluate(tmp_path / "one", checkpoint("diffusion"), **four, eval={"batch_size": 1})
    many = evaluate(tmp_path / "many", checkpoint("diffusion"), **four, eval={"batch_size": 6})
    assert one.info["run"]["identity"]["policy"]["batch"] == 4
    assert digests(one) == digests(many)
