"""LeRobot's own rollout on Proctor's vector environments, and a hub's cache with a `make_env` in it."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch
from lerobot.envs.factory import make_env_config, make_env_pre_post_processors
from lerobot.envs.utils import close_envs, preprocess_observation
from lerobot.scripts.lerobot_eval import eval_policy, rollout

import proctor
from lerobot_checkpoints import SIDE
from lerobot_runs import SmallEnv, loaded

Checkpoint = Callable[[str], Path]

STEPS = 6


@pytest.fixture(autouse=True)
def no_fork_server_after() -> Any:
    yield
    server: Any = forkserver._forkserver
    tracker: Any = resource_tracker._resource_tracker
    server._stop()
    tracker._stop()


def ours(use_async: bool) -> Any:
    sizes = {"observation_height": SIDE, "observation_width": SIDE, "episode_length": STEPS}
    return proctor.make_env_config("metaworld", task="reach-v3", **sizes).create_envs(2, use_async)


class Short(SmallEnv):
    def __init__(self) -> None:
        super().__init__(task="reach-v3", obs_type="pixels_agent_pos", render_mode="rgb_array")
        self._max_episode_steps = STEPS


def roll(run: Callable[..., Any], env: Any, checkpoint: Path, **options: Any) -> Any:
    policy, preprocessor, postprocessor = loaded(checkpoint)
    processors = make_env_pre_post_processors(make_env_config("metaworld"), policy.config)
    with torch.no_grad():
        return run(env, policy, *processors, preprocessor, postprocessor, **options)


@functools.cache
def theirs(checkpoint: Path) -> Any:
    env = gym.vector.SyncVectorEnv([Short, Short])
    try:
        return roll(rollout, env, checkpoint, seeds=[1000, 1001], return_observations=True)
    finally:
        env.close()


@pytest.mark.parametrize("use_async", [False, True])
def test_lerobots_rollout_sees_and_does_the_same_as_on_its_own_environments(
    use_async: bool, checkpoint: Checkpoint
) -> None:
    expected = theirs(checkpoint("act"))
    envs = ours(use_async)
    found = roll(rollout, envs["reach-v3"][0], checkpoint("act"), seeds=[1000, 1001], return_observations=True)
    close_envs(envs)
    assert found.keys() == expected.keys()
    for key in ("action", "reward", "success", "done"):
        assert torch.equal(found[key], expected[key]), key
    for key in ("observation.image", "observation.state"):
        assert torch.equal(found["observation"][key], expected["observation"][key]), key


def test_lerobots_evaluation_runs_on_them_and_films(tmp_path: Path, checkpoint: Checkpoint) -> None:
    envs = ours(False)
    options = {"n_episodes": 3, "start_seed": 1000, "max_episodes_rendered": 1, "videos_dir": tmp_path}
    info = roll(eval_policy, envs["reach-v3"][0], checkpoint("act"), **options)
    close_envs(envs)
    assert [episode["seed"] for episode in info["per_episode"]] == [1000, 1001, 1002]
    assert info["per_episode"][0]["sum_reward"] == pytest.approx(
        float(theirs(checkpoint("act"))["reward"][0].sum()), rel=1e-9
    )
    assert len(list(tmp_path.glob("*.mp4"))) == 1


def test_lerobots_keys_come_back_from_every_layout() -> None:
    settings = proctor.make_env_config("metaworld", task="mt10", obs_type="state", one_hot=True)
    env = settings.create_envs(2)["mt10"][0]
    observation, _ = env.reset(seed=1000)
    env.close()
    keys = preprocess_observation(observation).keys()
    assert set(keys) == {"observation.state", "observation.environment_state", "observation.task_one_hot"}


REVISION = "0123456789abcdef0123456789abcdef01234567"

HOSTED = """
import numpy as np
import proctor

def make_env(n_envs=1, use_async_envs=False, cfg=None):
    settings = proctor.make_env_config("metaworld", task="reach-v3", obs_type="state")
    return {"pens": settings.create_envs(n_envs, use_async_envs)["reach-v3"]}
"""


def hub_cache(place: Path) -> Path:
    """Make a hub's cache with one repository in it, as a download leaves it."""
    repository = place / "models--someone--pens"
    files = repository / "snapshots" / REVISION
    (files / "envs").mkdir(parents=True)
    (files / "env.py").write_text(HOSTED)
    (files / "envs/other.py").write_text(HOSTED.replace("pens", "others"))
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(REVISION)
    return place


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("someone/pens", "pens"),
        (f"someone/pens@{REVISION}", "pens"),
        ("someone/pens@main:envs/other.py", "others"),
    ],
)
def test_a_hosted_make_env_from_the_hubs_cache(name: str, group: str, tmp_path: Path) -> None:
    cache = hub_cache(tmp_path / "cache")
    made = proctor.make_env(name, 2, True, hub_cache_dir=str(cache), trust_remote_code=True)
    env = made[group][0]
    observation, _ = env.reset(seed=1000)
    env.close()
    assert observation["agent_pos"].shape == (2, 4)


def test_what_the_hub_does_not_have_is_said_in_one_line(tmp_path: Path) -> None:
    cache = hub_cache(tmp_path / "cache")
    for name in ("someone/else", "someone/pens:nothing.py"):
        with pytest.raises(
            proctor.ProctorError, match=f"{name.partition(':')[0]}:.* cannot be had from the hub"
        ) as e:
            proctor.make_env(name, hub_cache_dir=str(cache), trust_remote_code=True)
        assert "\n" not in str(e.value)


def test_the_hubs_home_is_where_it_is_found_by_default(tmp_path: Path) -> None:
    hub_cache(tmp_path / "home/hub")
    code = "import proctor; print(*proctor.make_env('someone/pens', trust_remote_code=True))"
    env = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["pens"]
