"""Settings, specs and facts as plain values, which YAML, JSON and msgpack can hold, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints


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


def from_plain(kind: Any, plain: Any) -> Any:
    """Return plain values as the dataclass, or the dict or tuple of them, that a type says they were.

    Raises:
        TypeError, ValueError, KeyError, AttributeError: they are something else.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return kind(**{name: from_plain(hints[name], value) for name, value in plain.items()})
    if origin in (Union, UnionType):
        is_list = isinstance(plain, (list, tuple))
        return from_plain(next((one for one in arguments if is_list == (get_origin(one) is tuple)), None), plain)
    if origin is tuple:
        return tuple(from_plain(arguments[0], item) for item in plain)
    if origin is dict:
        return {key: from_plain(arguments[1], item) for key, item in plain.items()}
    return plain
