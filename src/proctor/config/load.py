"""From flags, a YAML file or Python values to `Settings`, or one clear line about what is wrong."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from proctor.config.combinations import (
    check_choice,
    check_cluster,
    check_shard,
    check_stopping,
    check_threshold,
    chosen_videos,
    from_slurm,
    tracker_names,
)
from proctor.config.flags import FlagText, Nested, merge, nest, parse_flags
from proctor.config.lerobot_configs import (
    PASSED_OVER,
    pass_over,
    policy_of_lerobot,
    read_config,
    tell_uploads,
    video_of_lerobot,
)
from proctor.config.registry import COMPACT, SHIPPED, benchmark_path, known_benchmarks, load_named, policy_path
from proctor.config.settings import (
    MOST_SEED,
    ClusterSettings,
    EnvSettings,
    EvalConfig,
    LimitSettings,
    PolicySettings,
    Settings,
    WandBConfig,
    identity_values,
)
from proctor.config.values import is_dict, typed, validated, validated_value
from proctor.config.yaml_files import read_run_settings
from proctor.errors import UsageError, did_you_mean, for_python, unknown_flag
from proctor.files import clip, is_folder, is_there, read_json

SECTIONS = ("policy", "env", "eval", "limits", "cluster", "wandb")

EMBEDDED: Nested = {
    "policy": {"path": f"{SHIPPED}metaworld-mt50"},
    "env": {"type": "metaworld", "task": "mt50", "obs_type": "state"},
    "eval": {"n_episodes": 10},
}
"""What is evaluated where neither a policy nor a benchmark is named: the policy that comes with Proctor, as in its
model card."""

_KINDS = {"env.type": ("benchmark", EnvSettings), "policy.type": ("policy", PolicySettings)}
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def settings_from_flags(arguments: Sequence[str]) -> Settings:
    """Return the settings that a command line means."""
    return build_settings(tree_of(parsed_flags(arguments)))


def parsed_flags(
    arguments: Sequence[str],
    own: type[Any] | None = None,
    program: str = "proctor eval",
    tell: Callable[[str], None] = lambda words: None,
) -> dict[str, str]:
    """Return the dotted names on a command line and their text.

    Args:
        arguments: the command line.
        own: the class of a command's own flags.
        program: whose help is named.
        tell: is told of a flag that is given two values.
    """
    hints = get_type_hints(own) if own else {}
    known = {*known_fields(Settings), *hints, "config_path"} - {PASSED_OVER}

    def check_name(name: str) -> None:
        if "." not in name and name not in known:
            raise unknown_flag(f"--{name}", [f"--{each}" for each in known - {*hints}])

    def is_switch(name: str) -> bool:
        return _is_switch(name) or hints.get(name) is bool

    return parse_flags(arguments, is_switch, check_name, program, tell)


def tree_of(flags: Mapping[str, str]) -> Nested:
    """Return a command line's values, not yet checked: a file or an old run's below, flags above."""
    tree = nest(flags)
    config_path = tree.get("config_path")
    if isinstance(config_path, str):
        del tree["config_path"]
        tree = merge(read_config(config_path, tree), tree)
    if tree.get("resume"):
        directory = Path(str(tree["resume"]))
        # Its own path may have changed since it was written.
        tree = merge({**read_run_settings(directory), "output_dir": str(directory)}, tree)
        if Path(str(tree["output_dir"])) != directory:
            raise UsageError("--resume names the run directory itself; leave --output_dir out.")
    if tree.get("failed"):
        tree = _with_settings_of(Path(str(tree["failed"])), tree)
    return tree


def or_embedded(tree: Nested) -> Nested:
    """Return a command line's values, of the embedded default where it names neither a policy nor a benchmark."""
    if tree.get("policy") or tree.get("env") or tree.get("resume"):
        return tree
    return merge(EMBEDDED, tree)


_OF_A_RUN = ("policy", "env", "seed", "rename_map", "trust_remote_code", "limits")
"""What a run of another's failures takes over from it."""


def _with_settings_of(run: Path, tree: Nested) -> Nested:
    """Return a command line's values above those of a run whose episodes are run again."""
    own = read_run_settings(run)
    taken = {name: own[name] for name in _OF_A_RUN if own.get(name) is not None}
    for name in ("policy", "env"):
        values = section(tree, name)
        if values.get("type") or values.get("path"):
            taken.pop(name, None)  # of another kind: none of its settings are the run's
    names = ("n_episodes", *identity_values(EvalConfig()))
    episodes = {name: value for name, value in (own.get("eval") or {}).items() if name in names}
    return merge({**taken, "eval": episodes}, tree)


def build_settings(tree: Nested) -> Settings:
    """Check a tree of values and return it as settings. Raises `UsageError` with one line."""
    sections = section_classes(tree)
    pass_over(tree, known_fields(sections["env"]))
    from_slurm(tree)
    video_of_lerobot(tree)
    tree["policy"] = _gather_open(sections["policy"], tree["policy"])
    if tree.get("trust_remote_code") and "trust_remote_code" in known_fields(sections["policy"]):
        tree["policy"]["trust_remote_code"] = tree["trust_remote_code"]
    _check_names(tree, sections)
    _join_tasks(tree)
    values: dict[str, Any] = {
        section: validated(f"{section}.", sections[section], tree.get(section) or {}) for section in SECTIONS
    }
    tell_uploads(tree, values["eval"])
    settings = Settings(**values, **_validate_top(tree))
    _check_seeds(settings)
    check_choice(settings)
    check_shard(settings)
    check_stopping(settings)
    check_threshold(settings)
    chosen_videos(settings.eval)
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


@for_python({"env.": ""})
def make_env_config(type: str, **fields: Any) -> EnvSettings:
    """Return the settings of a benchmark, checked as its flags `--env.*` are.

    A field of LeRobot's that has no effect here is a warning.

    >>> make_env_config("metaworld", task=["reach-v3", "push-v3"], obs_type="state").task
    'reach-v3,push-v3'

    Raises:
        UsageError: the benchmark or a field is unknown, or a value is not possible; suggests the right one.
    """
    kind = _settings_of("env.type", type, benchmark_path)
    known = known_fields(kind)
    tree: Nested = {"env": {**fields, "type": type}}
    pass_over(tree, known)
    for words in tree.get(PASSED_OVER, ()):
        warnings.warn(f"make_env_config: LeRobot's {words}", stacklevel=3)
    for name in tree["env"]:
        if name not in known:
            raise UsageError(f"{type} has no setting '{name}'.{did_you_mean(name, known)}")
    _join_tasks(tree)
    settings: EnvSettings = validated("env.", kind, tree["env"])
    return settings


def _join_tasks(tree: Nested) -> None:
    """Make lists of tasks one text. Refuses a name that is empty, unless it is the only one."""
    env = tree["env"]
    if isinstance(env.get("task"), list | tuple):
        env["task"] = ",".join(map(str, env["task"]))
    names = str(env.get("task") or "").split(",")
    if len(names) > 1 and not all(name.strip() for name in names):
        raise UsageError("--env.task: a task's name is empty. Look for a comma too many.")


def section_classes(tree: Nested) -> dict[str, type[Any]]:
    """Return the dataclass of each section; the benchmark and the policy bring their own."""
    env, policy, *others = (section(tree, name) for name in ("env", "policy", *SECTIONS[2:]))
    tree |= {name: values for name, values in zip(SECTIONS[2:], others, strict=True) if values}
    if not env.get("type"):
        raise UsageError(f"--env.type is missing. Known: {', '.join(known_benchmarks())}.")
    policy = policy_of_lerobot(policy)
    if not policy.get("type"):
        policy["type"] = _policy_type(policy.get("path"))
    tree["env"], tree["policy"] = env, policy
    return {
        "policy": _settings_of("policy.type", policy["type"], policy_path),
        "env": _settings_of("env.type", env["type"], benchmark_path),
        "eval": EvalConfig,
        "limits": LimitSettings,
        "cluster": ClusterSettings,
        "wandb": WandBConfig,
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
    if text.startswith(SHIPPED):
        return COMPACT
    if is_folder(text):
        return _checkpoint_kind(Path(text).expanduser())
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


def _checkpoint_kind(folder: Path) -> str:
    """Return which kind of policy a checkpoint is for: LeRobot's, unless its config says that it is ours."""
    for place in (folder, folder / "pretrained_model"):  # of the folder above, the loader says where it is
        try:
            described = read_json(place / "config.json")
        except (OSError, ValueError):
            continue
        if isinstance(described, dict) and described.get("type") == COMPACT:
            return COMPACT
    for place in (folder / "checkpoints" / "last", folder / "last"):  # of a training, whoever trained
        checkpoint = place / "pretrained_model"
        if not is_there(str(folder / "config.json")) and is_there(str(checkpoint / "config.json")):
            raise UsageError(
                f"--policy.path={clip(str(folder), 300)}: this folder has checkpoints, but is none. "
                f"Use --policy.path={checkpoint}"
            )
    return "lerobot"  # whose loader says what is wrong


def _gather_open(kind: type[PolicySettings], values: Nested) -> Nested:
    """Move names that the kind does not know itself into its open field, where it has one."""
    if kind.OPEN is None:
        return values
    own = known_fields(kind)
    known = {name: value for name, value in values.items() if name in own}
    opened = typed(known.get(kind.OPEN) or {}, dict)
    if not isinstance(opened, dict):
        raise UsageError(f"--policy.{kind.OPEN}={clip(opened)}: expected a map, such as {{name: value}}.")
    unknown = {name: value for name, value in values.items() if name not in own}
    return {**known, kind.OPEN: merge(opened, unknown)}


_CLASSES: dict[str, type[Any]] = {
    "policy": PolicySettings,
    "env": EnvSettings,
    "eval": EvalConfig,
    "limits": LimitSettings,
    "cluster": ClusterSettings,
    "wandb": WandBConfig,
}
"""What a section may be in Python, besides a dict."""


def section(tree: Nested, name: str) -> Nested:
    """Return the values of a section, not yet checked. Raises `UsageError` if it is a value itself."""
    found = tree.get(name) or {}
    if dataclasses.is_dataclass(found) and not isinstance(found, type):
        if not isinstance(found, _CLASSES.get(name, ())):
            wanted = f"a {_CLASSES[name].__name__} or " if name in _CLASSES else ""
            raise UsageError(f"--{name}={type(found).__name__}: must be {wanted}a dict.")
        found = _given(found)
    if not isinstance(found, Mapping):
        raise UsageError(f"--{name}={clip(found)}: '{name}' is a section; set --{name}.type and others.")
    return dict(found)


def _given(config: Any) -> Nested:
    """Return what is other than its default in a config that was made in Python, such as `EvalConfig(...)`."""
    made = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    plain = {field.name: field.default for field in dataclasses.fields(config)}
    return {name: value for name, value in made.items() if value != plain[name]}


def _check_names(tree: Nested, sections: Mapping[str, type[Any]]) -> None:
    known = {f"--{name}" for name in known_names(sections)}
    for name in _dotted(tree, sections):
        flag = f"--{name}"
        if flag not in known or name == "config_path":
            raise unknown_flag(flag, known)


def known_fields(kind: type[Any]) -> set[str]:
    """Return the names that a section's class has."""
    return {field.name for field in dataclasses.fields(kind)}


def known_names(sections: Mapping[str, type[Any]]) -> set[str]:
    """Return every dotted name that can be set."""
    names = {f"{section}.{f.name}" for section in SECTIONS for f in dataclasses.fields(sections[section])}
    return names | known_fields(Settings) - {*SECTIONS, PASSED_OVER} | {"config_path"}


def _dotted(tree: Nested, sections: Mapping[str, type[Any]]) -> list[str]:
    names = []
    top = get_type_hints(Settings)
    for key, value in tree.items():
        first, dot, rest = str(key).partition(".")
        if dot and first in SECTIONS:
            raise UsageError(f"'{clip(key)}': nest it, as {{{first}: {{{clip(rest)}: ...}}}}.")
        if key == PASSED_OVER and not isinstance(value, FlagText):
            continue
        if key not in SECTIONS:
            deeper = isinstance(value, dict) and not is_dict(top.get(key))
            names.append(f"{key}.{next(iter(value))}" if deeper and value else key)
            continue
        hints = get_type_hints(sections[key], include_extras=False)
        for field, inner in (value or {}).items():
            deeper = isinstance(inner, dict) and not is_dict(hints.get(field))
            names.append(f"{key}.{field}.{next(iter(inner))}" if deeper and inner else f"{key}.{field}")
    return names


def _validate_top(tree: Nested) -> dict[str, Any]:
    hints = get_type_hints(Settings, include_extras=True)
    return {
        name: validated_value(name, value, hints[name]) for name, value in tree.items() if name not in SECTIONS
    }


def _is_switch(name: str) -> bool:
    # Benchmarks' own switches always take a value; those below are known before any benchmark is.
    section, _, field = name.rpartition(".")
    kinds: dict[str, type[Any]] = {
        "": Settings,
        "eval": EvalConfig,
        "env": EnvSettings,
        "policy": PolicySettings,
        "wandb": WandBConfig,
    }
    return section in kinds and get_type_hints(kinds[section]).get(field) is bool
