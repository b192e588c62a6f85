"""The example that lets LeRobot's own trainer evaluate with Proctor, run as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import proctor

EXAMPLE = Path(__file__).parents[2] / "examples" / "training" / "lerobot_trainer.py"


def test_lerobots_trainer_evaluates_its_live_policy(tmp_path: Path) -> None:
    demonstrations = proctor.evaluate(
        "expert",
        task="reach-v3",
        n_episodes=2,
        display="none",
        env={"episode_length": 12},
        output_dir=tmp_path / "expert",
        settings={"eval": {"recording": True}},
    )
    small = {"chunk_size": 8, "n_action_steps": 4, "dim_model": 32, "n_heads": 4, "dim_feedforward": 64,
             "n_encoder_layers": 1, "n_vae_encoder_layers": 1, "latent_dim": 8}  # fmt: skip
    flags = [
        "--policy.type=act", "--policy.push_to_hub=false", "--policy.device=cpu",
        "--policy.pretrained_backbone_weights=null",
        *(f"--policy.{name}={value}" for name, value in small.items()),
        "--dataset.repo_id=proctor/expert", f"--dataset.root={demonstrations.path / 'dataset'}",
        "--env.type=metaworld", "--env.task=reach-v3", "--env.episode_length=12", "--eval.n_episodes=1",
        "--steps=4", "--env_eval_freq=2", "--save_freq=2", "--batch_size=2", "--num_workers=0",
        f"--output_dir={tmp_path / 'train'}", "--wandb.enable=false",
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *flags], capture_output=True, text=True, cwd=tmp_path, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for step in ("2", "4"):
        (saved,) = (tmp_path / "train" / "checkpoints").glob(f"*{step}/pretrained_model")
        (live,) = (tmp_path / "train" / "eval").glob(f"step_*{step}")
        again = proctor.evaluate(
            saved, task="reach-v3", n_episodes=1, seed=1000, display="none", env={"episode_length": 12},
            output_dir=tmp_path / f"again-{step}",
        )  # fmt: skip
        stored = proctor.evaluate(
            saved, task="reach-v3", n_episodes=1, seed=1000, display="none", env={"episode_length": 12},
            output_dir=live,
        )  # fmt: skip
        # The checkpoint continues the live run: there is nothing left to do, and the episode is the same.
        assert [record.digests for record in stored] == [record.digests for record in again]
        assert (live / "report.html").is_file()
