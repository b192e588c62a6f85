"""Settings in YAML files: a user's own, and the one that every run directory holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from proctor.errors import UsageError

CONFIG_FILE = "config.yaml"


def read_settings_file(path: Path, flag: str) -> dict[str, Any]:
    """Return the settings in a YAML file; `flag` is what the user typed, for the message if it cannot be read."""
    try:
        tree = _parsed(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{flag}: there is no such file.") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{flag}: {' '.join(str(error).split())}") from None
    if not isinstance(tree, dict):
        raise UsageError(f"{flag}: expected settings, as in a run directory's {CONFIG_FILE}.")
    return tree


def _parsed(text: str) -> Any:
    # The parser in C is ten times as fast, which whoever looks at hundreds of runs notices. It does not know the
    # halves of characters that file names can hold.
    try:
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
        return yaml.safe_load(text)


def read_run_settings(directory: Path) -> dict[str, Any]:
    """Return the settings of the run in `directory`."""
    path = directory / CONFIG_FILE
    if not path.exists():
        raise UsageError(f"{directory} holds no run: {path} is missing.")
    return read_settings_file(path, str(path))
