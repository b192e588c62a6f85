"""A checkpoint on disk or on the hub, loaded through LeRobot's own classes, and refused where it is not whole.

LeRobot itself runs a checkpoint with missing weights as random weights, and skips missing statistics silently.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.version import Version

from proctor.config.plain_values import flat
from proctor.errors import UsageError, did_you_mean
from proctor.files import clip
from proctor.installation import install_command
from proctor.machine.scratch import scratch_folder
from proctor.policies.lerobot.guard import (
    ADAPTER,
    CheckpointGuard,
    check_adapter,
    check_steps,
    otherwise,
    read_document,
    read_steps,
)
from proctor.policies.lerobot.kinds import register_kind, register_steps

OLDEST_LEROBOT = Version("0.5")
_CONFIG, PREPROCESSOR, POSTPROCESSOR = "config.json", "policy_preprocessor.json", "policy_postprocessor.json"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's files and its config, before any weight is loaded."""

    name: str
    directory: Path
    config: Any
    guard: CheckpointGuard
    declared_device: str | None = None
    """The device in its own config, before LeRobot took another because that one is not here."""
    own_renames: Mapping[str, str] = field(default_factory=dict)
    """What the checkpoint's own first step renames: the benchmark's key by the policy's."""


@dataclass
class LoadedCheckpoint:
    """A policy with its processors, on its device, ready to be asked."""

    policy: Any
    preprocessor: Any
    postprocessor: Any
    device: Any
    configs: Mapping[str, Any] = field(default_factory=dict)
    """What of its files is JSON, as it was loaded: with what was overridden."""


def check_lerobot() -> None:
    """Say how to get a lerobot that works, if there is none."""
    python = sys.executable
    if sys.version_info < (3, 12):
        raise UsageError(
            f"LeRobot checkpoints need lerobot >= {OLDEST_LEROBOT}, which needs Python >= 3.12; {python} is "
            f"{sys.version_info[0]}.{sys.version_info[1]}. Run: python3.12 -m venv lerobot-env && "
            f"{install_command('lerobot', 'lerobot-env/bin/pip')}, and add --policy.python=lerobot-env/bin/python"
        )
    if importlib.util.find_spec("lerobot") is None:
        raise UsageError(
            f"{python} has no lerobot, which a LeRobot checkpoint needs. "
            f"Run: {install_command('lerobot', f'{python} -m pip')} (or name another interpreter: "
            "--policy.python=PATH)"
        )
    version = metadata.version("lerobot")
    # By release alone: a pre-release of the oldest one will do.
    if Version(version).release < OLDEST_LEROBOT.release:
        raise UsageError(
            f"{python} has lerobot {version}; at least {OLDEST_LEROBOT} is needed. "
            f"Run: {python} -m pip install --upgrade lerobot"
        )


def open_checkpoint(path: str, overrides: Mapping[str, Any], device: str | None, trusted: bool) -> Checkpoint:
    """Find a checkpoint's files, downloading them if it is a hub id, and read its config with the overrides.

    Args:
        path: a directory or a hub id.
        overrides: fields of its config that the user sets.
        device: where it is to run; `None`: as its config says.
        trusted: whether code that comes with it may run.
    """
    directory = _directory(path, _revision(overrides))
    described = read_document(directory, _CONFIG)
    if described is None:
        # What training writes has the checkpoint in a folder of this name.
        inner = directory / "pretrained_model"
        hint = f" Use --policy.path={path}/{inner.name}" if (inner / _CONFIG).is_file() else ""
        raise UsageError(f"--policy.path={path} is no LeRobot checkpoint: it has no {_CONFIG}.{hint}")
    register_kind(described.get("type"))
    guard = CheckpointGuard(trusted)
    with guard.watch(directory):
        if not trusted:
            check_steps(directory)
            if (adapter := read_document(directory, ADAPTER)) is not None:
                check_adapter(adapter, directory / ADAPTER)
        config = _read_config(path, directory, described.get("type"), overrides, device)
    config.pretrained_path = directory
    register_steps(step.get("registry_name") for step in _all_steps(directory))
    declared = described.get("device")
    return Checkpoint(path, directory, config, guard, declared, _own_renames(directory))


def _revision(overrides: Mapping[str, Any]) -> str | None:
    """Return a commit, branch or tag; one that is all digits was read as a number."""
    revision = overrides.get("pretrained_revision")
    return None if revision is None else str(revision)


def _directory(path: str, revision: str | None) -> Path:
    local = Path(path).expanduser()
    if local.is_dir():
        return local.absolute()
    if path.startswith(("/", ".", "~")):
        # A path is absolute in a run's settings, and is not one thing here and a repository there.
        raise UsageError(f"--policy.path={path}: there is no such directory. Was the checkpoint moved or deleted?")
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(path, revision=revision, allow_patterns=["*.json", "*.safetensors", "*.model"])
        )
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        offline = os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
        hint = " HF_HUB_OFFLINE is set, so only what was downloaded before is there." if offline else ""
        raise UsageError(
            f"--policy.path={path}: neither a directory here nor to be had from the hub: {reason}.{hint}"
        ) from error


def _read_config(path: str, directory: Path, kind: Any, overrides: Mapping[str, Any], device: str | None) -> Any:
    from lerobot.configs import PreTrainedConfig

    known = PreTrainedConfig.get_known_choices()
    if not isinstance(kind, str) or kind not in known:
        raise UsageError(
            f"--policy.path={path} is of type {clip(repr(kind))}, which the installed lerobot does not know. "
            f"It knows {', '.join(sorted(known))}."
        )
    fields = {name for name in PreTrainedConfig.get_choice_class(kind).__dataclass_fields__ if name[0] != "_"}
    for name in overrides:
        if name not in fields:
            raise UsageError(
                f"unknown flag --policy.{name}: a checkpoint of type {kind} has no such field."
                f"{did_you_mean(name, fields)}"
            )
    arguments = [
        f"--{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in flat(overrides).items()
    ]
    if device is not None:
        arguments.append(f"--device={device}")
    try:
        with _own_temporary_folder():
            return PreTrainedConfig.from_pretrained(directory, cli_overrides=arguments)
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error.__cause__ or error).split())
        given = "".join(f" --policy.{argument.removeprefix('--')}" for argument in arguments)
        raise UsageError(f"{path}/{_CONFIG} cannot be read{' with' if given else ''}{given}: {reason}") from error


@contextmanager
def _own_temporary_folder() -> Iterator[None]:
    """Remove what LeRobot leaves behind in the folder for temporary files: a config at every load."""
    before = tempfile.tempdir
    with scratch_folder("proctor-config-") as folder:
        tempfile.tempdir = str(folder)
        try:
            yield
        finally:
            tempfile.tempdir = before


def _own_renames(directory: Path) -> dict[str, str]:
    renames = _steps(directory).get("rename_observations_processor", {}).get("rename_map") or {}
    if not isinstance(renames, dict) or not all(isinstance(name, str) for name in renames.values()):
        raise otherwise(directory / PREPROCESSOR, "'rename_map' is no map of names")
    return {policys: benchmarks for benchmarks, policys in renames.items()}


def _all_steps(directory: Path) -> list[Mapping[str, Any]]:
    return [step for name in (PREPROCESSOR, POSTPROCESSOR) for step in read_steps(directory, name)]


def _steps(directory: Path) -> dict[str, dict[str, Any]]:
    return {_step_name(step): step["config"] for step in read_steps(directory, PREPROCESSOR)}


def _step_name(step: Mapping[str, Any]) -> str:
    return str(step.get("registry_name") or str(step.get("class", "")).rpartition(".")[2])


def load(checkpoint: Checkpoint, *, keep_renames: bool, fixed_prompts: bool) -> LoadedCheckpoint:
    """Load weights and processors, and refuse what LeRobot would let pass; the checkpoint's guard is watching.

    Args:
        checkpoint: what to load.
        keep_renames: whether the checkpoint's own renaming stays, because the user gave no other.
        fixed_prompts: whether prompts are padded to one length, so that no row depends on its neighbours'.
    """
    import torch

    from proctor.policies.lerobot.weights import load_policy

    overrides = _step_overrides(checkpoint, keep_renames, fixed_prompts)
    policy = load_policy(checkpoint.name, checkpoint.directory, checkpoint.config)
    policy.to(checkpoint.config.device)
    policy.eval()
    preprocessor, postprocessor = _load_processors(checkpoint, overrides)
    _check_statistics(checkpoint, preprocessor, postprocessor)
    device = torch.device(checkpoint.config.device)
    return LoadedCheckpoint(policy, preprocessor, postprocessor, device, _configs(checkpoint, overrides))


def _configs(checkpoint: Checkpoint, overrides: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    import draccus
    from lerobot.configs import PreTrainedConfig

    found = {
        _CONFIG: draccus.encode(checkpoint.config, PreTrainedConfig),
        PREPROCESSOR: _processor(checkpoint.directory, PREPROCESSOR, overrides),
        POSTPROCESSOR: _processor(checkpoint.directory, POSTPROCESSOR, {}),
        ADAPTER: read_document(checkpoint.directory, ADAPTER),
    }
    return {name: config for name, config in found.items() if config is not None}


def _processor(directory: Path, name: str, overrides: Mapping[str, Mapping[str, Any]]) -> Any:
    document = read_document(directory, name)
    if document is None:
        return None
    steps = [
        {**step, "config": {**step["config"], **overrides.get(_step_name(step), {})}}
        for step in read_steps(directory, name)
    ]
    return {**document, "steps": steps}


def _step_overrides(checkpoint: Checkpoint, keep_renames: bool, fixed_prompts: bool) -> dict[str, dict[str, Any]]:
    config, steps = checkpoint.config, _steps(checkpoint.directory)
    overrides: dict[str, dict[str, Any]] = {"device_processor": {"device": str(config.device)}}
    if not keep_renames:
        overrides["rename_observations_processor"] = {"rename_map": {}}
    if fixed_prompts:
        overrides["tokenizer_processor"] = {"padding": "max_length"}
    if getattr(config, "vlm_model_name", None) is not None:
        # The backbone's place is written into both files; an override must reach both.
        overrides.setdefault("tokenizer_processor", {})["tokenizer_name"] = config.vlm_model_name
    return {name: value for name, value in overrides.items() if name in steps}


def _load_processors(checkpoint: Checkpoint, overrides: dict[str, dict[str, Any]]) -> tuple[Any, Any]:
    from lerobot.policies.factory import make_pre_post_processors

    config, directory = checkpoint.config, checkpoint.directory
    if not (directory / PREPROCESSOR).is_file():
        raise UsageError(
            f"--policy.path={checkpoint.name} has no {PREPROCESSOR}: it was saved by an old LeRobot. Run: "
            f"python -m lerobot.processor.migrate_policy_normalization --pretrained-path {checkpoint.name}"
        )
    try:
        processors: tuple[Any, Any] = make_pre_post_processors(
            config, pretrained_path=str(directory), preprocessor_overrides=overrides
        )
    except UsageError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"--policy.path={checkpoint.name}: its processors cannot be loaded: {reason}") from error
    return processors


_STATISTICS = {
    "MEAN_STD": ("mean", "std"),
    "MIN_MAX": ("min", "max"),
    "QUANTILES": ("q01", "q99"),
    "QUANTILE10": ("q10", "q90"),
}


def _check_statistics(checkpoint: Checkpoint, preprocessor: Any, postprocessor: Any) -> None:
    used = {*(checkpoint.config.input_features or {}), *(checkpoint.config.output_features or {})}
    missing: set[str] = set()
    for step in (*preprocessor.steps, *postprocessor.steps):
        norm_map = getattr(step, "norm_map", None)
        if norm_map is None:
            continue
        for key, feature in step.features.items():
            needed = _STATISTICS.get(getattr(norm_map.get(feature.type), "value", ""), ())
            if key in used and not set(needed) <= step._tensor_stats.get(key, {}).keys():
                missing.add(key)
    if missing:
        raise UsageError(
            f"--policy.path={checkpoint.name} has no normalisation statistics for {', '.join(sorted(missing))}; "
            "without them the policy sees and does something else than in training. Save it again with its "
            "dataset's statistics."
        )
