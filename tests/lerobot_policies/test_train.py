"""From demonstrations to evaluated checkpoints, by Proctor's own trainer and by LeRobot's.

The trainings are tiny; what is shown is that each goes on from wherever it was cut off, and to the same end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import proctor
from harness import digests, stored, wait_until
from proctor.training.checkpoints import Checkpoints
from tiny_smolvla import save_backbone

SIDE = 64
WITH_SIMULATORS = os.environ.get("PROCTOR_SIM_PYTHON", sys.executable)
"""An interpreter without torch and lerobot, where there is one."""

CAMERA = ["--env.episode_length=8", f"--env.observation_height={SIDE}", f"--env.observation_width={SIDE}"]


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _recorded(tmp_path_factory.mktemp("states") / "run", 4, {"episode_length": 60, "obs_type": "state"})


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    env = {"episode_length": 12, "observation_height": SIDE, "observation_width": SIDE}
    return _recorded(tmp_path_factory.mktemp("pictures") / "run", 2, env)


def _recorded(place: Path, episodes: int, env: dict[str, Any]) -> Path:
    settings = {"eval": {"recording": True}}
    proctor.evaluate(
        "expert", task="reach-v3", n_episodes=episodes, display="none", env=env, output_dir=place,
        settings=settings, seed=500_000,
    )  # fmt: skip
    return place


def start(*arguments: str, python: str = sys.executable) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [python, "-m", "proctor", "train", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip


def run(*arguments: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    process = start(*arguments, python=python)
    out, err = process.communicate(timeout=240)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def evaluated(training: Path) -> list[int]:
    return [one["step"] for one in json.loads((training / "training.json").read_text())["evaluations"]]


def kill_when(process: subprocess.Popen[str], condition: Callable[[], Any], number: signal.Signals) -> int:
    try:
        wait_until(condition, 120)
    finally:
        process.send_signal(number)
        process.communicate(timeout=60)
    return process.returncode


def test_a_compact_policy_cut_off_at_three_points_ends_in_the_same_weights_and_episodes(
    states: Path, tmp_path: Path
) -> None:
    flags = [
        "--policy.type=compact", "--policy.width=96", "--policy.device=cpu", f"--dataset.root={states}",
        "--env.type=metaworld", "--env.task=reach-v3", "--env.obs_type=state", "--env.episode_length=60",
        "--eval.n_episodes=4", "--eval.batch_size=1", "--eval.stop_grace=0", "--steps=900", "--batch_size=256",
        "--eval_freq=300", "--log_freq=100",
    ]  # fmt: skip
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    done = run(*flags, f"--output_dir={whole}")
    assert done.returncode == 0, done.stderr
    arguments = [*flags, f"--output_dir={cut}"]
    progress, checkpoints = cut / "logs/progress.log", Checkpoints(cut)

    def began() -> bool:
        return progress.exists() and "weights on cpu" in progress.read_text()

    kill_when(start(*arguments), began, signal.SIGKILL)
    assert checkpoints.whole() == [], "before the first checkpoint"
    kill_when(start(*arguments), checkpoints.whole, signal.SIGKILL)
    assert [one.step for one in checkpoints.whole()] == [300], "between two"
    status = kill_when(start(*arguments), lambda: 0 < stored(cut / "eval/000300") < 4, signal.SIGINT)
    assert status == 130, "during an evaluation"
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    for file in sorted(whole.glob("checkpoints/*/pretrained_model/*")):
        assert (cut / file.relative_to(whole)).read_bytes() == file.read_bytes(), file
    assert evaluated(cut) == evaluated(whole) == [300, 600, 900]
    for step in ("000300", "000600", "000900"):
        assert digests(cut / "eval" / step) == digests(whole / "eval" / step)


def test_lerobots_trainer_in_another_interpreter_goes_on_from_its_last_checkpoint(
    pictures: Path, tmp_path: Path
) -> None:
    small = {"chunk_size": 8, "n_action_steps": 4, "dim_model": 32, "n_heads": 4, "dim_feedforward": 64,
             "n_encoder_layers": 1, "n_vae_encoder_layers": 1, "latent_dim": 8}  # fmt: skip
    training = tmp_path / "training"
    flags = [
        "--policy.type=act", f"--policy.python={sys.executable}", "--policy.device=cpu",
        "--policy.pretrained_backbone_weights=null",
        *(f"--policy.{name}={value}" for name, value in small.items()),
        f"--dataset.root={pictures}", "--env.type=metaworld", "--env.task=reach-v3", *CAMERA,
        "--eval.n_episodes=1", "--eval.batch_size=1", "--steps=6", "--eval_freq=4", "--save_freq=2",
        "--batch_size=2", "--num_workers=0", "--log_freq=1", f"--output_dir={training}",
    ]  # fmt: skip
    checkpoints = Checkpoints(training)
    kill_when(start(*flags, python=WITH_SIMULATORS), checkpoints.whole, signal.SIGKILL)
    before = checkpoints.last()
    assert before is not None
    done = run(*flags, python=WITH_SIMULATORS)
    assert done.returncode == 0, done.stderr
    if before.step < 6:
        assert f"training goes on from step {before.step}" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert [one.step for one in checkpoints.whole()] == [2, 4, 6]
    assert evaluated(training) == [4, 6], "every fourth step, and the last"
    last = checkpoints.last()
    assert last is not None
    told = json.loads(last.train_config.read_text())
    assert (told["env"], told["env_eval_freq"]) == (None, 0), "LeRobot's own evaluation is off"
    alone = proctor.evaluate(
        last.policy, task="reach-v3", n_episodes=1, display="none", output_dir=tmp_path / "alone",
        env={"episode_length": 8, "observation_height": SIDE, "observation_width": SIDE},
    )  # fmt: skip
    assert [record.digests for record in alone] == list(digests(training / "eval/000006").values())


def test_the_command_on_lerobots_page_of_meta_world(pictures: Path, tmp_path: Path) -> None:
    """`lerobot-train` replaced by `proctor train`; dataset and backbone are on this machine, and tiny."""
    backbone = save_backbone(tmp_path / "backbone", weights=True)
    training = tmp_path / "training"
    done = run(
        "--policy.type=smolvla", "--policy.repo_id=me/metaworld-test", "--policy.load_vlm_weights=true",
        "--dataset.repo_id=lerobot/metaworld_mt50", f"--dataset.root={pictures}", "--env.type=metaworld",
        "--env.task=reach-v3,push-v3", f"--output_dir={training}", "--steps=2", "--batch_size=4",
        "--eval.batch_size=1", "--eval.n_episodes=1", "--eval_freq=1",
        # What makes it tiny.
        f"--policy.vlm_model_name={backbone}", "--policy.num_vlm_layers=2", "--policy.chunk_size=8",
        "--policy.n_action_steps=8", "--policy.num_steps=2", f"--policy.resize_imgs_with_padding=[{SIDE},{SIDE}]",
        "--policy.device=cpu", "--num_workers=0", *CAMERA,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads((training / "training.json").read_text())
    assert [(one["step"], one["episodes"], one["errors"]) for one in told["evaluations"]] == [(1, 2, 0), (2, 2, 0)]
    assert (training / "report.html").is_file()
    assert (training / "checkpoints/best").readlink() == Path(f"{told['best']:06d}")
    assert "reach-v3" in (training / "eval/000002/report.html").read_text()


@pytest.mark.parametrize("what", ["dataset", "backbone"])
def test_what_needs_the_hub_is_one_line_that_names_the_repository(
    pictures: Path, tmp_path: Path, what: str
) -> None:
    lacking = {
        "dataset": ["--policy.type=act", "--dataset.repo_id=nobody/nothing"],
        "backbone": [
            "--policy.type=smolvla", "--policy.vlm_model_name=nobody/nothing", f"--dataset.root={pictures}"
        ],
    }  # fmt: skip
    done = run(*lacking[what], "--policy.device=cpu", "--num_workers=0", f"--output_dir={tmp_path / 'training'}")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "'nobody/nothing'" in line
    assert "HF_HUB_OFFLINE is set" in line
    assert not (tmp_path / "training").exists()
