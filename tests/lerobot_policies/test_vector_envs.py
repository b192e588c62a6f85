"""LeRobot's own rollout on Proctor's vector environments, and a hub's cache with a `make_env` in it."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import lerobot
import numpy as np
import pytest
import torch
from lerobot.configs import FeatureType, PreTrainedConfig
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.envs.factory import make_env_config, make_env_pre_post_processors
from lerobot.envs.utils import close_envs, env_to_policy_features, preprocess_observation
from lerobot.policies.factory import make_policy
from lerobot.policies.xvla.configuration_xvla import XVLAConfig
from lerobot.scripts.lerobot_eval import eval_policy, eval_policy_all, rollout

import proctor
from lerobot_checkpoints import SIDE
from lerobot_runs import SmallEnv, loaded
from tiny_vectors import stop_fork_server

Checkpoint = Callable[[str], Path]

STEPS = 6


@pytest.fixture(autouse=True)
def no_fork_server_after() -> Any:
    yield
    stop_fork_server()


def config(task: str = "reach-v3") -> Any:
    sizes = {"observation_height": SIDE, "observation_width": SIDE, "episode_length": STEPS}
    return proctor.make_env_config("metaworld", task=task, **sizes)


def ours(use_async: bool) -> Any:
    return config().create_envs(2, use_async)


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


def evaluate_all(settings: Any, checkpoint: Path, use_async: bool = True, **options: Any) -> Any:
    """Evaluate as `lerobot-eval` does, with environments, processors and the end of Proctor's."""
    policy, preprocessor, postprocessor = loaded(checkpoint)
    envs = proctor.make_env(settings, 2, use_async)
    before, behind = proctor.make_env_pre_post_processors(settings, policy.config)
    try:
        with torch.no_grad():
            return eval_policy_all(
                envs, policy, before, behind, preprocessor, postprocessor, n_episodes=2, start_seed=1000, **options
            )
    finally:
        proctor.close_envs(envs)


def rewards(info: Any) -> dict[str, list[float]]:
    return {task["task_group"]: task["metrics"]["sum_rewards"] for task in info["per_task"]}


def test_lerobots_evaluation_of_several_tasks_starts_the_next_one_ahead(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    from proctor.vector.vector_env import AsyncSimulators

    ahead: list[tuple[str, str]] = []
    ensure = AsyncSimulators._ensure

    def noted(self: Any) -> None:
        ahead.append((self.factories[0].task.name, threading.current_thread().name))
        ensure(self)

    monkeypatch.setattr(AsyncSimulators, "_ensure", noted)
    info = evaluate_all(config("reach-v3,push-v3"), checkpoint("act"))
    started = {name for name, thread in ahead if thread != threading.current_thread().name}
    assert started == {"push-v3"}
    monkeypatch.undo()
    for task in ("reach-v3", "push-v3"):
        assert rewards(evaluate_all(config(task), checkpoint("act"), use_async=False))[task] == rewards(info)[task]


def test_lerobots_parallel_tasks_are_warned_of(checkpoint: Checkpoint) -> None:
    settings = config("reach-v3,push-v3,door-open-v3")
    with pytest.warns(UserWarning, match="share one policy"):
        evaluate_all(settings, checkpoint("act"), max_parallel_tasks=3)


def test_lerobot_records_from_them_what_their_features_say(tmp_path: Path, checkpoint: Checkpoint) -> None:
    settings = config()
    evaluate_all(settings, checkpoint("act"), recording_dir=tmp_path, env_features=settings.features)
    recorded = LeRobotDataset("eval_recording_env_0", root=tmp_path / "reach-v3_0" / "env_0")
    assert (recorded.fps, recorded.num_frames) == (80, STEPS)
    assert recorded[0]["pixels"].shape == (3, SIDE, SIDE)
    assert recorded[0]["agent_pos"].shape == (4,)


def test_a_policy_of_lerobots_is_made_for_them(checkpoint: Checkpoint) -> None:
    settings = config()
    expected = {"action": FeatureType.ACTION, "observation.image": FeatureType.VISUAL}
    expected["observation.state"] = FeatureType.STATE
    features = env_to_policy_features(settings)
    assert {key: feature.type for key, feature in features.items()} == expected
    theirs = env_to_policy_features(make_env_config("metaworld"))
    assert env_to_policy_features(proctor.make_env_config("metaworld", task="reach-v3")) == theirs
    chosen = PreTrainedConfig.from_pretrained(checkpoint("act"))
    chosen.pretrained_path = checkpoint("act")
    chosen.device = "cpu"
    policy = make_policy(chosen, env_cfg=settings)
    assert policy.config.output_features["action"].shape == (4,)


# LeRobot's config of PushT says 384 pixels; the environments that it makes give 96, and so do ours.
@pytest.mark.parametrize(
    ("name", "fields"), [("pusht", {"observation_height": 384, "observation_width": 384}), ("aloha", {})]
)
def test_presets_have_the_features_and_the_pace_of_lerobots_configs(name: str, fields: Any) -> None:
    own, theirs = proctor.make_env_config(name, **fields), make_env_config(name)
    assert own.fps == theirs.fps
    assert env_to_policy_features(own) == env_to_policy_features(theirs)


TWO_CAMERAS = """
import numpy as np
from proctor import Benchmark, BenchmarkSpec, Feature, Outcome, Task

PICTURE = Feature((8, 12, 3), "uint8", drawn=True)
FEATURES = {"observation.images.left": PICTURE, "observation.images.right": PICTURE}


class Room(Benchmark):
    @property
    def spec(self):
        return BenchmarkSpec(name="room", features=FEATURES, action_size=2)

    def tasks(self):
        return [Task(group="room", task_id=0, name="room", prompt="look around", max_steps=3)]

    def make_simulator(self, task):
        return Rooms()


class Rooms:
    def reset(self, episode, look):
        self.seen = 0

    def step(self, action, look):
        self.seen += 1
        return Outcome(0.0, False, False, False)

    def observe(self):
        return {key: np.full((8, 12, 3), self.seen, np.uint8) for key in FEATURES}

    render = lambda self: np.zeros((8, 12, 3), np.uint8)
    close = lambda self: None
"""


def test_every_camera_of_several_is_where_lerobots_recorder_looks_for_it(tmp_path: Path) -> None:
    from lerobot.scripts.lerobot_eval import _build_raw_frame

    file = tmp_path / "room.py"
    file.write_text(TWO_CAMERAS)
    settings = proctor.make_env_config(f"{file}:Room")
    env = settings.create_envs(1)["room"][0]
    observation, _ = env.reset(seed=1)
    env.close()
    frame = _build_raw_frame(observation, 0, np.zeros(2), 0.0, False, False, "", settings.features)
    assert frame.keys() >= settings.features.keys()
    assert set(env_to_policy_features(settings)) == {*preprocess_observation(observation), "action"}


def test_the_processors_around_a_policy_do_nothing_twice(checkpoint: Checkpoint) -> None:
    settings = proctor.make_env_config("libero")
    chosen = PreTrainedConfig.from_pretrained(checkpoint("act"))
    pairs = [
        proctor.make_env_pre_post_processors(settings, chosen),
        settings.get_env_processors(),
        make_env_pre_post_processors(settings, chosen),
    ]
    given = {"observation.images.image": torch.rand(1, 3, 4, 5), "task": ["a"]}
    for before, behind in pairs:
        assert len(before.steps) == len(behind.steps) == 0
        assert torch.equal(before(dict(given))["observation.images.image"], given["observation.images.image"])
        assert torch.equal(behind({"action": torch.ones(1, 7)})["action"], torch.ones(1, 7))
    before, behind = proctor.make_env_pre_post_processors(settings, XVLAConfig(device="cpu"))
    assert [type(step).__name__ for step in (*before.steps, *behind.steps)] == [
        "XVLAImageNetNormalizeProcessorStep",
        "XVLAAddDomainIdProcessorStep",
        "XVLARotation6DToAxisAngleProcessorStep",
    ]


def test_every_file_of_lerobots_that_the_walk_through_all_steps_names_is_there() -> None:
    page = (Path(__file__).parents[2] / "docs" / "processors.md").read_text()
    named = re.findall(r"`lerobot/([\w/]+\.py)`", page)
    assert len(named) > 4
    assert [name for name in named if not (Path(lerobot.__file__).parent / name).is_file()] == []


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
