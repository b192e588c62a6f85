"""What LeRobot's code finds on settings of ours, where LeRobot is not installed."""

from __future__ import annotations

import importlib.util
import pickle
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

import proctor
from harness import SUPPORT
from proctor.benchmarks.metaworld.benchmark import MetaWorldSettings
from proctor.config.settings import EnvSettings
from tiny_vectors import tiny

HERE = importlib.util.find_spec("lerobot") is not None


def shown(settings: EnvSettings) -> dict[str, tuple[str, tuple[int, ...], str]]:
    """Return type, shape and policy key of every feature."""
    assert settings.features.keys() == settings.features_map.keys()
    return {
        key: (str(getattr(found.type, "value", found.type)), found.shape, settings.features_map[key])
        for key, found in settings.features.items()
    }


def test_meta_worlds_features_are_those_of_its_environments() -> None:
    assert shown(proctor.make_env_config("metaworld", task="reach-v3")) == {
        "action": ("ACTION", (4,), "action"),
        "pixels": ("VISUAL", (480, 480, 3), "observation.image"),
        "agent_pos": ("STATE", (4,), "observation.state"),
    }
    state = proctor.make_env_config("metaworld", task="mt10", obs_type="state", one_hot=True)
    assert shown(state) == {
        "action": ("ACTION", (4,), "action"),
        "agent_pos": ("STATE", (4,), "observation.state"),
        "environment_state": ("ENV", (39,), "observation.environment_state"),
        "task_one_hot": ("STATE", (10,), "observation.task_one_hot"),
    }


def test_of_several_cameras_each_is_under_its_policy_key_and_no_assets_are_asked_for() -> None:
    libero = proctor.make_env_config("libero", camera_name_mapping={"agentview_image": "top"})
    assert shown(libero) == {
        "action": ("ACTION", (7,), "action"),
        "observation.images.top": ("VISUAL", (360, 360, 3), "observation.images.top"),
        "observation.images.image2": ("VISUAL", (360, 360, 3), "observation.images.image2"),
        "agent_pos": ("STATE", (8,), "observation.state"),
    }


def test_features_are_those_behind_the_benchmarks_processors() -> None:
    found = shown(proctor.make_env_config(f"{SUPPORT / 'processed.py'}:ProcessedTiny", task="a"))
    assert (found["action"][1], found["sum"]) == ((1,), ("STATE", (1,), "observation.sum"))


def test_a_benchmark_that_opens_a_simulator_to_tell_is_asked() -> None:
    config = proctor.make_env_config("gym", task="Pendulum-v1")
    assert config.fps == 30
    assert {key: place for key, (_, _, place) in shown(config).items()}["action"] == "action"


@pytest.mark.parametrize(("name", "fps"), [("metaworld", 80), ("libero", 20)])
def test_the_pace_is_the_benchmarks(name: str, fps: int) -> None:
    assert proctor.make_env_config(name).fps == fps


@pytest.mark.parametrize("name", ["features", "features_map", "fps"])
def test_all_of_it_is_read_only_and_no_setting(name: str) -> None:
    config = tiny()
    with pytest.raises((FrozenInstanceError, AttributeError)):
        setattr(config, name, {})
    assert name not in {field.name for field in fields(config)}
    for mapping in (config.features, config.features_map):
        changing: Any = mapping
        with pytest.raises(TypeError):
            changing["action"] = None
    assert pickle.loads(pickle.dumps(proctor.make_env_config("metaworld", task="mt10"))).fps == 80


def test_settings_that_name_no_benchmark_say_so() -> None:
    with pytest.raises(proctor.UsageError, match="name no benchmark"):
        _ = MetaWorldSettings(task="reach-v3").features


def test_what_is_no_config_of_ours_is_refused() -> None:
    settings: Any = {"type": "metaworld"}
    with pytest.raises(proctor.UsageError, match=r"not dict.*lerobot\.envs\.make_env_pre_post_processors"):
        proctor.make_env_pre_post_processors(settings, None)


@pytest.mark.skipif(HERE, reason="LeRobot is installed")
def test_lerobots_pipelines_need_lerobot() -> None:
    words = r"needs the package lerobot\. Run: pip install"
    with pytest.raises(proctor.UsageError, match=words):
        proctor.make_env_pre_post_processors(tiny(), None)
    with pytest.raises(proctor.UsageError, match=words):
        tiny().get_env_processors()
