"""How these tests evaluate a checkpoint on Meta-World, and how LeRobot does."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import lerobot.envs.metaworld as lerobot_metaworld
import mujoco
import torch
from lerobot.configs import PreTrainedConfig
from lerobot.envs.factory import make_env_config, make_env_pre_post_processors
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from lerobot.scripts.lerobot_eval import rollout

from lerobot_checkpoints import SIDE
from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.config.load import build_settings
from proctor.engine.evaluation import evaluate_settings
from proctor.engine.randomness import episode_generator
from proctor.policies.lerobot.policy import LeRobotPolicy, LeRobotSettings
from proctor.results import Evaluation
from proctor.types import BenchmarkSpec, Episode

STEPS = 36


def benchmark(side: int = SIDE, **changes: Any) -> BenchmarkSpec:
    sizes = {"observation_height": side, "observation_width": side}
    return MetaWorld(MetaWorldSettings(type="metaworld", task="reach-v3", **{**sizes, **changes})).spec


def load(path: Path | str, spec: BenchmarkSpec | None = None, **settings: Any) -> LeRobotPolicy:
    return LeRobotPolicy.from_settings(
        LeRobotSettings(**{"type": "lerobot", "path": str(path), "device": "cpu", **settings}),
        spec or benchmark(),
    )


def settings_tree(output_dir: Path, checkpoint: Path | str, **changes: Any) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "policy": {"path": str(checkpoint)},
        "env": {
            "type": "metaworld",
            "task": "reach-v3,push-v3",
            "observation_height": SIDE,
            "observation_width": SIDE,
            "episode_length": STEPS,
        },
        "eval": {"n_episodes": 3, "batch_size": 2},
        "output_dir": str(output_dir),
        "display": "none",
    }
    for section, values in changes.items():
        tree[section] = {**tree[section], **values} if isinstance(tree.get(section), dict) else values
    return tree


def evaluate(output_dir: Path, checkpoint: Path | str, **changes: Any) -> Evaluation:
    evaluation = evaluate_settings(build_settings(settings_tree(output_dir, checkpoint, **changes)))
    assert evaluation.error is None, evaluation.error
    assert all(record.status == "finished" for record in evaluation.records)
    return evaluation


class Result(NamedTuple):
    """What an episode came to."""

    steps: int
    success: bool | None
    sum_reward: float | None
    max_reward: float | None


class SmallEnv(lerobot_metaworld.MetaworldEnv):  # type: ignore[misc]
    """LeRobot's own environment, with smaller pictures, shorter episodes, and goals in their place."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, observation_height=SIDE, observation_width=SIDE, **kwargs)
        self._max_episode_steps = STEPS

    def _format_raw_obs(self, raw_obs: Any) -> Any:
        # Its first picture would show the goal of the reset before: see MetaWorldSimulator._place_markers.
        for name, position in self._env._target_site_config:
            self._env._set_pos_site(name, position)
        mujoco.mj_kinematics(self._env.model, self._env.data)
        return super()._format_raw_obs(raw_obs)

    def _ensure_env(self) -> None:
        fresh = self._env is None
        super()._ensure_env()
        if fresh:
            self._env.mujoco_renderer.width = self._env.mujoco_renderer.height = SIDE


@functools.cache
def loaded(checkpoint: Path) -> tuple[Any, Any, Any]:
    config = PreTrainedConfig.from_pretrained(checkpoint)
    policy = get_policy_class(config.type).from_pretrained(checkpoint, config=config)
    return policy, *make_pre_post_processors(config, pretrained_path=str(checkpoint))


def lerobots_own(checkpoint: Path, episode: Episode) -> Result:
    """Run one episode alone through `lerobot-eval`'s own rollout, with the episode's own seeds."""
    policy, preprocessor, postprocessor = loaded(checkpoint)
    env = gym.vector.SyncVectorEnv(
        [lambda: SmallEnv(task=episode.task.name, obs_type="pixels_agent_pos", render_mode="rgb_array")]
    )
    processors = make_env_pre_post_processors(make_env_config("metaworld"), policy.config)
    # What an episode draws is what it would have drawn after this.
    torch.manual_seed(int(episode_generator(episode).integers(2**63)))
    try:
        with torch.no_grad():
            data = rollout(env, policy, *processors, preprocessor, postprocessor, seeds=[episode.seed])
    finally:
        env.close()
    done = data["done"][0].int()
    steps = int(torch.argmax(done)) + 1
    rewards = data["reward"][0, :steps].tolist()
    return Result(steps, bool(data["success"][0, :steps].any()), math.fsum(rewards), max(rewards))
