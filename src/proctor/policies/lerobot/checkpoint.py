"""A checkpoint on disk or on the hub, loaded through LeRobot's own classes, and refused where it is not whole.

LeRobot itself runs a checkpoint with missing weights as random weights, and skips missing statistics silently.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from proctor.errors import UsageError, did_you_mean

OLDEST_LEROBOT = (0, 5)
_CONFIG, _PREPROCESSOR = "config.json", "policy_preprocessor.json"
_ADAPTER = "adapter_config.json"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's files and its config, before any weight is loaded."""

    name: str
    directory: Path
    config: Any
    overrides: Mapping[str, Any]
    own_renames: Mapping[str, str] = field(default_factory=dict)
    """What the checkpoint's own first step renames: the benchmark's key by the policy's."""

    def fingerprint(self) -> str:
        """Return the hash of all its files and of what was overridden; where it lies does not matter."""
        parts = [json.dumps(dict(self.overrides), sort_keys=True, default=str)]
        parts += [f"{name}={digest}" for name, digest in _hash_files(self.directory)]
        base = self._adapter_base()
        if base is not None:
            parts.append(f"base={base}")
            if Path(base).is_dir():
                parts += [f"base/{name}={digest}" for name, digest in _hash_files(Path(base))]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    def _adapter_base(self) -> str | None:
        file = self.directory / _ADAPTER
        return json.loads(file.read_text())["base_model_name_or_path"] if file.is_file() else None


@dataclass
class Loaded:
    """A policy with its processors, on its device, ready to be asked."""

    policy: Any
    preprocessor: Any
    postprocessor: Any
    device: Any


def check_lerobot() -> None:
    """Say how to get a lerobot that works, if there is none."""
    python = sys.executable
    if sys.version_info < (3, 12):
        raise UsageError(
            f"LeRobot checkpoints need lerobot >= 0.5, which needs Python >= 3.12; {python} is "
            f"{sys.version_info[0]}.{sys.version_info[1]}. Run: python3.12 -m venv lerobot-env && "
            "lerobot-env/bin/pip install 'proctor[lerobot]', and add --policy.python=lerobot-env/bin/python"
        )
    if importlib.util.find_spec("lerobot") is None:
        raise UsageError(
            f"{python} has no lerobot, which a LeRobot checkpoint needs. "
            f"Run: {python} -m pip install 'proctor[lerobot]' (or name another interpreter: --policy.python=PATH)"
        )
    version = metadata.version("lerobot")
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_LEROBOT:
        raise UsageError(
            f"{python} has lerobot {version}; at least {'.'.join(map(str, OLDEST_LEROBOT))} is needed. "
            f"Run: {python} -m pip install --upgrade lerobot"
        )


def open_checkpoint(path: str, overrides: Mapping[str, Any], device: str | None) -> Checkpoint:
    """Find a checkpoint's files, downloading them if it is a hub id, and read its config with the overrides."""
    directory = _directory(path, overrides.get("pretrained_revision"))
    if not (directory / _CONFIG).is_file():
        raise UsageError(f"--policy.path={path} is no LeRobot checkpoint: it has no {_CONFIG}.")
    config = _read_config(path, directory, overrides, device)
    config.pretrained_path = directory
    return Checkpoint(path, directory, config, overrides, _own_renames(directory))


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


def _read_config(path: str, directory: Path, overrides: Mapping[str, Any], device: str | None) -> Any:
    from lerobot.configs import PreTrainedConfig
    from lerobot.utils.import_utils import register_third_party_plugins

    register_third_party_plugins()
    import lerobot.policies  # noqa: F401 - registers every kind of policy

    raw = json.loads((directory / _CONFIG).read_text())
    kind = raw.get("type")
    known = PreTrainedConfig.get_known_choices()
    if kind not in known:
        raise UsageError(
            f"--policy.path={path} is of type {kind!r}, which the installed lerobot does not know. "
            f"It knows {', '.join(sorted(known))}."
        )
    fields = {name for name in PreTrainedConfig.get_choice_class(kind).__dataclass_fields__ if name[0] != "_"}
    for name in overrides:
        if name not in fields:
            raise UsageError(
                f"unknown flag --policy.{name}: a checkpoint of type {kind} has no such field."
                f"{did_you_mean(name, fields)}"
            )
    arguments = [f"--{name}={value}" for name, value in _flat(overrides)]
    if device is not None:
        arguments.append(f"--device={device}")
    try:
        return PreTrainedConfig.from_pretrained(directory, cli_overrides=arguments)
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error.__cause__ or error).split())
        given = "".join(f" --policy.{argument.removeprefix('--')}" for argument in arguments)
        raise UsageError(f"{path}/{_CONFIG} cannot be read{' with' if given else ''}{given}: {reason}") from error


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)


def _own_renames(directory: Path) -> dict[str, str]:
    step = _steps(directory).get("rename_observations_processor") or {}
    return {policys: benchmarks for benchmarks, policys in (step.get("rename_map") or {}).items()}


def _steps(directory: Path) -> dict[str, dict[str, Any]]:
    file = directory / _PREPROCESSOR
    if not file.is_file():
        return {}
    steps = json.loads(file.read_text())["steps"]
    return {step.get("registry_name") or step.get("class", ""): step.get("config") or {} for step in steps}


def load(checkpoint: Checkpoint, *, keep_renames: bool, fixed_prompts: bool, trust_remote_code: bool) -> Loaded:
    """Load weights and processors, and refuse what LeRobot would let pass.

    Args:
        checkpoint: what to load.
        keep_renames: whether the checkpoint's own renaming stays, because the user gave no other.
        fixed_prompts: whether prompts are padded to one length, so that no row depends on its neighbours'.
        trust_remote_code: whether code that comes with a model may run.
    """
    import torch

    with _remote_code(trust_remote_code):
        policy = _load_policy(checkpoint)
        policy.to(checkpoint.config.device)
        policy.eval()
        preprocessor, postprocessor = _load_processors(checkpoint, keep_renames, fixed_prompts)
    _check_statistics(checkpoint, preprocessor, postprocessor)
    return Loaded(policy, preprocessor, postprocessor, torch.device(checkpoint.config.device))


def _load_policy(checkpoint: Checkpoint) -> Any:
    from lerobot.policies.factory import get_policy_class

    config, directory = checkpoint.config, checkpoint.directory
    try:
        policy_class = get_policy_class(config.type)
    except ImportError as error:
        raise UsageError(
            f"--policy.path={checkpoint.name} is of type {config.type}, which needs more: "
            f"{' '.join(str(error).split())} (for {sys.executable})"
        ) from error
    with _recorded_loads() as loads:
        if not config.use_peft:
            if not (directory / "model.safetensors").is_file():
                raise UsageError(f"--policy.path={checkpoint.name} has no weights: model.safetensors is missing.")
            policy = policy_class.from_pretrained(str(directory), config=config)
        else:
            policy = _load_adapted(checkpoint, policy_class)
    for module, missing, unexpected in loads:
        if module is policy or isinstance(module, policy_class):
            _check_weights(checkpoint.name, policy, missing, unexpected)
    return policy


def _load_adapted(checkpoint: Checkpoint, policy_class: Any) -> Any:
    """Load a PEFT adapter on the policy that it adapts; what comes back is the policy, adapted in place."""
    try:
        from peft import PeftConfig, PeftModel
    except ImportError as error:
        raise UsageError(
            f"--policy.path={checkpoint.name} is a PEFT adapter. Run: {sys.executable} -m pip install peft"
        ) from error
    adapter = PeftConfig.from_pretrained(str(checkpoint.directory))
    base = adapter.base_model_name_or_path
    if not base:
        raise UsageError(f"--policy.path={checkpoint.name}: its {_ADAPTER} does not name the policy it adapts.")
    policy = policy_class.from_pretrained(base, config=checkpoint.config, revision=adapter.revision)
    adapted = PeftModel.from_pretrained(policy, str(checkpoint.directory), config=adapter)
    return adapted.get_base_model()


@contextmanager
def _recorded_loads() -> Iterator[list[tuple[Any, list[str], list[str]]]]:
    """Note what every `load_state_dict` found missing or unexpected; LeRobot only logs it."""
    import torch

    loads: list[tuple[Any, list[str], list[str]]] = []
    original = torch.nn.Module.load_state_dict

    def recorded(self: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, state_dict, *args, **kwargs)
        loads.append((self, list(result.missing_keys), list(result.unexpected_keys)))
        return result

    torch.nn.Module.load_state_dict = recorded
    try:
        yield loads
    finally:
        torch.nn.Module.load_state_dict = original


def _check_weights(name: str, policy: Any, missing: list[str], unexpected: list[str]) -> None:
    tensors = {**dict(policy.named_parameters(remove_duplicate=False)), **dict(policy.named_buffers())}
    # A tied weight is stored once, under one of its names.
    there = {tensor.data_ptr() for key, tensor in tensors.items() if key not in missing and tensor.numel()}
    missing = [key for key in missing if key in tensors and tensors[key].data_ptr() not in there]
    problems = [
        f"{len(keys)} weights {what} ({', '.join(keys[:3])}{', ...' if len(keys) > 3 else ''})"
        for what, keys in (("are missing", missing), ("belong to no part of the policy", unexpected))
        if keys
    ]
    if problems:
        raise UsageError(
            f"--policy.path={name} does not match its config: {' and '.join(problems)}. "
            "Was it saved by another version, or overridden with a field that changes the network?"
        )


def _load_processors(checkpoint: Checkpoint, keep_renames: bool, fixed_prompts: bool) -> tuple[Any, Any]:
    from lerobot.policies.factory import make_pre_post_processors

    config, directory = checkpoint.config, checkpoint.directory
    if not (directory / _PREPROCESSOR).is_file():
        raise UsageError(
            f"--policy.path={checkpoint.name} has no {_PREPROCESSOR}: it was saved by an old LeRobot. Run: "
            f"python -m lerobot.processor.migrate_policy_normalization --pretrained-path {checkpoint.name}"
        )
    steps = _steps(directory)
    overrides: dict[str, dict[str, Any]] = {"device_processor": {"device": str(config.device)}}
    if not keep_renames:
        overrides["rename_observations_processor"] = {"rename_map": {}}
    if fixed_prompts:
        overrides["tokenizer_processor"] = {"padding": "max_length"}
    if "tokenizer_processor" in steps and getattr(config, "vlm_model_name", None) is not None:
        # The backbone's place is written into both files; an override must reach both.
        overrides.setdefault("tokenizer_processor", {})["tokenizer_name"] = config.vlm_model_name
    try:
        processors: tuple[Any, Any] = make_pre_post_processors(
            config,
            pretrained_path=str(directory),
            preprocessor_overrides={name: value for name, value in overrides.items() if name in steps},
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


@contextmanager
def _remote_code(trusted: bool) -> Iterator[None]:
    """Refuse code that comes with a model, whatever the policy's class asks for, unless the user allowed it."""
    try:
        from transformers import dynamic_module_utils
    except ImportError:
        yield
        return
    original = dynamic_module_utils.get_class_in_module

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise UsageError(
            "the checkpoint wants to run code that comes with it; look at that code, "
            "then add --trust_remote_code=true"
        )

    if not trusted:
        dynamic_module_utils.get_class_in_module = refuse
    try:
        yield
    finally:
        dynamic_module_utils.get_class_in_module = original


def _hash_files(directory: Path) -> list[tuple[str, str]]:
    hashes = []
    for file in sorted(directory.rglob("*")):
        if file.is_file() and file.suffix in (".json", ".safetensors", ".model", ".bin", ".txt"):
            with file.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            hashes.append((str(file.relative_to(directory)), digest))
    return hashes
