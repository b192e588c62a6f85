"""Whose a flag of `proctor train` is, and what is refused before anything starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness import SUPPORT, run_cli
from proctor.cli.main import run
from proctor.config.load import parsed_flags
from proctor.errors import UsageError
from proctor.training.checkpoints import Checkpoints
from proctor.training.settings import TrainFlags, TrainingSettings, differences, training_settings
from proctor.training.trainers import trainer_command
from stepwise_trainer import make_dataset, write_checkpoint

BARE = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
"""An interpreter without packages: what starts LeRobot's trainer must be able to say so there."""

TINY = f"--env.type={SUPPORT / 'tiny.py'}:Tiny"
PAGE = [
    "--policy.type=smolvla", "--policy.repo_id=me/x", "--policy.load_vlm_weights=true",
    "--dataset.repo_id=lerobot/metaworld_mt50", "--env.type=metaworld",
    "--env.task=assembly-v3,dial-turn-v3,handle-press-side-v3", "--output_dir=out", "--steps=100000",
    "--batch_size=4", "--eval.batch_size=1", "--eval.n_episodes=1", "--eval_freq=1000",
]  # fmt: skip
"""The command on LeRobot's page of Meta-World."""


def sorted_out(*arguments: str) -> TrainingSettings:
    return training_settings(parsed_flags(arguments, TrainFlags, "proctor train"))


def test_the_flags_of_lerobots_page_go_to_whom_they_concern() -> None:
    settings = sorted_out(*PAGE)
    assert settings.kind == "lerobot"
    assert settings.trainer == {
        "policy.type": "smolvla",
        "policy.repo_id": "me/x",
        "policy.load_vlm_weights": "true",
        "policy.push_to_hub": "false",
        "dataset.repo_id": "lerobot/metaworld_mt50",
        "steps": "100000",
        "batch_size": "4",
        "save_freq": "1000",
        "job_name": "metaworld_smolvla",
    }
    assert settings.evaluation is not None
    assert settings.evaluation["env"]["type"] == "metaworld"
    assert settings.evaluation["eval"] == {"batch_size": "1", "n_episodes": "1"}
    command = trainer_command(settings, None)
    assert not [word for word in command if word.startswith(("--env", "--eval"))]
    assert command[3] == "proctor.training.lerobot"


def test_what_the_user_says_of_the_hub_holds() -> None:
    assert sorted_out(*PAGE, "--policy.push_to_hub=true").trainer["policy.push_to_hub"] == "true"


def test_the_seed_is_of_both_and_names_are_mapped_for_a_pretrained_policy_alone() -> None:
    renames = '--rename_map={"observation.image": "observation.images.top"}'
    fresh = sorted_out(*PAGE, "--seed=7", renames)
    assert fresh.evaluation is not None
    assert (fresh.trainer["seed"], fresh.evaluation["seed"]) == ("7", "7")
    assert "rename_map" not in fresh.trainer
    assert "rename_map" in fresh.evaluation
    tuned = sorted_out("--policy.path=me/base", *PAGE[1:], renames)
    assert "rename_map" in tuned.trainer


def test_interpreter_and_device_of_the_evaluations() -> None:
    settings = sorted_out(*PAGE, "--policy.python=/opt/python", "--policy.device=cuda:0", "--eval_device=cuda:1")
    assert settings.evaluation is not None
    assert settings.evaluation["policy"] == {"python": "/opt/python", "device": "cuda:1"}
    assert settings.trainer["policy.device"] == "cuda:0"
    assert trainer_command(settings, None)[0] == "/opt/python"


@pytest.mark.parametrize(
    ("flags", "save", "freq"),
    [
        ([], "20000", 20000),
        (["--eval_freq=1000"], "1000", 1000),
        (["--env_eval_freq=1000"], "1000", 1000),
        (["--eval_freq=1000", "--save_freq=250"], "250", 1000),
        (["--save_freq=300"], "300", 300),
        (["--eval_freq=0"], None, 0),
        (["--eval_freq=0", "--save_freq=7"], "7", 0),
    ],
)
def test_there_is_a_checkpoint_for_every_evaluation(flags: list[str], save: str | None, freq: int) -> None:
    settings = sorted_out(*PAGE[:-1], *flags)
    assert settings.trainer.get("save_freq") == save
    assert settings.eval_freq == freq
    assert (settings.evaluation is None) == (freq == 0)


def test_a_run_with_a_recorded_dataset_is_a_dataset(tmp_path: Path) -> None:
    inner = make_dataset(tmp_path / "my run" / "dataset")
    for given in (inner, inner.parent):
        told = sorted_out("--policy.type=act", f"--dataset.root={given}").trainer
        assert told["dataset.root"] == str(inner)
        assert told["dataset.repo_id"] == "local/my-run"
    named = sorted_out("--policy.type=act", f"--dataset.root={inner}", "--dataset.repo_id=me/data").trainer
    assert named["dataset.repo_id"] == "me/data"


def test_a_training_goes_on_from_its_checkpoint_with_what_may_change(tmp_path: Path) -> None:
    checkpoint_folder = write_checkpoint(tmp_path, 7)
    settings = sorted_out(*PAGE[:-1], f"--output_dir={tmp_path}", "--num_workers=2", "--log_freq=5")
    command = trainer_command(settings, Checkpoints(tmp_path).last())
    assert set(command[4:]) == {
        f"--config_path={checkpoint_folder / 'pretrained_model/train_config.json'}",
        "--resume=true",
        f"--output_dir={tmp_path}",
        "--num_workers=2",
        "--log_freq=5",
    }


def test_a_training_config_of_lerobots_says_what_the_flags_leave_open(tmp_path: Path) -> None:
    file = tmp_path / "train_config.json"
    file.write_text(
        '{"policy": {"type": "act"}, "dataset": {"repo_id": "me/data"}, "steps": 50, "save_freq": 5, '
        '"env_eval_freq": 10, "env": {"type": "metaworld", "task": "reach-v3"}, "eval": {"n_episodes": 3}}'
    )
    settings = sorted_out(f"--config_path={file}", "--eval.n_episodes=4", "--output_dir=out")
    assert settings.eval_freq == 10
    assert settings.evaluation is not None
    assert settings.evaluation["env"] == {"type": "metaworld", "task": "reach-v3"}
    assert settings.evaluation["eval"]["n_episodes"] == "4"
    assert settings.trainer["config_path"] == str(file)


def test_differences_name_what_weights_or_episodes_depend_on() -> None:
    before = {"steps": "10", "display": "none", "eval.n_episodes": "3", "eval.batch_size": "1"}
    now = {"steps": "20", "display": "json", "eval.n_episodes": "4", "eval.batch_size": "2"}
    assert differences(now, before, of_evaluations=True) == [
        "--steps: 10 there, 20 now",
        "--eval.n_episodes: 3 there, 4 now",
    ]
    assert differences(now, before, of_evaluations=False) == ["--steps: 10 there, 20 now"]
    assert differences(before, before, of_evaluations=True) == []


COMPACT = ["--policy.type=compact", "--dataset.root=data"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no policy: give --policy.type=compact"),
        (["--policy.type=act"], "no dataset: give --dataset.root=FOLDER"),
        (["--policy.type=act", "--policy.path=x"], "Leave one out"),
        ([*COMPACT[:1], "--dataset.root=nothing"], "there is no such folder"),
        ([*COMPACT[:1], "--dataset.root=."], "no LeRobotDataset in it"),
        ([*COMPACT, "--stepps=3"], "Did you mean '--steps'?"),
        ([*COMPACT, "--steps=none"], "must be a whole number"),
        ([*COMPACT, "--batch_size=0"], "--batch_size=0: must be 1 or more"),
        ([*COMPACT, "--policy.widht=64"], "Did you mean 'width'?"),
        ([*COMPACT, "--policy.push_to_hub=true"], "stays on this machine"),
        ([*COMPACT, "--optimizer.lr=1"], "--optimizer.lr: no such setting"),
        ([*COMPACT, "--eval_freq=10"], "--eval_freq=10 needs something to evaluate on"),
        ([*COMPACT, TINY, "--env.task=a", "--eval_freq=10", "--save_freq=3"], "save_freq a divisor of eval_freq"),
        ([*COMPACT, TINY, "--eval_freq=10", "--env_eval_freq=20"], "two names of one setting"),
        ([*COMPACT, TINY, "--env.taks=a"], "Did you mean '--env.task'?"),
        ([*COMPACT, "--env.type=metaworld", "--env.task=rech-v3"], "Did you mean 'reach-v3'?"),
        ([*COMPACT, TINY, "--env.task=a", "--eval.n_episodes=0"], "--eval.n_episodes=0"),
        ([*COMPACT, TINY, "--env.task=a", "--eval.use_async_envs=false"], "in processes of their own"),
        ([*COMPACT, TINY, "--env.task=a", "--eval.num_shards=2"], "is a whole one"),
        ([*COMPACT, TINY, "--env.task=a", "--report_to=nobody"], "nobody"),
        ([*COMPACT, TINY, "--env.task=a", "--policy.python=/no/python"], "/no/python"),
        ([*COMPACT, "--save_checkpoint=false"], "nothing to evaluate or to go on from"),
        ([*COMPACT, TINY, "--env.task=a", "--eval_device=cuda"], "evaluated with NumPy"),
        (
            ["--policy.path=theirs/checkpoints/000001/pretrained_model", COMPACT[1]],
            "trained from the start",
        ),
        ([*COMPACT, "--display=loud"], "--display=loud"),
        ([*COMPACT, "--output_dir="], "--output_dir is empty"),
        ([*COMPACT, "--output_dir=data"], "is not empty: it holds meta"),
        ([*COMPACT, "--output_dir=theirs"], "checkpoints of another trainer"),
        ([*COMPACT, "--resume=true"], "the same command goes on by itself"),
        (["--resume=data"], "no training of proctor train was begun here"),
        (["--resume=nothing"], "there is no such folder of a training"),
        (["--config_path=none.json"], "there is no such file"),
        (["--follow=theirs", "--eval_freq=0"], "then there is nothing to do"),
        (["--follow=theirs"], "--env.type is missing"),
        (["--follow=theirs", TINY, "--env.task=a", "--policy.path=x"], "the checkpoints there are the policy"),
    ],
    ids=lambda value: " ".join(value)[-60:] if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    make_dataset(tmp_path / "data")
    write_checkpoint(tmp_path / "theirs", 1)
    before = sorted(tmp_path.rglob("*"))
    assert run(["train", *arguments]) == 2
    message = capsys.readouterr().err
    assert words in message
    assert len(message.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_damaged_record_is_said_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "training.json").write_text("{}")
    assert run(["train", f"--resume={tmp_path}"]) == 1
    assert "training.json is not as Proctor writes it" in capsys.readouterr().err


def test_lerobot_where_it_is_not_installed_is_one_line(tmp_path: Path) -> None:
    make_dataset(tmp_path / "data")
    flags = ["--policy.type=act", "--dataset.root=data", "--output_dir=out", f"--policy.python={BARE}"]
    done = run_cli("train", *flags, cwd=tmp_path)
    assert done.returncode == 2
    assert f"are trained by lerobot, which {BARE} does not have" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_setting_of_lerobots_that_it_does_not_know_here_is_unknown() -> None:
    with pytest.raises(UsageError, match="unknown flag --optimiser"):
        sorted_out(*PAGE, "--optimiser.lr=1")
