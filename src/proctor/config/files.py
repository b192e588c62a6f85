"""Settings in YAML files: a user's own, and the one that every run directory holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from proctor.config.yaml_text import YamlError, read_yaml
from proctor.errors import UsageError
from proctor.files import check_folder, clip, reason

CONFIG_FILE = "config.yaml"


def read_settings_file(path: Path, flag: str) -> dict[str, Any]:
    """Return the settings in a YAML file; `flag` is what the user typed, for the message if it cannot be read."""
    try:
        tree = read_yaml(path)
    except FileNotFoundError:
        raise UsageError(f"{clip(flag, 300)}: there is no such file.") from None
    except YamlError as error:
        raise UsageError(f"{clip(flag, 300)}: {clip(str(error), 300)}") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{clip(flag, 300)}: {reason(error)}.") from None
    if not isinstance(tree, dict) or not all(isinstance(name, str) for name in tree):
        raise UsageError(f"{flag}: expected settings, as in a run directory's {CONFIG_FILE}.")
    return tree


def read_run_settings(directory: Path) -> dict[str, Any]:
    """Return the settings of the run in `directory`, whose sections are what they are in every run."""
    path = directory / CONFIG_FILE
    check_folder(directory, "run directory")
    try:
        tree = read_settings_file(path, str(path))
    except UsageError:
        if not os.path.lexists(path):
            raise UsageError(f"{directory} holds no run: {path} is missing.") from None
        raise
    for section in ("policy", "env", "eval"):
        if not isinstance(tree.get(section) or {}, dict):
            raise UsageError(f"{path}: '{section}' is no section, but {clip(tree[section], 40)}.")
    number, of = shard_in(tree)
    if not (type(number) is int and type(of) is int and 0 <= number < of):
        raise UsageError(f"{path}: there is no shard {clip(number, 20)} of {clip(of, 20)}.")
    return tree


def shard_in(settings: Any) -> tuple[Any, Any]:
    """Return which part of a plan a run's settings are for, and of how many."""
    section = settings.get("eval") or {}
    return section.get("shard_id", 0), section.get("num_shards", 1)
