"""What the tests of PushT and ALOHA share: a run that always draws, and a checkpoint in LeRobot's interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from harness import SUPPORT, Digests, digests, flags
from proctor.benchmarks.gym.presets import Preset
from proctor.benchmarks.protocol import Simulator
from proctor.types import NO_LOOK, Episode, Task

LEROBOT = os.environ.get("PROCTOR_LEROBOT_PYTHON", "")
STEPS = 40


def actions(preset: Preset, steps: int = STEPS) -> NDArray[np.float32]:
    low, high, size = preset.spec.action_low, preset.spec.action_high, preset.spec.action_size
    return np.random.default_rng(7).uniform(low, high, (steps, size)).astype(np.float32)


def always_drawing(
    env_id: str, kwargs: dict[str, Any], seed: int, moves: NDArray[np.float32]
) -> tuple[list[Any], list[float]]:
    """Return the observations and rewards of the environment itself, as LeRobot makes it."""
    env = gymnasium.make(env_id, disable_env_checker=True, render_mode="rgb_array", **kwargs)
    seen, rewards = [env.reset(seed=seed)[0]], []
    for move in moves:
        observation, reward, *_ = env.step(move)
        seen.append(observation)
        rewards.append(float(reward))
    env.close()
    return seen, rewards


def drawing_now_and_then(
    simulator: Simulator, task: Task, keys: frozenset[str], seed: int, moves: NDArray[np.float32], every: int
) -> tuple[dict[int, Any], list[float]]:
    """Return the observations of every n-th step and all rewards, through Proctor."""
    simulator.reset(Episode(task, 0, seed), keys)
    seen, rewards = {0: simulator.observe()}, []
    for step, move in enumerate(moves, 1):
        look = keys if step % every == 0 else NO_LOOK
        rewards.append(simulator.step(move, look).reward)
        if look:
            seen[step] = simulator.observe()
    return seen, rewards


def in_lerobot(code: str) -> Any:
    """Run code in LeRobot's interpreter and return the JSON that it prints last."""
    done = subprocess.run([LEROBOT, "-c", code], capture_output=True, text=True, check=True, timeout=900)
    return json.loads(done.stdout.splitlines()[-1])


def lerobots_config(name: str) -> dict[str, Any]:
    """Return LeRobot's own settings of an environment."""
    found: dict[str, Any] = in_lerobot(
        "import json, dataclasses\n"
        "from lerobot.envs.factory import make_env_config\n"
        f"c = make_env_config({name!r})\n"
        "keys = {c.features_map[k]: list(f.shape) for k, f in c.features.items()}\n"
        "names = [f.name for f in dataclasses.fields(c) if not f.name.startswith('features')]\n"
        "plain = {name: getattr(c, name) for name in names}\n"
        "print(json.dumps({**plain, 'gym_id': c.gym_id, 'package': c.package_name, 'keys': keys}))\n"
    )
    return found


def make_checkpoint(name: str, directory: Path) -> Path:
    subprocess.run([LEROBOT, str(SUPPORT / "gym_checkpoints.py"), name, str(directory)], check=True, timeout=900)
    return directory


def run_checkpoint(output_dir: Path, name: str, checkpoint: Path, workers: int, **env: Any) -> Digests:
    """Evaluate in LeRobot's interpreter, with the simulators in this one: `--env.python`."""
    tree = {
        "policy": {"path": str(checkpoint), "placement": "central"},
        "env": {"type": name, "python": sys.executable, **env},
        "eval": {"n_episodes": 4, "batch_size": workers},
        "output_dir": str(output_dir),
        "display": "plain",
    }
    command = [LEROBOT, "-m", "proctor", "eval", *flags(tree)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    found = digests(output_dir)
    assert len(set(found.values())) == 4 * len(str(env.get("task", "one")).split(","))
    assert all(pixels is not None for _, pixels in found.values()), "it looks at pictures"
    return found
