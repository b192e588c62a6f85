"""From flags, a YAML file or Python values to `Settings`, or one clear line about what is wrong."""

from __future__ import annotations

import dataclasses
import datetime
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from proctor.blame import users_code
from proctor.config.clusters import check_cluster
from proctor.config.files import read_run_settings, read_settings_file
from proctor.config.flags import FlagText, Nested, merge, nest, parse_flags
from proctor.config.locations import absolute_setting
from proctor.config.registry import benchmark_path, known_benchmarks, load_named, policy_path
from proctor.config.settings import (
    MOST_SEED,
    AtLeast,
    AtMost,
    ClusterSettings,
    EnvSettings,
    LimitSettings,
    MoreThan,
    PolicySettings,
    RunSettings,
    Settings,
    WandbSettings,
)
from proctor.config.shards import check_shard, from_slurm
from proctor.config.stopping import check_stopping
from proctor.config.trackers import tracker_names
from proctor.config.yaml_text import TooLargeError, YamlError, parse_yaml
from proctor.errors import UsageError, did_you_mean
from proctor.files import clip, is_folder, is_there

SECTIONS = ("policy", "env", "eval", "limits", "cluster", "wandb")

_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
_NO_NUMBER = re.compile(r"[-+]?0\d.*|\d{4,}[eE]\d+|\d+[-:].*")
"""Revisions, dates and times, which YAML 1.1 takes for numbers: octal, large, or with base 60."""
_KINDS = {"env.type": ("benchmark", EnvSettings), "policy.type": ("policy", PolicySettings)}
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def settings_from_flags(arguments: Sequence[str]) -> Settings:
    """Return the settings that a command line means."""
    return build_settings(tree_of(parsed_flags(arguments)))


def parsed_flags(arguments: Sequence[str], own: type[Any] | None = None) -> dict[str, str]:
    """Return the dotted names on a command line and their text; `own` is the class of a command's own flags."""
    return parse_flags(arguments, lambda name: _is_switch(name) or (own and get_type_hints(own).get(name)) is bool)


def tree_of(flags: Mapping[str, str]) -> Nested:
    """Return a command line's values, not yet checked: a file or an old run's below, flags above."""
    tree = nest(flags)
    config_path = tree.pop("config_path", None)
    if config_path is not None:
        tree = merge(read_settings_file(Path(config_path), f"--config_path={config_path}"), tree)
    if tree.get("resume"):
        directory = Path(str(tree["resume"]))
        # Its own path may have changed since it was written.
        tree = merge({**read_run_settings(directory), "output_dir": str(directory)}, tree)
        if Path(str(tree["output_dir"])) != directory:
            raise UsageError("--resume names the run directory itself; leave --output_dir out.")
    return tree


def build_settings(tree: Nested) -> Settings:
    """Check a tree of values and return it as settings. Raises `UsageError` with one line."""
    sections = section_classes(tree)
    from_slurm(tree)
    tree["policy"] = _gather_open(sections["policy"], tree["policy"])
    if tree.get("trust_remote_code") and "trust_remote_code" in known_fields(sections["policy"]):
        tree["policy"]["trust_remote_code"] = tree["trust_remote_code"]
    _check_names(tree, sections)
    _join_tasks(tree)
    values: dict[str, Any] = {
        section: validated(f"{section}.", sections[section], tree.get(section) or {}) for section in SECTIONS
    }
    settings = Settings(**values, **_validate_top(tree))
    _check_seeds(settings)
    check_shard(settings)
    check_stopping(settings)
    tracker_names(settings)
    check_cluster(settings)
    return settings


def _check_seeds(settings: Settings) -> None:
    """Refuse seeds that not every simulator takes: episode i has seed + i."""
    last = settings.seed + settings.eval.n_episodes - 1
    if last > MOST_SEED:
        raise UsageError(
            f"--seed={clip(settings.seed, 40)}: the last of {settings.eval.n_episodes} episodes would have seed "
            f"{clip(last, 40)}, and simulators take seeds up to {MOST_SEED}. "
            f"Use --seed={MOST_SEED - settings.eval.n_episodes + 1} or less."
        )


def make_env_config(type: str, **fields: Any) -> EnvSettings:
    """Return the settings of a benchmark, checked as its flags `--env.*` are.

    >>> make_env_config("metaworld", task=["reach-v3", "push-v3"], obs_type="state").task
    'reach-v3,push-v3'

    Raises:
        UsageError: the benchmark or a field is unknown, or a value is not possible; suggests the right one.
    """
    kind = _settings_of("env.type", type, benchmark_path)
    known = known_fields(kind)
    for name in fields:
        if name not in known:
            raise UsageError(f"{type} has no setting '{name}'.{did_you_mean(name, known)}")
    tree: Nested = {"env": {**fields, "type": type}}
    _join_tasks(tree)
    settings: EnvSettings = validated("env.", kind, tree["env"])
    return settings


def _join_tasks(tree: Nested) -> None:
    """Make lists of tasks one text."""
    env = tree["env"]
    if isinstance(env.get("task"), list | tuple):
        env["task"] = ",".join(map(str, env["task"]))


def section_classes(tree: Nested) -> dict[str, type[Any]]:
    """Return the dataclass of each section; the benchmark and the policy bring their own."""
    env, policy, *_ = (section(tree, name) for name in ("env", "policy", *SECTIONS[2:]))
    if not env.get("type"):
        raise UsageError(f"--env.type is missing. Known: {', '.join(known_benchmarks())}.")
    if not policy.get("type"):
        policy["type"] = _policy_type(policy.get("path"))
    tree["env"], tree["policy"] = env, policy
    return {
        "policy": _settings_of("policy.type", policy["type"], policy_path),
        "env": _settings_of("env.type", env["type"], benchmark_path),
        "eval": RunSettings,
        "limits": LimitSettings,
        "cluster": ClusterSettings,
        "wandb": WandbSettings,
    }


def _settings_of(flag: str, name: Any, find: Callable[[str], str]) -> type[Any]:
    found = load_named(flag, str(name), find(str(name)))
    word, base = _KINDS[flag]
    settings: type[Any] | None = getattr(found, "Settings", None)
    if not isinstance(settings, type) or not dataclasses.is_dataclass(settings):
        raise UsageError(f"--{flag}={clip(name)} is no {word}: it has no Settings.")
    if not issubclass(settings, base):
        raise UsageError(f"--{flag}={clip(name)} is no {word}: its Settings are no {base.__name__}.")
    return settings


def _policy_type(path: Any) -> str:
    if path is None:
        raise UsageError(
            "no policy: give --policy.type=expert|random|zero, or --policy.path=CHECKPOINT, "
            "file.py:Name, module:Name or ws://HOST:PORT."
        )
    text = str(path)
    if text.startswith(("ws://", "wss://")):
        return "remote"
    if is_folder(text):
        return "lerobot"
    if ":" in text:
        return "python"
    if text.endswith(".py"):
        hint = "Add the name of the policy in it:" if is_there(text) else "There is no such file. One is given as"
        raise UsageError(f"--policy.path={clip(text)}: {hint} --policy.path={clip(text)}:NAME")
    if _HUB_ID.fullmatch(text):
        return "lerobot"
    raise UsageError(
        f"--policy.path={clip(text)}: there is no such directory, and it is neither a hub id (user/name), "
        "file.py:Name, module:Name nor ws://HOST:PORT."
    )


def _gather_open(kind: type[PolicySettings], values: Nested) -> Nested:
    """Move names that the kind does not know itself into its open field, where it has one."""
    if kind.OPEN is None:
        return values
    own = known_fields(kind)
    known = {name: value for name, value in values.items() if name in own}
    opened = _typed(known.get(kind.OPEN) or {}, dict)
    if not isinstance(opened, dict):
        raise UsageError(f"--policy.{kind.OPEN}={clip(opened)}: expected a map, such as {{name: value}}.")
    unknown = {name: value for name, value in values.items() if name not in own}
    return {**known, kind.OPEN: merge(opened, unknown)}


def section(tree: Nested, name: str) -> Nested:
    """Return the values of a section, not yet checked. Raises `UsageError` if it is a value itself."""
    found = tree.get(name) or {}
    if not isinstance(found, Mapping):
        raise UsageError(f"--{name}={clip(found)}: '{name}' is a section; set --{name}.type and others.")
    return dict(found)


def _check_names(tree: Nested, sections: Mapping[str, type[Any]]) -> None:
    known = {f"--{name}" for name in known_names(sections)}
    for name in _dotted(tree, sections):
        flag = f"--{name}"
        if flag not in known or name == "config_path":
            raise UsageError(f"unknown flag {flag}.{did_you_mean(flag, known)} See: proctor eval --help")


def known_fields(kind: type[Any]) -> set[str]:
    """Return the names that a section's class has."""
    return {field.name for field in dataclasses.fields(kind)}


def known_names(sections: Mapping[str, type[Any]]) -> set[str]:
    """Return every dotted name that can be set."""
    names = {f"{section}.{f.name}" for section in SECTIONS for f in dataclasses.fields(sections[section])}
    return names | {f.name for f in dataclasses.fields(Settings) if f.name not in SECTIONS} | {"config_path"}


def _dotted(tree: Nested, sections: Mapping[str, type[Any]]) -> list[str]:
    names = []
    top = get_type_hints(Settings)
    for key, value in tree.items():
        if key not in SECTIONS:
            deeper = isinstance(value, dict) and not _is_dict(top.get(key))
            names.append(f"{key}.{next(iter(value), '')}" if deeper else key)
            continue
        hints = get_type_hints(sections[key], include_extras=False)
        for field, inner in (value or {}).items():
            deeper = isinstance(inner, dict) and not _is_dict(hints.get(field))
            names.append(f"{key}.{field}.{next(iter(inner), '')}" if deeper else f"{key}.{field}")
    return names


def validated(prefix: str, kind: type[Any], values: Mapping[str, Any]) -> Any:
    """Return values as a settings dataclass. Raises `UsageError` that names the flag, prefix and all."""
    hints = get_type_hints(kind)
    annotations = get_type_hints(kind, include_extras=True)
    ready = {}
    for name, value in values.items():
        _refuse_truth(f"{prefix}{name}", value, hints[name])
        _refuse_empty(f"{prefix}{name}", value, hints[name])
        ready[name] = absolute_setting(_typed(value, hints[name]), annotations[name])
    # A class of somebody else's may check itself, and fail in doing so.
    with users_code(f"the settings --{prefix}* of {kind.__module__}:{kind.__qualname__} cannot be checked"):
        try:
            checked = TypeAdapter(kind).validate_python(ready)
        except ValidationError as error:
            raise _explain(error, prefix, ready, hints) from None
    for name, annotation in annotations.items():
        _check_bounds(f"{prefix}{name}", getattr(checked, name), annotation)
    return checked


def _validate_top(tree: Nested) -> dict[str, Any]:
    hints = get_type_hints(Settings, include_extras=True)
    plain = get_type_hints(Settings)
    values: dict[str, Any] = {}
    for name, value in tree.items():
        if name in SECTIONS:
            continue
        _refuse_truth(name, value, plain[name])
        _refuse_empty(name, value, plain[name])
        try:
            ready = absolute_setting(_typed(value, plain[name]), hints[name])
            values[name] = TypeAdapter(hints[name]).validate_python(ready)
        except ValidationError as error:
            raise _explain(error, "", {name: value}, plain, name) from None
        _check_bounds(name, values[name], hints[name])
    return values


def _refuse_truth(name: str, value: Any, annotation: Any) -> None:
    """Refuse a yes where a number is wanted: pydantic takes it for 1."""
    if isinstance(value, bool) and _without_none(annotation) in (int, float):
        raise UsageError(
            f"--{name}={str(value).lower()}: must be a number; YAML reads yes and no as true and false."
        )


def _refuse_empty(name: str, value: Any, annotation: Any) -> None:
    """Refuse an empty text where a path is wanted: it would be the current directory."""
    if isinstance(value, str) and not value.strip() and _without_none(annotation) is Path:
        raise UsageError(f"--{name}= is empty: name a path, or leave it out.")


def _check_bounds(name: str, value: Any, annotation: Any) -> None:
    for limit in get_args(annotation):
        if value is None:
            return  # optional, and left out
        if isinstance(limit, AtLeast) and not value >= limit.bound:
            raise UsageError(f"--{name}={clip(value)}: must be at least {limit.bound:g}.")
        if isinstance(limit, AtMost) and not value <= limit.bound:
            raise UsageError(f"--{name}={clip(value, 40)}: must be at most {limit.bound:,}.")
        if isinstance(limit, MoreThan) and not value > limit.bound:
            raise UsageError(f"--{name}={clip(value)}: must be more than {limit.bound:g}.")
    if _too_large(value):
        raise UsageError(f"--{name}={clip(value, 40)}: whole numbers are at most 2**63 - 1 here.")


def _too_large(value: Any) -> bool:
    """Whether a whole number, at any depth, is more than files and messages to other processes can hold."""
    if isinstance(value, dict):
        return any(map(_too_large, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_too_large, value))
    return isinstance(value, int) and not -(1 << 63) <= value < 1 << 63


def _typed(value: Any, annotation: Any) -> Any:
    """Turn a flag's text into what pydantic takes; values from YAML or Python pass through."""
    if isinstance(value, FlagText):
        if _is_optional(annotation) and value.lower() in ("none", "null"):
            return None
        if _is_tuple(annotation):
            return _listed(value)
        return _yaml(value) if _is_dict(annotation) else str(value)
    return _open_texts(value) if _is_dict(annotation) else value


def _open_texts(value: Any) -> Any:
    """Return values whose types nobody declares, as plain ones: what YAML alone knows becomes text again."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): _open_texts(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_open_texts(item) for item in value]
    if isinstance(value, FlagText):
        return _yaml(value)
    return value.isoformat() if isinstance(value, datetime.date) else value


def _yaml(text: str) -> Any:
    try:
        value = parse_yaml(text)
    except TooLargeError as error:
        raise UsageError(f"{clip(text, 60)}: {error}.") from None
    except YamlError:
        return text
    if not isinstance(value, str | dict | list) and _NO_NUMBER.fullmatch(text.strip()):
        return str(text)
    if not isinstance(value, str):
        return _open_texts(value)
    # YAML 1.1 wants a dot in a number with an exponent; people write 1e-3.
    return float(value) if _EXPONENT.fullmatch(value) and not _NO_NUMBER.fullmatch(value) else value


def _explain(
    error: ValidationError, prefix: str, values: Mapping[str, Any], hints: Mapping[str, Any], name: str = ""
) -> UsageError:
    first = error.errors()[0]
    field = name or str(next(iter(first["loc"]), ""))
    value, hint = values.get(field), ""
    choices = get_args(hints[field]) if get_origin(hints.get(field)) is Literal else ()
    if choices:
        hint = did_you_mean(str(value), map(str, choices))
    message = first["msg"].replace("Input should be", "must be").replace("Value error, ", "")
    message = message.replace("a valid integer, unable to parse string as an integer", "a whole number")
    flag = f"--{prefix}{field}={clip(value, 100)}" if field else f"--{prefix}*"  # __post_init__ has no field
    return UsageError(f"{flag}: {clip(message, 400)}.{hint}")


def _is_switch(name: str) -> bool:
    # Benchmarks' own switches always take a value; those below are known before any benchmark is.
    section, _, field = name.rpartition(".")
    kinds: dict[str, type[Any]] = {
        "": Settings,
        "eval": RunSettings,
        "env": EnvSettings,
        "policy": PolicySettings,
        "wandb": WandbSettings,
    }
    return section in kinds and get_type_hints(kinds[section]).get(field) is bool


def _is_optional(annotation: Any) -> bool:
    return get_origin(annotation) in (typing.Union, types.UnionType) and type(None) in get_args(annotation)


def _is_dict(annotation: Any) -> bool:
    return annotation is dict or get_origin(_without_none(annotation)) is dict


def _is_tuple(annotation: Any) -> bool:
    return get_origin(_without_none(annotation)) is tuple


def _without_none(annotation: Any) -> Any:
    """Return what an optional value is when it is there."""
    others = [kind for kind in get_args(annotation) if kind is not type(None)]
    return others[0] if _is_optional(annotation) and len(others) == 1 else annotation


def _listed(text: str) -> Any:
    """Return a list that a flag spells out: [0,3] as LeRobot has it, or 0,3."""
    listed = _yaml(text if text.lstrip().startswith("[") else f"[{text}]")
    return listed if isinstance(listed, list) else text
