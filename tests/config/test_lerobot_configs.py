"""LeRobot's configs and fields: what holds of them here, what is passed over and told, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import proctor
from proctor.config.lerobot_fields import ENVS, EVALUATION, IGNORED, TRAINING
from proctor.config.load import build_settings, known_fields, settings_from_flags
from proctor.config.plain_values import to_plain
from proctor.config.registry import benchmark_path, load_object
from proctor.config.settings import Settings
from proctor.errors import UsageError

METAWORLD = ["--policy.type=zero", "--env.type=metaworld", "--env.task=reach-v3"]


def refusal(*flags: str) -> str:
    with pytest.raises(UsageError) as refused:
        settings_from_flags(flags)
    message = str(refused.value)
    assert "\n" not in message
    return message


def network(**fields: Any) -> dict[str, Any]:
    return {
        "type": "act",
        "n_obs_steps": 1,
        "input_features": {"observation.state": {"type": "STATE", "shape": [4]}},
        "device": "cuda",
        "n_action_steps": 100,
        "optimizer_lr": 1e-05,
        "pretrained_path": None,
        **fields,
    }


def train_config(**fields: Any) -> dict[str, Any]:
    """Return what LeRobot writes beside a checkpoint's weights."""
    return {
        "dataset": {"repo_id": "lerobot/metaworld_mt50", "episodes": None, "image_transforms": {"enable": False}},
        "env": {
            "type": "metaworld",
            "task": "reach-v3",
            "fps": 80,
            "features": {"action": {"type": "ACTION", "shape": [4]}},
            "features_map": {
                "action": "action",
                "agent_pos": "observation.state",
                "top": "observation.image",
                "pixels/top": "observation.image",
            },
            "max_parallel_tasks": 1,
            "disable_env_checker": True,
            "episode_length": 400,
            "obs_type": "pixels_agent_pos",
            "render_mode": "rgb_array",
            "multitask_eval": True,
        },
        "policy": network(),
        "output_dir": "outputs/train/2026-01-31/act",
        "job_name": "metaworld_act",
        "resume": False,
        "seed": 7,
        "num_workers": 4,
        "batch_size": 8,
        "steps": 100000,
        "optimizer": {"type": "adamw", "lr": 1e-05},
        "scheduler": None,
        "eval": {"n_episodes": 3, "batch_size": 2, "use_async_envs": True, "recording": False},
        "wandb": {"enable": True, "project": "lerobot", "run_id": "abc"},
        "peft": None,
        "rename_map": {},
        **fields,
    }


def checkpoint(place: Path, config: dict[str, Any], **saved: Any) -> Path:
    folder = place / "pretrained_model"
    folder.mkdir(parents=True)
    (folder / "train_config.json").write_text(json.dumps(config, indent=4))
    (folder / "config.json").write_text(json.dumps(network(**saved)))
    (folder / "model.safetensors").touch()
    return folder


@pytest.mark.parametrize("named", ["file", "folder", "its parent"])
def test_a_training_config_beside_weights_evaluates_that_checkpoint(tmp_path: Path, named: str) -> None:
    folder = checkpoint(tmp_path, train_config())
    place = {"file": folder / "train_config.json", "folder": folder, "its parent": tmp_path}[named]
    settings = settings_from_flags([f"--config_path={place}"])
    assert (settings.policy.type, settings.policy.path) == ("lerobot", str(folder))
    assert to_plain(settings.policy)["overrides"] == {}
    assert (settings.env.type, settings.env.task) == ("metaworld", "reach-v3")
    assert (settings.seed, settings.eval.n_episodes, settings.eval.batch_size) == (7, 3, 2)
    assert settings.job_name == "metaworld_act"


def test_what_is_of_the_training_run_is_left_alone_and_told(tmp_path: Path) -> None:
    settings = settings_from_flags([f"--config_path={checkpoint(tmp_path, train_config())}"])
    assert settings.output_dir is None
    assert settings.resume is None
    assert not settings.wandb.enable
    note = settings.passed_over_note
    assert note is not None
    assert "\n" not in note
    for name in ("dataset", "optimizer", "steps", "batch_size", "output_dir", "wandb", "env.fps", "env.features"):
        assert name in note
    assert str(tmp_path) in note


def test_the_step_limit_that_lerobot_writes_and_ignores_is_no_limit_here(tmp_path: Path) -> None:
    place = checkpoint(tmp_path, train_config())
    assert to_plain(settings_from_flags([f"--config_path={place}"]).env)["episode_length"] == 500
    chosen = settings_from_flags([f"--config_path={place}", "--env.episode_length=400"])
    assert to_plain(chosen.env)["episode_length"] == 400


def test_a_field_of_the_network_that_was_edited_holds(tmp_path: Path) -> None:
    config = train_config(policy=network(n_action_steps=10))
    settings = settings_from_flags([f"--config_path={checkpoint(tmp_path, config)}"])
    assert to_plain(settings.policy)["overrides"] == {"n_action_steps": 10}


def test_flags_hold_above_a_training_config(tmp_path: Path) -> None:
    place = checkpoint(tmp_path, train_config())
    flags = [f"--config_path={place}", "--seed=1", "--policy.n_action_steps=5", "--output_dir=here"]
    settings = settings_from_flags(flags)
    assert (settings.seed, settings.output_dir) == (1, Path("here"))
    assert to_plain(settings.policy)["overrides"] == {"n_action_steps": 5}
    other = settings_from_flags([f"--config_path={place}", "--policy.type=expert"])
    assert (other.policy.type, other.policy.path) == ("expert", None)


def test_a_training_config_without_weights_asks_for_them(tmp_path: Path) -> None:
    file = tmp_path / "train_config.json"
    file.write_text(json.dumps(train_config()))
    message = refusal(f"--config_path={file}")
    assert "act" in message
    assert "--policy.path=CHECKPOINT" in message
    assert settings_from_flags([f"--config_path={file}", "--policy.path=user/act"]).policy.path == "user/act"


def test_an_unknown_field_of_a_training_config_is_refused_with_the_right_one(tmp_path: Path) -> None:
    for section, name, right in (("", "job_nam", "--job_name"), ("dataset", "episode", "'episodes'")):
        config = train_config()
        (config if not section else config[section])[name] = 1
        message = refusal(f"--config_path={checkpoint(tmp_path / (section or 'top'), config)}")
        assert name in message
        assert right in message


@pytest.mark.parametrize(
    ("dataset", "offenders"),
    [({"episodes": [3, -1, -4]}, "[-4, -1]"), ({"episodes": [5, 2, 5, 2, 1]}, "[2, 5]")],
)
def test_bad_episodes_are_named(tmp_path: Path, dataset: dict[str, Any], offenders: str) -> None:
    with pytest.raises(ValueError, match="episodes") as raised:
        proctor.DatasetConfig(repo_id="a/b", **dataset)
    assert offenders in str(raised.value)
    place = checkpoint(tmp_path, train_config(dataset={"repo_id": "a/b", **dataset}))
    assert offenders in refusal(f"--config_path={place}")


@pytest.mark.parametrize(
    "fields",
    [
        {"repo_type": "model"},
        {"repo_type": "bucket"},
        {"repo_type": "bucket", "streaming": True, "eval_split": 0.1},
        {"depth_output_unit": "km"},
        {"eval_split": 1.0},
    ],
)
def test_a_dataset_that_lerobot_refuses_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be|needs|takes no"):
        proctor.DatasetConfig(repo_id="a/b", **fields)


def test_the_defaults_of_the_configs_are_lerobots() -> None:
    run, tracker, peft = proctor.EvalConfig(), proctor.WandBConfig(), proctor.PeftConfig()
    assert (run.n_episodes, run.batch_size, run.use_async_envs, run.recording) == (50, 0, True, False)
    assert (run.recording_repo_id, run.recording_private) == (None, False)
    assert (tracker.enable, tracker.disable_artifact, tracker.add_tags) == (False, False, True)
    assert (tracker.entity, tracker.notes, tracker.run_id, tracker.mode) == (None, None, None, None)
    assert (peft.target_modules, peft.full_training_modules, peft.init_type) == (None, None, None)
    assert (peft.method_type, peft.r) == ("LORA", 16)
    data = proctor.DatasetConfig(repo_id="a/b")
    assert (data.root, data.episodes, data.revision, data.streaming) == (None, None, None, False)
    assert data.use_imagenet_stats


def test_an_evaluation_config_of_lerobots_is_read(tmp_path: Path) -> None:
    file = tmp_path / "eval.yaml"
    config = {
        "policy": {"path": "user/act", "n_action_steps": 5, "device": "cpu"},
        "env": {"type": "libero", "task": "libero_10", "task_ids": [0, 1], "fps": 20, "hard_reset": False},
        "eval": {"n_episodes": 2, "recording": True, "recording_repo_id": "me/there", "recording_private": True},
        "seed": None,
        "output_dir": str(tmp_path / "out"),
        "job_name": None,
        "trust_remote_code": False,
    }
    file.write_text(yaml.safe_dump(config))
    settings = settings_from_flags([f"--config_path={file}"])
    assert settings.seed == 1000
    assert settings.output_dir == tmp_path / "out"
    assert to_plain(settings.policy)["overrides"] == {"n_action_steps": 5}
    note = settings.passed_over_note or ""
    for words in ("env.fps", "soft", "eval.recording_repo_id", "nothing is uploaded", "seed=null"):
        assert words in note


def test_a_type_that_is_no_text_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    for kind in ([1], {"a": 1}, 5):
        file.write_text(
            yaml.safe_dump({"policy": {"type": kind}, "env": {"type": "metaworld", "task": "reach-v3"}})
        )
        assert "--policy.type" in refusal(f"--config_path={file}")
        file.write_text(yaml.safe_dump({"policy": {"type": "zero"}, "env": {"type": kind, "fps": 80}}))
        assert "--env.type" in refusal(f"--config_path={file}")


def test_a_network_with_pretrained_weights_is_its_checkpoint() -> None:
    tree = {
        "env": {"type": "pusht"},
        "policy": {"type": "diffusion", "pretrained_path": "user/dp", "use_amp": True},
    }
    settings = build_settings(tree)
    assert (settings.policy.type, settings.policy.path) == ("lerobot", "user/dp")
    assert to_plain(settings.policy)["overrides"] == {"use_amp": True}
    assert "Leave --policy.type out" in refusal("--env.type=pusht", "--policy.type=act", "--policy.path=user/act")


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--env.fps=80", "80 steps a second"),
        ("--env.render_mode=human", "no window opens"),
        ("--env.features={}", "knows its own"),
        ("--env.disable_env_checker=false", "no part in a run"),
        ("--env.multitask_eval=false", "every task"),
        ("--seed=null", "seeded, this one with 1000"),
        ("--eval.recording_private=true", "nothing is uploaded"),
    ],
)
def test_a_flag_of_lerobots_that_means_nothing_here_is_told_with_what_holds(flag: str, words: str) -> None:
    settings = settings_from_flags([*METAWORLD, flag])
    assert words in (settings.passed_over_note or "")
    plain = settings_from_flags(METAWORLD)
    assert to_plain(settings.env) == to_plain(plain.env)
    assert settings.seed == plain.seed


def test_all_that_is_passed_over_is_one_note_and_survives_a_file() -> None:
    settings = settings_from_flags([*METAWORLD, "--env.fps=80", "--seed=none", "--env.render_mode=rgb_array"])
    assert len(settings.passed_over) == 3
    again = build_settings(yaml.safe_load(yaml.safe_dump(to_plain(settings))))
    assert again == settings
    assert settings_from_flags(METAWORLD).passed_over_note is None


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--env.fps=10", "80 steps a second"),
        ("--env.fps=fast", "--env.fps=fast"),
        ("--env.features_map={top: observation.images.top}", "--rename_map"),
        ("--eval.recording_repo_id=me/there", "recording_repo_id needs recording=true"),
        ("--dataset.repo_id=a/b", "lerobot-train"),
        ("--steps=100", "--steps is a flag of lerobot-train"),
        ("--batch_size=8", "Did you mean '--eval.batch_size'?"),
        ("--passed_over=x", "unknown flag --passed_over"),
        ("--env.hard_reset=true", "unknown flag --env.hard_reset"),
    ],
)
def test_what_would_give_another_number_or_is_no_flag_of_an_evaluation_is_refused(flag: str, words: str) -> None:
    assert words in refusal(*METAWORLD, flag)


def test_libero_plus_is_not_taken_for_libero() -> None:
    base = ["--policy.type=zero", "--env.type=libero"]
    assert "LIBERO-plus" in refusal(*base, "--env.is_libero_plus=true")
    assert settings_from_flags([*base, "--env.is_libero_plus=false"]).env.type == "libero"


def test_a_config_made_in_python_is_a_section() -> None:
    tree = {
        "policy": {"type": "zero"},
        "env": {"type": "metaworld", "task": "reach-v3"},
        "eval": proctor.EvalConfig(n_episodes=3),
        "wandb": proctor.WandBConfig(notes="why"),
        "dataset": proctor.DatasetConfig(repo_id="a/b"),
    }
    settings = build_settings(tree)
    assert (settings.eval.n_episodes, settings.wandb.notes) == (3, "why")
    assert "dataset" in (settings.passed_over_note or "")


def test_an_environments_config_made_in_python_warns_of_what_has_no_effect() -> None:
    with pytest.warns(UserWarning, match="env.fps: metaworld makes 80 steps a second") as told:
        made = proctor.make_env_config("metaworld", task="reach-v3", fps=80)
    assert told[0].filename == __file__
    assert made == proctor.make_env_config("metaworld", task="reach-v3")
    with pytest.raises(UsageError, match=r"^fps=10: metaworld makes 80"):
        proctor.make_env_config("metaworld", task="reach-v3", fps=10)


@pytest.mark.parametrize("kind", ENVS)
def test_every_field_of_lerobots_environments_is_a_setting_here_or_told(kind: str) -> None:
    own = known_fields(load_object(benchmark_path(kind)).Settings)
    from proctor.config.lerobot_configs import _FIELDS

    assert ENVS[kind] <= own | _FIELDS.keys()
    assert set(IGNORED.get(kind, ())) <= own


def test_every_field_of_lerobot_eval_is_a_setting_here() -> None:
    assert known_fields(Settings) >= EVALUATION
    assert not EVALUATION & TRAINING
