"""Settings that name something on this disk, made such that they mean the same from any directory."""

from __future__ import annotations

import types
import typing
from pathlib import Path
from typing import Any, get_args, get_origin

from proctor.config.registry import absolute_source
from proctor.config.settings import Locates
from proctor.config.stopping import OFF
from proctor.errors import UsageError
from proctor.files import clip, is_there


def absolute_setting(value: Any, annotation: Any) -> Any:
    """Return a setting's value with the paths in it absolute, going by its type and its marks; others as it is."""
    marks = [mark.kind for mark in get_args(annotation) if isinstance(mark, Locates)]
    if value is None:
        return None
    if "\0" in str(value) and (marks or _is_path(annotation)):
        raise UsageError(f"{clip(ascii(str(value)), 60)}: a path cannot have a zero byte in it.")
    if not marks:
        return _absolute(str(value)) if _is_path(annotation) and isinstance(value, (str, Path)) else value
    (kind,) = marks
    if kind == "values":
        return _values(value)
    if kind == "given" or not isinstance(value, (str, Path)):
        return value
    text = str(value)
    if kind == "sources":
        return ",".join(absolute_source(name.strip()) for name in text.split(","))
    if kind == "folder":
        return text if text.lower() in OFF else _absolute(text)
    if kind == "program":
        # Not resolved: a virtual environment's interpreter is a link, and the link is what matters.
        return _absolute(text) if "/" in text else text
    # A checkpoint's folder is taken before a hub's repository of that name, as LeRobot does.
    return _absolute(text) if kind == "checkpoint" and _exists(text) else absolute_source(text)


def _values(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _values(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_values(item) for item in value]
    named = isinstance(value, str) and "/" in value and "://" not in value and _exists(value)
    return _absolute(value) if named else value


def _exists(text: str) -> bool:
    return bool(text) and is_there(text)


def _absolute(text: str) -> str:
    try:
        return str(Path(text).expanduser().absolute())
    except RuntimeError:  # ~somebody who has no home here
        return str(Path(text).absolute())


def _is_path(annotation: Any) -> bool:
    """Whether a setting is a path by its type, also an optional one."""
    if get_origin(annotation) is typing.Annotated:
        annotation = get_args(annotation)[0]
    kinds = get_args(annotation) if get_origin(annotation) in (typing.Union, types.UnionType) else (annotation,)
    return Path in kinds
