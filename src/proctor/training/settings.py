"""What `proctor train` is told: LeRobot's flags, sorted into the trainer's and the evaluations'."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from proctor.config.flags import Nested, merge, nest, whole_number
from proctor.config.lerobot_configs import read_config
from proctor.config.lerobot_fields import TRAIN_CONFIG, TRAINING, TRAINING_ELSEWHERE
from proctor.config.registry import COMPACT
from proctor.config.yaml_files import read_settings_file
from proctor.errors import UsageError, unknown_flag
from proctor.files import clip, given_path, is_folder, is_there, read_json
from proctor.policies.compact.checkpoint import CONFIG
from proctor.store.run_directory import default_directory
from proctor.training.dataset import dataset_of, find_dataset, lerobot_home

Flags = Mapping[str, str]
"""A command line: dotted names and their text."""

EVAL_FREQ = 20_000
"""LeRobot's, of evaluations and of checkpoints."""

_MOST_STEPS = 10**12
_ABOUT_EVALUATIONS = {"env", "eval", "limits", "cluster", "display", "report_to", "trust_remote_code"}
_OF_BOTH = {"seed", "rename_map", "wandb", "job_name"}
_OWN = {"follow", "output_dir", "resume", "config_path", "eval_freq", "env_eval_freq", "save_freq", "eval_device"}
_OF_TRAINING = TRAINING | TRAINING_ELSEWHERE | {"policy"}
_POLICY_AT_EVALUATION = ("placement", "batch_size")
"""Of `--policy.*`, what says how a policy is evaluated; the rest makes the policy."""

_FREE = {
    "display",
    "report_to",
    "wandb",
    "limits",
    "job_name",
    "num_workers",
    "log_freq",
    "output_dir",
    "resume",
    "follow",
}
_FREE_FIELDS = {
    "policy.python", "policy.placement", "env.python", "eval.batch_size", "eval.max_attempts",
    "eval.recycle_after", "eval.stop_grace",
}  # fmt: skip
"""What may be changed in mid-training, because neither weights nor episodes depend on it."""


@dataclass(frozen=True, kw_only=True)
class TrainFlags:
    """The flags that `proctor train` reads itself; all others of lerobot-train go to the trainer as typed."""

    follow: Annotated[
        str | None,
        "folder that another trainer writes checkpoints to, such as a lerobot-train of yours: they are evaluated, "
        "nothing is trained",
    ] = None
    output_dir: Annotated[str | None, "folder of the training [outputs/train/DATE/TIME_JOB]"] = None
    resume: Annotated[str | None, "folder of a training to go on with, by the command that it was begun with"] = (
        None
    )
    steps: Annotated[int | None, "training steps; with --follow, where the training ends [the trainer's]"] = None
    eval_freq: Annotated[int, "steps between two evaluations; 0: none. LeRobot calls it env_eval_freq, too"] = (
        EVAL_FREQ
    )
    env_eval_freq: Annotated[int | None, "the same"] = None
    save_freq: Annotated[int | None, "steps between two checkpoints, a divisor of eval_freq [eval_freq]"] = None
    eval_device: Annotated[str | None, "where the policy is evaluated, such as cuda:1 [where it is trained]"] = (
        None
    )
    dataset: Annotated[
        str | None,
        "--dataset.root=FOLDER (of a LeRobotDataset, or a run with one in it) or --dataset.repo_id=USER/NAME",
    ] = None
    config_path: Annotated[str | None, "a training config of LeRobot's"] = None


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """A training, and the evaluations beside it.

    Attributes:
        flags: as typed.
        kind: who trains: the trainer of compact policies, LeRobot's, or somebody else whose folder is followed.
        output_dir: of everything.
        trainer: the flags that the trainer gets.
        eval_freq: steps between two evaluations; 0: none.
        python: the interpreter that trains; none: this one.
        evaluation: the settings of every evaluation but for its policy and folder, not yet checked; none: nothing
            is evaluated.
        trackers: what `--report_to` and `--wandb.*` say, not yet checked.
        last_step: where the training ends, if that was said.
        dataset: the folder of what is trained on, if it is on this machine.
    """

    flags: Flags
    kind: Literal["compact", "lerobot", "followed"]
    output_dir: Path
    trainer: Flags
    eval_freq: int
    python: str | None
    evaluation: Nested | None
    trackers: Nested
    last_step: int | None
    dataset: Path | None = None


def training_settings(flags: Flags) -> TrainingSettings:
    """Sort a command line. Raises `UsageError` for what cannot work; the evaluation's values are checked later."""
    _check_names(flags)
    config = _config(flags)
    followed = flags.get("follow")
    python = flags.get("policy.python")
    if followed is not None:
        freq = _frequency(flags, {}, default=1)
        if not freq:
            raise UsageError("--eval_freq=0 with --follow: then there is nothing to do.")
        return TrainingSettings(
            flags=flags,
            kind="followed",
            output_dir=given_folder("follow", followed),
            trainer={},
            eval_freq=freq,
            python=None,
            evaluation=_evaluation(flags, {}, _policy_of_follower(flags)),
            trackers=_trackers(flags, "followed"),
            last_step=_steps(flags),
        )
    kind: Literal["compact", "lerobot"] = "compact" if flags.get("policy.type") == COMPACT else "lerobot"
    _check_policy(flags, config)
    evaluates = "env.type" in flags or isinstance(config.get("env"), dict)
    save, freq = _frequencies(flags, config, evaluates)
    # A compact policy needs no interpreter of its own once it is trained.
    policy = {"python": python} if python is not None and kind == "lerobot" else {}
    policy |= {name: flags[f"policy.{name}"] for name in _POLICY_AT_EVALUATION if f"policy.{name}" in flags}
    policy |= {"device": flags["eval_device"]} if "eval_device" in flags else {}
    trainer = _trainer_flags(flags, kind, save)
    named = trainer.get("dataset.root"), flags.get("dataset.repo_id")
    return TrainingSettings(
        flags=flags,
        kind=kind,
        output_dir=_output_dir(flags, config),
        trainer=trainer,
        eval_freq=freq,
        python=python,
        evaluation=_evaluation(flags, config, policy) if freq else None,
        trackers=_trackers(flags, kind),
        last_step=_steps(flags),
        dataset=find_dataset(*named) if any(named) else dataset_of(config),
    )


def differences(flags: Flags, begun_with: Flags, *, of_evaluations: bool) -> list[str]:
    """Return in which flags a command line is another than the one that a training was begun with.

    Args:
        flags: the one now.
        begun_with: the other.
        of_evaluations: whether those of the evaluations count, because there has been one.
    """

    def counts(name: str) -> bool:
        section = name.partition(".")[0]
        if section in _FREE or name in _FREE_FIELDS:
            return False
        return of_evaluations or section not in {*_ABOUT_EVALUATIONS, "eval_device", "rename_map"}

    def words(given: Flags, name: str) -> str:
        return clip(given[name], 80) if name in given else "not given"

    names = [name for name in dict.fromkeys([*begun_with, *flags]) if counts(name)]
    return [
        f"--{name}: {words(begun_with, name)} there, {words(flags, name)} now"
        for name in names
        if flags.get(name) != begun_with.get(name)
    ]


def free_flags(flags: Flags) -> Flags:
    """Return the trainer's flags that may be others when a training goes on."""
    return {name: text for name, text in flags.items() if name.partition(".")[0] in _FREE & _OF_TRAINING}


def _check_names(flags: Flags) -> None:
    known = {*_ABOUT_EVALUATIONS, *_OF_BOTH, *_OWN, *_OF_TRAINING}
    for name in flags:
        if name.partition(".")[0] not in known:
            raise unknown_flag(f"--{name}", [f"--{one}" for one in known], "proctor train")
    if flags.get("eval.use_async_envs", "true").lower() in ("false", "no", "0", "off"):
        raise UsageError(
            "--eval.use_async_envs=false: evaluations run beside training, in processes of their own."
        )
    for name in ("eval.num_shards", "eval.shard_id"):
        if name in flags:
            raise UsageError(f"--{name}: every evaluation beside a training is a whole one. Leave it out.")


def _config(flags: Flags) -> Nested:
    """Return what a training config on this machine says; one on the hub is the trainer's alone."""
    given = flags.get("config_path")
    if given is None:
        return {}
    if "follow" in flags:
        raise UsageError("--config_path with --follow: the checkpoints say how they were trained. Leave it out.")
    if not is_there(given):
        if re.fullmatch(r"[\w.-]+/[\w.-]+", given):
            return {}
        raise UsageError(f"--config_path={clip(given, 300)}: there is no such file.")
    place = Path(given).expanduser()
    return read_settings_file(place / TRAIN_CONFIG if place.is_dir() else place, f"--config_path={given}")


def _check_policy(flags: Flags, config: Nested) -> None:
    given = [name for name in ("policy.type", "policy.path") if name in flags]
    if len(given) > 1:
        raise UsageError("--policy.type with --policy.path: a checkpoint knows its own type. Leave one out.")
    if not given and not config.get("policy") and "config_path" not in flags:
        raise UsageError(
            "no policy: give --policy.type=compact, a type of LeRobot's (act, diffusion, smolvla, ...), or "
            "--policy.path=CHECKPOINT to go on from."
        )
    if not any(name.startswith("dataset.") for name in flags) and "config_path" not in flags:
        raise UsageError("no dataset: give --dataset.root=FOLDER or --dataset.repo_id=USER/NAME.")
    if _is_compact(flags.get("policy.path")):
        raise UsageError(
            "--policy.path names a compact policy, and those are trained from the start: --policy.type=compact."
        )
    if flags.get("policy.type") == COMPACT and "eval_device" in flags:
        raise UsageError("--eval_device: a compact policy is evaluated with NumPy, on the CPU. Leave it out.")
    if flags.get("save_checkpoint", "true").lower() in ("false", "no", "0", "off"):
        raise UsageError("--save_checkpoint=false: then there is nothing to evaluate or to go on from.")


def _is_compact(checkpoint: str | None) -> bool:
    try:
        return checkpoint is not None and read_json(Path(checkpoint, CONFIG))["type"] == COMPACT
    except (OSError, ValueError, TypeError, LookupError):
        return False  # the hub's, or none at all: LeRobot says what it has against it


def _frequencies(flags: Flags, config: Nested, evaluates: bool) -> tuple[int | None, int]:
    """Return the steps between two checkpoints, if they were said, and between two evaluations."""
    save = flags.get("save_freq", config.get("save_freq"))
    saved = None if save is None else whole_number("save_freq", str(save), 1, _MOST_STEPS)
    freq = _frequency(flags, config, default=saved or EVAL_FREQ)
    if not evaluates:
        if {"eval_freq", "env_eval_freq"} & flags.keys() and freq:
            raise UsageError(f"--eval_freq={freq} needs something to evaluate on: --env.type and --env.task.")
        return saved, 0
    if not freq:
        return saved, 0
    if saved is not None and freq % saved:
        raise UsageError(
            f"--save_freq={saved} with --eval_freq={freq}: every {freq} steps there must be a checkpoint to "
            f"evaluate. Make save_freq a divisor of eval_freq, or leave it out."
        )
    return saved or freq, freq


def _frequency(flags: Flags, config: Nested, default: int) -> int:
    names = [name for name in ("eval_freq", "env_eval_freq") if name in flags]
    if len({flags[name] for name in names}) > 1:
        raise UsageError("--eval_freq and --env_eval_freq are two names of one setting, and differ here.")
    text = flags[names[0]] if names else config.get("env_eval_freq", config.get("eval_freq", default))
    return whole_number(names[0] if names else "eval_freq", str(text), 0, _MOST_STEPS)


def _steps(flags: Flags) -> int | None:
    return whole_number("steps", flags["steps"], 1, _MOST_STEPS) if "steps" in flags else None


def _evaluation(flags: Flags, config: Nested, policy: Nested) -> Nested:
    """Return the settings of every evaluation, without its policy's path and its folder."""
    typed = {
        name: text
        for name, text in flags.items()
        if name.partition(".")[0] in _ABOUT_EVALUATIONS | {"seed", "rename_map"}
    }
    # Their display and trackers are the training's.
    for name in ("display", "report_to"):
        typed.pop(name, None)
    tree = nest(typed)
    if config:
        tree = merge(_evaluation_in(flags["config_path"]), tree)
    return {**tree, "policy": policy, "display": "none"}


def _evaluation_in(config_path: str) -> Nested:
    told = read_config(config_path, {"policy": {"path": "the checkpoints"}})
    return {name: told[name] for name in ("env", "eval", "seed", "rename_map") if told.get(name) is not None}


def _trackers(flags: Flags, kind: str) -> Nested:
    typed = {name: text for name, text in flags.items() if name == "report_to" or name.startswith("wandb.")}
    if kind == "lerobot":
        typed.pop("wandb.run_id", None)  # that is the run of LeRobot's trainer, which tells its losses itself
    return nest(typed)


def _policy_of_follower(flags: Flags) -> Nested:
    for name in ("type", "path"):
        if f"policy.{name}" in flags:
            raise UsageError(f"--policy.{name} with --follow: the checkpoints there are the policy. Leave it out.")
    tree: Nested = nest(flags).get("policy", {})
    return {**tree, **({"device": flags["eval_device"]} if "eval_device" in flags else {})}


def _output_dir(flags: Flags, config: Nested) -> Path:
    given = flags.get("output_dir", config.get("output_dir"))
    if given is not None:
        return given_folder("output_dir", str(given))
    return default_directory(_job_name(flags), time.time(), "train").absolute()


def _job_name(flags: Flags) -> str:
    """Return what LeRobot calls a training: by its environment and its policy."""
    policy = flags.get("policy.type") or Path(flags.get("policy.path", "policy")).name
    benchmark = flags.get("env.type", "").rpartition(":")[2]
    return flags.get("job_name") or "_".join(filter(None, (benchmark, policy)))


def _trainer_flags(flags: Flags, kind: str, save_freq: int | None) -> Flags:
    """Return what the trainer is told, with what is usual where nothing was said."""
    names = _OF_TRAINING | _OF_BOTH | {"config_path"}
    told = {name: text for name, text in flags.items() if name.partition(".")[0] in names}
    for name in ("eval_freq", "env_eval_freq", "resume", *(f"policy.{one}" for one in _POLICY_AT_EVALUATION)):
        told.pop(name, None)
    told.pop("policy.python", None)
    if not {"policy.path", "policy.pretrained_path", "config_path"} & flags.keys():
        told.pop("rename_map", None)  # a fresh policy has the dataset's names; the evaluation maps onto them
    if save_freq is not None:
        told["save_freq"] = str(save_freq)
    if kind == "lerobot":
        told.setdefault("policy.push_to_hub", "false")
        if "config_path" not in flags:
            told["job_name"] = _job_name(flags)
    return {**told, **_dataset(flags, kind)}


def _dataset(flags: Flags, kind: str) -> Flags:
    """Return which dataset is meant: a run's own where a run was named, and a name for one that has none."""
    root, repo = flags.get("dataset.root"), flags.get("dataset.repo_id")
    if root is None:
        if kind == "lerobot" or repo is None:
            return {}
        root = str(lerobot_home() / repo)
    folder = given_folder("dataset.root", root)
    if not (folder / "meta/info.json").is_file() and (folder / "dataset/meta/info.json").is_file():
        folder /= "dataset"
    if not (folder / "meta/info.json").is_file() and (kind == COMPACT or repo is None):
        there = "there is no LeRobotDataset in it" if is_folder(folder) else "there is no such folder"
        raise UsageError(
            f"--dataset.root={clip(root, 300)}: {there} (no meta/info.json). Record one: proctor record"
        )
    return {"dataset.root": str(folder), "dataset.repo_id": repo or f"local/{_name(folder)}"}


def given_folder(flag: str, text: str) -> Path:
    """Return the folder that a flag names, absolute. Raises `UsageError` for what cannot be one's name."""
    if not text.strip():
        raise UsageError(f"--{flag} is empty: give a value, or leave it out.")
    with given_path(text, flag):
        folder = Path(text).expanduser().absolute()
        folder.exists()  # asks the system, which may have something against the name
        return folder


def _name(folder: Path) -> str:
    """Return what a dataset is called by its folder, in the letters that a name on the hub may have."""
    place = folder.parent if folder.name == "dataset" else folder
    return re.sub(r"[^\w.-]+|--+|\.\.+", "-", place.name, flags=re.ASCII).strip("-.")[:90] or "dataset"
