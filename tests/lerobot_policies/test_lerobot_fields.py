"""The stored tables of LeRobot's fields are those of the installed version, and its own files are read."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lerobot
import lerobot.policies
import pytest
from lerobot.configs import default
from lerobot.configs.eval import EvalPipelineConfig
from lerobot.configs.policies import PreTrainedConfig
from lerobot.configs.train import TrainPipelineConfig
from lerobot.envs.configs import EnvConfig

import proctor
from harness import digests
from lerobot_checkpoints import SIDE
from lerobot_runs import STEPS, evaluate
from proctor.config.lerobot_fields import ENVS, EVALUATION, FEATURES_MAPS, IGNORED, POLICIES, TRAINING, VERSION
from proctor.config.load import settings_from_flags
from proctor.config.plain_values import to_plain
from proctor.config.registry import benchmark_path, load_object
from proctor.engine.evaluation import evaluate_settings


def names(kind: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def test_the_tables_are_of_the_version_that_is_installed() -> None:
    assert lerobot.__version__ == VERSION
    assert names(EvalPipelineConfig) == EVALUATION
    assert names(TrainPipelineConfig) - EVALUATION == TRAINING
    assert set(PreTrainedConfig.get_known_choices()) >= POLICIES


@pytest.mark.parametrize("kind", ENVS)
def test_an_environment_has_these_fields(kind: str) -> None:
    config = EnvConfig.get_choice_class(kind)()
    assert names(config) == ENVS[kind]
    assert config.features_map == FEATURES_MAPS[kind]
    assert config.fps == load_object(benchmark_path(kind)).fps
    assert not set(IGNORED.get(kind, ())) & config.gym_kwargs.keys()


@pytest.mark.parametrize("name", ["DatasetConfig", "PeftConfig"])
def test_a_config_of_a_training_run_has_lerobots_fields_and_defaults(name: str) -> None:
    given = {"repo_id": "a/b"} if name == "DatasetConfig" else {}
    theirs, ours = getattr(default, name)(**given), getattr(proctor, name)(**given)
    assert names(theirs) == names(ours)
    # The first is a class of its own there; the second depends on whether torchcodec can be loaded.
    for field in names(theirs) - {"image_transforms", "video_backend"}:
        assert getattr(ours, field) == getattr(theirs, field), field


@pytest.mark.parametrize("name", ["EvalConfig", "WandBConfig"])
def test_a_config_of_an_evaluation_has_lerobots_fields_and_defaults(name: str) -> None:
    theirs, ours = getattr(default, name), getattr(proctor, name)
    assert names(theirs) <= names(ours)
    for field in dataclasses.fields(theirs):
        if field.name != "project":  # an evaluation is kept apart from training: proctor, or WANDB_PROJECT
            assert getattr(ours(), field.name) == field.default, field.name


@pytest.mark.parametrize("episodes", [[3, -1], [2, 2]])
def test_episodes_that_lerobot_refuses_are_refused(episodes: list[int]) -> None:
    for home in (default, proctor):
        with pytest.raises(ValueError, match=str(episodes[1])):
            home.DatasetConfig(repo_id="a/b", episodes=episodes)


@pytest.mark.parametrize("kind", ENVS)
def test_a_training_config_that_lerobot_writes_is_read(tmp_path: Path, kind: str) -> None:
    policy = PreTrainedConfig.get_choice_class("act")(push_to_hub=False)
    env = EnvConfig.get_choice_class(kind)(**({"task": "reach-v3"} if kind == "metaworld" else {}))
    config = TrainPipelineConfig(
        dataset=default.DatasetConfig(repo_id="a/b"), policy=policy, env=env, peft=default.PeftConfig()
    )
    config._save_pretrained(tmp_path)
    policy._save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").touch()
    settings = settings_from_flags([f"--config_path={tmp_path}"])
    assert (settings.env.type, settings.env.task) == (kind, env.task)
    assert (settings.policy.type, settings.policy.path) == ("lerobot", str(tmp_path))
    assert to_plain(settings.policy)["overrides"] == {}
    plain = settings_from_flags([f"--env.type={kind}", f"--env.task={env.task}", "--policy.type=zero"])
    # LeRobot runs one task after the other unless it is told otherwise; no result depends on it.
    assert {**to_plain(settings.env), "max_parallel_tasks": 0} == to_plain(plain.env)
    assert settings.passed_over_note is not None


def test_a_checkpoints_training_config_gives_the_episodes_of_its_path(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(checkpoint("act"), tmp_path / "000002" / "pretrained_model"))
    TrainPipelineConfig(
        dataset=default.DatasetConfig(repo_id="a/b"),
        policy=PreTrainedConfig.from_pretrained(folder),
        env=EnvConfig.get_choice_class("metaworld")(task="reach-v3"),
        eval=default.EvalConfig(n_episodes=2, batch_size=1),
        output_dir=tmp_path / "trained",
    )._save_pretrained(folder)
    size = [f"--env.observation_height={SIDE}", f"--env.observation_width={SIDE}", f"--env.episode_length={STEPS}"]
    flags = [f"--config_path={folder.parent}", *size, f"--output_dir={tmp_path / 'run'}", "--display=none"]
    evaluation = evaluate_settings(settings_from_flags(flags))
    assert evaluation.error is None
    assert not (tmp_path / "trained").exists()
    evaluate(tmp_path / "plain", folder, env={"task": "reach-v3"}, eval={"n_episodes": 2})
    assert digests(tmp_path / "run") == digests(tmp_path / "plain")
