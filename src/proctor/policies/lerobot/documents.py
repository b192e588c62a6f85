"""The JSON files of a checkpoint, which is a stranger's: regular, bounded, and of the form that LeRobot writes.

What is not so is refused in one line. LeRobot would raise whatever it comes across first, or wait for a pipe.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from proctor.errors import UsageError
from proctor.files import MOST_JSON, clip, parse_json, read_json, read_regular, reason

_REMEDY = "Download or save the checkpoint again."


def read_document(directory: Path, name: str) -> dict[str, Any] | None:
    """Return a JSON file of a checkpoint; `None` if there is none of that name.

    Raises:
        UsageError: it is damaged, or something else than LeRobot writes.
    """
    file = directory / name
    if not os.path.lexists(file):
        return None
    try:
        document = read_json(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {reason(error)}. {_REMEDY}") from None
    except ValueError as error:
        raise UsageError(f"{file} is damaged ({clip(str(error), 100)}). {_REMEDY}") from None
    if not isinstance(document, dict):
        raise otherwise(file, "a map was expected")
    return document


def read_steps(directory: Path, name: str) -> list[dict[str, Any]]:
    """Return the steps of a processor, each with its `config`, a map; none where there is no such file."""
    document = read_document(directory, name)
    if document is None:
        return []
    steps = document.get("steps")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise otherwise(directory / name, "'steps' is no list of maps")
    if not all(isinstance(step.get("config") or {}, dict) for step in steps):
        raise otherwise(directory / name, "the 'config' of a step is no map")
    return [{**step, "config": step.get("config") or {}} for step in steps]


def steps_in_any(file: Path) -> list[dict[str, Any]]:
    """Return what may be a processor's steps in a JSON file of which it is not known what it is.

    Raises:
        UsageError: it cannot be looked into, although LeRobot might.
    """
    if file.is_dir():
        return []
    try:
        data = read_regular(file, MOST_JSON)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {reason(error)}. {_REMEDY}") from None
    try:
        document = parse_json(data)
    except ValueError:
        return []  # whoever needs it says so
    steps = document.get("steps") if isinstance(document, dict) else None
    return [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []


def otherwise(file: Path, what: str) -> UsageError:
    """Return the error about a file that is not of LeRobot's form."""
    return UsageError(f"{file} is not as LeRobot writes it: {what}. {_REMEDY}")
