"""Files that are either whole or not there."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
from pathlib import Path
from typing import Any

from proctor.errors import StoreError
from proctor.files import reason


def write_text(path: Path, text: str) -> None:
    """Write `text` so that a reader, or a crash, sees the old file or the new one and nothing between."""
    # Half a character, from a file name that is no text, is spelled out.
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` likewise."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "Free some space" if full else "Mend that"
        raise StoreError(f"cannot write {path}: {reason(error)}. {hint}, then try again.") from error


def write_json(path: Path, value: Any) -> None:
    """Write strict JSON: a number that is not finite becomes null."""
    write_text(path, json.dumps(finite(value), indent=2, allow_nan=False) + "\n")


def finite(value: Any) -> Any:
    """Return `value` with every NaN and infinity replaced by `None`, which JSON can hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value
