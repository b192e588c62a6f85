"""LeRobot's own configs and flags: what of them holds here, and what is passed over.

What LeRobot means by a field is what it means here. A field that means nothing in an evaluation is passed over,
and one note tells all of them, with what holds instead. One that would give another number than whoever gave it
believes is refused.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from proctor.config.flags import FlagText, Nested
from proctor.config.lerobot_fields import (
    ENVS,
    FEATURES_MAPS,
    IGNORED,
    POLICIES,
    PRETRAINED_MODEL,
    TRAIN_CONFIG,
    TRAINING,
    TRAINING_ELSEWHERE,
)
from proctor.config.registry import benchmark_path, load_object
from proctor.config.settings import EvalConfig, Settings
from proctor.config.values import validated, validated_value
from proctor.config.yaml_files import YamlError, read_settings_file, read_yaml
from proctor.errors import UsageError, did_you_mean, unknown_flag
from proctor.files import clip, is_folder, is_there

_CHECKPOINT_CONFIG = "config.json"
_WEIGHTS = ("model.safetensors", "adapter_model.safetensors", "model.safetensors.index.json")

_OF_TRAINING = TRAINING | TRAINING_ELSEWHERE
_BOTH_HAVE = {"resume", "wandb"}
"""Names at the top that are settings here, too, and tell nothing about whose file it is."""

_TRAINING_RUNS = ("output_dir", "resume", "wandb")
"""Of a training config: where that run is kept. An evaluation there would be taken for a part of it."""

PASSED_OVER, RENDERED = "passed_over", "max_episodes_rendered"


def _video_backend() -> str:
    return "torchcodec" if importlib.util.find_spec("torchcodec") else "pyav"


@dataclass
class DatasetConfig:
    """The dataset of a training run, as LeRobot describes it. An evaluation reads none; its values are checked."""

    repo_id: str
    repo_type: str = "dataset"
    root: str | None = None
    episodes: list[int] | None = None
    image_transforms: dict[str, Any] = field(default_factory=dict)
    revision: str | None = None
    use_imagenet_stats: bool = True
    video_backend: str = field(default_factory=_video_backend)
    return_uint8: bool = False
    depth_output_unit: str = "mm"
    streaming: bool = False
    eval_split: float = 0.0

    def __post_init__(self) -> None:
        if self.repo_type not in ("dataset", "bucket"):
            raise ValueError(f"repo_type must be 'dataset' or 'bucket', not {self.repo_type!r}")
        if self.repo_type == "bucket" and not self.streaming:
            raise ValueError("repo_type='bucket' needs streaming=True")
        if self.repo_type == "bucket" and self.eval_split:
            raise ValueError("repo_type='bucket' takes no eval_split")
        if self.depth_output_unit not in ("mm", "m"):
            raise ValueError(f"depth_output_unit must be 'mm' or 'm', not {self.depth_output_unit!r}")
        if not 0.0 <= self.eval_split < 1.0:
            raise ValueError(f"eval_split must be at least 0 and less than 1, not {self.eval_split}")
        episodes = self.episodes or []
        negative = sorted({number for number in episodes if number < 0})
        if negative:
            raise ValueError(f"episodes are counted from 0, and these are negative: {negative}")
        seen: set[int] = set()
        twice = sorted({number for number in episodes if number in seen or seen.add(number)})  # type: ignore[func-returns-value]
        if twice:
            raise ValueError(f"episodes are named once each, and these more often: {twice}")


@dataclass
class PeftConfig:
    """How a training run adapted a policy, as LeRobot describes it. A checkpoint brings its own adapter along."""

    target_modules: list[str] | str | None = None
    full_training_modules: list[str] | None = None
    method_type: str = "LORA"
    init_type: str | None = None
    r: int = 16
    lora_alpha: int | None = None

    def __post_init__(self) -> None:
        if self.r < 1:
            raise ValueError(f"r, the rank, must be at least 1, not {self.r}")


_CHECKED: dict[str, type[Any]] = {"dataset": DatasetConfig, "peft": PeftConfig}


def read_config(given: str, flags: Nested) -> Nested:
    """Return the settings in the file that `--config_path` names: Proctor's, or a config of LeRobot's.

    Args:
        given: a file, or a folder with LeRobot's training config in it, such as a checkpoint.
        flags: what stands on the command line besides, and holds above the file.
    """
    path = Path(given)
    if is_folder(given):
        folder = path.expanduser()
        places = (folder / TRAIN_CONFIG, folder / PRETRAINED_MODEL / TRAIN_CONFIG)
        path = next(filter(is_there, places), folder)
        if path == folder:
            raise UsageError(f"--config_path={clip(given, 300)}: there is no {TRAIN_CONFIG} in this folder.")
    tree = read_settings_file(path, f"--config_path={given}")
    return _of_training(tree, path, flags) if (_OF_TRAINING - _BOTH_HAVE) & tree.keys() else tree


def _of_training(tree: Nested, path: Path, flags: Nested) -> Nested:
    """Return what a training config says of an evaluation."""
    for name, kind in _CHECKED.items():
        if tree.get(name) is not None:
            _check(name, kind, tree[name], path)
    found = {name: value for name, value in tree.items() if name not in {*_OF_TRAINING, *_TRAINING_RUNS, "policy"}}
    passed = [name for name in tree if name in _OF_TRAINING and name not in _TRAINING_RUNS]
    words = [f"{', '.join(sorted(passed))}: for training only"]
    runs = [name for name in _TRAINING_RUNS if tree.get(name)]
    if runs:
        words.append(f"{', '.join(runs)}: the training run's own, which an evaluation leaves alone")
    found["policy"], how = _policy_of_training(tree.get("policy"), path, flags.get("policy"))
    words += [f"policy: {how}"] if how else []
    if isinstance(tree.get("env"), dict):
        env = found["env"] = dict(tree["env"])
        for name in IGNORED.get(str(env.get("type")), ()):
            if name in env:
                words.append(f"env.{name}={clip(env.pop(name), 40)}: ignored, as by LeRobot's own simulator")
    return {**found, PASSED_OVER: words}


def _check(name: str, kind: type[Any], values: Any, path: Path) -> None:
    known = {one.name for one in fields(kind)} | ({"exclude_episodes"} if name == "dataset" else set())
    if isinstance(values, kind):
        return  # made in Python, and checked when it was
    if not isinstance(values, Mapping):
        raise UsageError(f"{path}: '{name}' is a section, and not {clip(values)}.")
    for key in values:
        if key not in known:
            raise UsageError(f"{path}: LeRobot has no field {name}.{clip(key)}.{did_you_mean(str(key), known)}")
    validated(f"{name}.", kind, {key: value for key, value in values.items() if key != "exclude_episodes"})


def _policy_of_training(section: Any, path: Path, flags: Any) -> tuple[Nested, str]:
    """Return the policy that a training config is about, and how it was found."""
    folder = path.parent.absolute()
    if isinstance(flags, Mapping) and {"path", "type"} & flags.keys():
        return {}, "the one on the command line"
    if any(is_there(folder / name) for name in _WEIGHTS) and is_there(folder / _CHECKPOINT_CONFIG):
        return {"path": str(folder), **_differences(section, folder)}, f"as in the checkpoint beside it, {folder}"
    kind = section.get("type") if isinstance(section, Mapping) else None
    raise UsageError(
        f"{path} describes the training of a policy{f' ({clip(kind)})' if kind else ''}, and no weights lie "
        "beside it. Give --policy.path=CHECKPOINT."
    )


def _differences(section: Any, checkpoint: Path) -> Nested:
    """Return the fields of a network's config that are other than its checkpoint's, and so somebody's wish."""
    try:
        saved = read_yaml(checkpoint / _CHECKPOINT_CONFIG)
    except (OSError, YamlError):
        saved = None  # what loads it says what is wrong with it
    if not isinstance(saved, Mapping) or not isinstance(section, Mapping):
        return {}
    told = {name: value for name, value in section.items() if name not in ("type", "path", "pretrained_path")}
    return {name: value for name, value in told.items() if name not in saved or saved[name] != value}


def policy_of_lerobot(policy: Nested) -> Nested:
    """Return a policy that is given by LeRobot's name for its network, as the checkpoint that it is."""
    kind = str(policy.get("type"))
    if kind not in POLICIES:
        return policy
    if policy.get("path"):
        raise UsageError(
            f"--policy.type={kind} with --policy.path: a checkpoint knows its own type. Leave --policy.type out."
        )
    rest = {name: value for name, value in policy.items() if name not in ("type", "pretrained_path")}
    weights = policy.get("pretrained_path")
    if weights is None:
        return {**rest, "type": "lerobot", "overrides": {"type": kind}}
    folder = Path(str(weights)).expanduser()
    return {**(_differences(rest, folder) if is_folder(folder) else rest), "type": "lerobot", "path": str(weights)}


def video_of_lerobot(tree: Nested) -> None:
    """Put `eval.video` in the place of LeRobot's name for it, `eval.max_episodes_rendered`.

    A flag holds above a file or a run that goes on, whichever name either has.

    Raises:
        UsageError: both are given, in one place, and contradict each other.
    """
    run = tree.get("eval") or {}
    video = run.get("video")
    if isinstance(video, int) and not isinstance(video, bool):
        video = run["video"] = str(video)  # from YAML or Python
    given = run.get(RENDERED)
    if given is None:
        return
    tree["eval"] = run = {name: value for name, value in run.items() if name != RENDERED}
    hint = get_type_hints(EvalConfig, include_extras=True)[RENDERED]
    number = validated_value(f"eval.{RENDERED}", given, hint)
    if number is None or (_is_typed(video) and not _is_typed(given)):
        return
    named = "0" if str(video).lower() == "none" else str(video)
    if video is not None and _is_typed(video) == _is_typed(given) and named != str(number):
        raise UsageError(
            f"--eval.video={clip(video, 60)} and --eval.{RENDERED}={number}: the second is LeRobot's name for "
            f"--eval.video={number}. Give one of them."
        )
    run["video"] = FlagText(number) if _is_typed(given) else str(number)


def pass_over(tree: Nested, own: set[str]) -> None:
    """Take out of a tree what is LeRobot's and means nothing here, and put words for it in its place.

    Args:
        tree: all values, not yet checked; `env.type` is there.
        own: the benchmark's own settings.

    Raises:
        UsageError: a value contradicts what holds.
    """
    if _is_typed(tree.get(PASSED_OVER)):
        raise unknown_flag(f"--{PASSED_OVER}", ())
    words = []
    env, kind = tree["env"], tree["env"]["type"]
    for name in [name for name in env if name in ENVS.get(kind, ()) and name not in own]:
        words.append(f"env.{name}: {_instead(name, env.pop(name), env)}")
    if kind in ENVS and env.get("task", "") is None:
        del env["task"]  # LeRobot's way to leave it open
    if "seed" in tree and (tree["seed"] is None or _is_null(tree["seed"])):
        del tree["seed"]
        words.append(f"seed=null: every run is seeded, this one with {Settings.seed}")
    for name in [name for name in tree if name in _OF_TRAINING - _BOTH_HAVE]:
        if _is_typed(tree[name]):
            meant = f" Did you mean '--eval.{name}'?" if name in EvalConfig.__dataclass_fields__ else ""
            raise UsageError(f"--{name} is a flag of lerobot-train: an evaluation trains nothing.{meant}")
        if name in _CHECKED and tree[name] is not None:
            _check(name, _CHECKED[name], tree[name], Path("settings"))
        words.append(f"{name}: for training only")
        del tree[name]
    _tell(tree, words)


def _tell(tree: Nested, words: list[str]) -> None:
    """Add to what is told of a tree, each once; what is no list of texts is refused when it is checked."""
    told = tree.get(PASSED_OVER) or []
    if words and isinstance(told, list | tuple):
        tree[PASSED_OVER] = list(dict.fromkeys([*map(str, told), *words]))


def tell_uploads(tree: Nested, run: EvalConfig) -> None:
    """Say of a dataset that LeRobot would upload that it stays here."""
    asked = {"recording_repo_id": run.recording_repo_id, "recording_private": run.recording_private}
    names = [f"eval.{name}" for name, value in asked.items() if value]
    if names:
        _tell(tree, [f"{', '.join(names)}: nothing is uploaded, the dataset is in dataset/ of the run directory"])


_FIELDS: dict[str, Any] = {
    "fps": int,
    "render_mode": str,
    "hard_reset": bool,
    "features": dict[str, Any],
    "features_map": dict[str, str],
    "disable_env_checker": bool,
    "multitask_eval": bool,
    "is_libero_plus": bool,
}
"""Fields of LeRobot's environments that mean nothing here, with their types."""

_HOLDS = {
    "render_mode": "no window opens",
    "hard_reset": "every episode begins with a hard reset",
    "features": "the benchmark knows its own",
    "features_map": "the benchmark has LeRobot's keys already",
    "disable_env_checker": "Gymnasium's checker has no part in a run",
    "multitask_eval": "every task that env.task names is evaluated",
    "is_libero_plus": "LIBERO's own tasks",
}
"""What holds instead."""


def _instead(name: str, value: Any, env: Nested) -> str:
    """Say what holds instead of a field of LeRobot's environments."""
    kind, given = env["type"], validated_value(f"env.{name}", value, _FIELDS[name])
    if name == "fps":
        fps = load_object(benchmark_path(kind)).fps
        if given != fps:
            raise UsageError(
                f"--env.fps={given}: {kind} makes {fps} steps a second here, and at another pace it would be "
                "another benchmark. Leave it out."
            )
        return f"{kind} makes {fps} steps a second"
    if name == "features_map" and given != _features_map(kind, env):
        raise UsageError("--env.features_map: other names for observations are given by --rename_map here.")
    if name == "is_libero_plus" and given:
        raise UsageError("--env.is_libero_plus=true: LIBERO-plus is not known here, only --env.type=libero.")
    if name == "hard_reset" and not given:
        return f"{_HOLDS[name]}, so single episodes may end otherwise than with LeRobot's soft ones"
    return _HOLDS[name]


def _features_map(kind: str, env: Nested) -> dict[str, str]:
    found = dict(FEATURES_MAPS[kind])
    cameras = env.get("camera_name_mapping")
    for camera, name in cameras.items() if kind == "libero" and isinstance(cameras, Mapping) else ():
        if f"pixels/{camera}" in found:
            found[f"pixels/{camera}"] = f"observation.images.{name}"
    return found


def _is_null(value: Any) -> bool:
    return isinstance(value, FlagText) and value.lower() in ("none", "null")


def _is_typed(value: Any) -> bool:
    """Whether anything in a value stood on the command line."""
    if isinstance(value, Mapping):
        return any(map(_is_typed, value.values()))
    return isinstance(value, FlagText)
