"""YAML as Proctor reads it, everywhere, settings files too: bounded, or a few lines could become gigabytes.

An alias repeats what its anchor holds, and aliases of aliases multiply. What is counted is therefore what the text
would come to when every alias is written out.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from proctor.errors import UsageError
from proctor.files import check_folder, clip, read_regular, reason

MOST_BYTES = 1 << 20
MOST_VALUES = 100_000
MOST_LEVELS = 64

_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
_SLOW_BYTES = 64 << 10


class YamlError(ValueError):
    """Text that is no YAML, or more than is read; what is wrong with it, in one line."""


class TooLargeError(YamlError):
    """YAML that would become more than anybody writes."""


def read_yaml(path: Path) -> Any:
    """Return what a YAML file holds. Raises `OSError` or `YamlError`."""
    try:
        return parse_yaml(read_regular(path, MOST_BYTES).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise YamlError(clip(str(error))) from None


def parse_yaml(text: str) -> Any:
    """Return YAML as plain values. Raises `YamlError`."""
    if len(text) > MOST_BYTES:
        raise TooLargeError(f"more than {MOST_BYTES >> 20} MiB")
    import yaml  # here: `--help` and `list` read none

    # The parser in C is ten times as fast, which whoever looks at hundreds of runs notices. It does not know the
    # halves of characters that file names can hold.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    if _HALF_CHARACTER.search(text) and len(text) <= _SLOW_BYTES:
        loader = yaml.SafeLoader
    try:
        plain = str(text)  # the parser in C takes no text of a class of our own
        _check_size(plain, loader)
        return yaml.load(plain, loader)
    except TooLargeError:
        raise
    # The constructors of numbers and dates raise errors of their own.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise YamlError(clip(str(error), 300)) from None


def _check_size(text: str, loader: Any) -> None:
    """Add up what every alias would be written out, event by event: nothing is built before it is known."""
    import yaml

    anchored: dict[str, int] = {}
    open_anchors: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(text, loader):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchored:
                raise TooLargeError(
                    f"the alias *{clip(event.anchor, 40)} is inside of what it repeats, or of nothing"
                )
            total += anchored[event.anchor]
        elif isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            if event.anchor:
                anchored.pop(event.anchor, None)
            open_anchors.append((event.anchor, total))
            total += 1
            if len(open_anchors) > MOST_LEVELS:
                raise TooLargeError(f"nested more than {MOST_LEVELS} levels deep")
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            anchor, before = open_anchors.pop()
            if anchor:
                anchored[anchor] = total - before
        elif isinstance(event, yaml.ScalarEvent):
            # A long text that is repeated costs nothing to hold, but to print.
            weight = 1 + len(event.value) // 64
            total += weight
            if event.anchor:
                anchored[event.anchor] = weight
        if total > MOST_VALUES:
            raise TooLargeError(f"more than {MOST_VALUES:,} values, aliases written out")


def dump_yaml(value: Any, **style: Any) -> str:
    """Return plain values as text that reads back as the same values."""
    import yaml

    text: str = yaml.safe_dump(value, allow_unicode=True, **style)
    # Unicode's own line breaks are written as they are, and read as spaces.
    return yaml.safe_dump(value, **style) if set(text) & set("\x85\u2028\u2029") else text


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
