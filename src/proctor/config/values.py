"""One setting's value: from a flag's text, YAML or Python to what its type says, or one line on what is wrong."""

from __future__ import annotations

import datetime
import re
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from proctor.blame import users_code
from proctor.config.combinations import OFF
from proctor.config.flags import FlagText
from proctor.config.registry import absolute_source
from proctor.config.settings import Locates
from proctor.config.yaml_files import TooLargeError, YamlError, parse_yaml
from proctor.errors import UsageError, did_you_mean
from proctor.files import clip, is_there

if TYPE_CHECKING:  # loaded with the first value that is checked: `--help` checks none
    from pydantic import ValidationError

_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
_NO_NUMBER = re.compile(r"[-+]?0\d.*|\d{4,}[eE]\d+|\d+[-:].*")
"""Revisions, dates and times, which YAML 1.1 takes for numbers: octal, large, or with base 60."""

_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
}
"""What pydantic calls a broken bound, and what a user does."""


def validated(prefix: str, kind: type[Any], values: Mapping[str, Any]) -> Any:
    """Return values as a settings dataclass. Raises `UsageError` that names the flag, prefix and all."""
    hints = get_type_hints(kind, include_extras=True)
    ready = {name: prepared(f"{prefix}{name}", value, hints[name]) for name, value in values.items()}
    from pydantic import TypeAdapter, ValidationError

    # A class of somebody else's may check itself, and fail in doing so.
    with users_code(f"the settings --{prefix}* of {kind.__module__}:{kind.__qualname__} cannot be checked"):
        try:
            checked = TypeAdapter(kind).validate_python(ready)
        except ValidationError as error:
            raise _explain(error, prefix, ready, hints) from None
    for name in hints:
        _refuse_large(f"{prefix}{name}", getattr(checked, name))
    return checked


def validated_value(name: str, value: Any, annotation: Any) -> Any:
    """Return the value of one setting that is in no section, checked by its annotation."""
    from pydantic import TypeAdapter, ValidationError

    ready = prepared(name, value, annotation)
    try:
        checked = TypeAdapter(annotation).validate_python(ready)
    except ValidationError as error:
        raise _explain(error, "", {name: value}, {name: annotation}, name) from None
    _refuse_large(name, checked)
    return checked


def prepared(name: str, value: Any, annotation: Any) -> Any:
    """Return a value as pydantic takes it, with its paths absolute. Refuses what would be taken for another."""
    kind = _without_none(bare(annotation))
    if isinstance(value, bool) and kind in (int, float):
        raise UsageError(
            f"--{name}={str(value).lower()}: must be a number; YAML reads yes and no as true and false."
        )
    if isinstance(value, str) and not value.strip() and kind is Path:
        raise UsageError(f"--{name}= is empty: name a path, or leave it out.")  # it would be the current one
    return absolute_setting(typed(value, bare(annotation)), annotation)


def _refuse_large(name: str, value: Any) -> None:
    if _too_large(value):
        raise UsageError(f"--{name}={clip(value, 40)}: whole numbers are at most 2**63 - 1 here.")


def _too_large(value: Any) -> bool:
    """Whether a whole number, at any depth, is more than files and messages to other processes can hold."""
    if isinstance(value, dict):
        return any(map(_too_large, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_too_large, value))
    return isinstance(value, int) and not -(1 << 63) <= value < 1 << 63


def typed(value: Any, annotation: Any) -> Any:
    """Turn a flag's text into what pydantic takes; values from YAML or Python pass through."""
    if isinstance(value, FlagText):
        if _is_optional(annotation) and value.lower() in ("none", "null"):
            return None
        if get_origin(_without_none(annotation)) is tuple:
            return _listed(value)
        return _yaml(value) if is_dict(annotation) else str(value)
    return _open_texts(value) if is_dict(annotation) else value


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


def _listed(text: str) -> Any:
    """Return a list that a flag spells out: [0,3] as LeRobot has it, or 0,3."""
    listed = _yaml(text if text.lstrip().startswith("[") else f"[{text}]")
    return listed if isinstance(listed, list) else text


def _explain(
    error: ValidationError, prefix: str, values: Mapping[str, Any], hints: Mapping[str, Any], name: str = ""
) -> UsageError:
    first = error.errors()[0]
    field = name or str(next(iter(first["loc"]), ""))
    value, choices = values.get(field), get_args(bare(hints.get(field)))
    literal = get_origin(bare(hints.get(field))) is Literal
    hint = did_you_mean(str(value), map(str, choices)) if literal else ""
    message = first["msg"].replace("Input should be", "must be").replace("Value error, ", "")
    message = message.replace("a valid integer, unable to parse string as an integer", "a whole number")
    others = [str(word) for kind in choices if get_origin(kind) is Literal for word in get_args(kind)]
    message = " or ".join([message, *others])
    if first["type"] in _BOUNDS:
        words, name_of_bound = _BOUNDS[first["type"]]
        message = f"must be {words} {first['ctx'][name_of_bound]:,}".removesuffix(".0")
    flag = f"--{prefix}{field}={clip(value, 100)}" if field else f"--{prefix}*"  # __post_init__ has no field
    return UsageError(f"{flag}: {clip(message, 400)}.{hint}")


def bare(annotation: Any) -> Any:
    """Return a type without its marks."""
    return get_args(annotation)[0] if get_origin(annotation) is typing.Annotated else annotation


def is_dict(annotation: Any) -> bool:
    """Whether a type is a map."""
    return annotation is dict or get_origin(_without_none(annotation)) is dict


def _is_optional(annotation: Any) -> bool:
    return get_origin(annotation) in (typing.Union, types.UnionType) and type(None) in get_args(annotation)


def _without_none(annotation: Any) -> Any:
    """Return what an optional value is when it is there."""
    others = [kind for kind in get_args(annotation) if kind is not type(None)]
    return others[0] if _is_optional(annotation) and len(others) == 1 else annotation


def absolute_setting(value: Any, annotation: Any) -> Any:
    """Return a setting's value with the paths in it absolute, going by its type and its marks; others as it is.

    It then means the same from any directory.
    """
    marks = [mark.kind for mark in get_args(annotation) if isinstance(mark, Locates)]
    is_path = Path in (bare(annotation), *get_args(bare(annotation)))
    if value is None:
        return None
    if "\0" in str(value) and (marks or is_path):
        raise UsageError(f"{clip(ascii(str(value)), 60)}: a path cannot have a zero byte in it.")
    if not marks:
        return _absolute(str(value)) if is_path and isinstance(value, (str, Path)) else value
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
    return _absolute(text) if kind == "checkpoint" and text and is_there(text) else absolute_source(text)


def _values(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _values(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_values(item) for item in value]
    named = isinstance(value, str) and "/" in value and "://" not in value and is_there(value)
    return _absolute(value) if named else value


def _absolute(text: str) -> str:
    try:
        return str(Path(text).expanduser().absolute())
    except RuntimeError:  # ~somebody who has no home here
        return str(Path(text).absolute())
