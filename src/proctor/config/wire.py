"""Settings as plain values: what YAML, JSON and msgpack can hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def to_plain(value: Any) -> Any:
    """Return dataclasses as dicts, tuples as lists and paths as strings, all the way down."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by their dotted names.

    >>> flat({"a": {"b": 1}, "c": 2})
    {'a.b': 1, 'c': 2}
    """
    found: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found
