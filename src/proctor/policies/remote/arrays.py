"""NumPy arrays inside msgpack, in the two spellings that policy servers use.

openpi marks an array by a map with bytes keys, vla-eval by one with text keys. What comes from the other side
is never trusted: plain numbers and text only, no object dtypes, sizes that fit the data, and no pickle anywhere.
"""

from __future__ import annotations

import math
import re
from typing import Any, Literal

import msgpack
import numpy as np
from numpy.typing import NDArray

from proctor.files import clip
from proctor.policies.remote.bounds import TooLargeError, check_bounds

Spelling = Literal["bytes", "text"]

_MOST_AXES = 32
_DTYPE = re.compile(r"[<>|=]?[biufSU][1-9]\d{0,5}")


class Malformed(ValueError):
    """A message that is not what the protocol allows; the text says why, in one line."""


def pack(message: Any, spelling: Spelling = "bytes") -> bytes:
    """Return a message as msgpack, arrays and NumPy scalars included."""
    packed: bytes = msgpack.packb(message, default=_pack_bytes_keys if spelling == "bytes" else _pack_text_keys)
    return packed


def unpack(data: bytes) -> Any:
    """Return what `pack` was given, in either spelling. Raises `Malformed` for anything else.

    Both sides of a connection read with it, and neither takes more than a message of the protocol can hold.
    Arrays are writable copies: torch warns about read-only ones.
    """
    try:
        check_bounds(data)
        return msgpack.unpackb(data, object_hook=_unpack_map)
    except Malformed:
        raise
    except TooLargeError as error:
        raise Malformed(str(error)) from None
    # msgpack raises its own errors, some of ours' kind and bare ones for depth, size and wrong text.
    except Exception as error:
        raise Malformed(clip(f"no msgpack: {type(error).__name__}: {error}".rstrip(": "))) from None


def _pack_bytes_keys(value: Any) -> Any:
    return {key.encode(): item for key, item in _spelled(value).items()}


def _pack_text_keys(value: Any) -> Any:
    # vla-eval knows arrays only; its scalars are plain numbers.
    return value.item() if isinstance(value, np.generic) else _spelled(value)


def _spelled(value: Any) -> dict[str, Any]:
    if not isinstance(value, (np.ndarray, np.generic)):
        raise TypeError(f"cannot send {type(value).__name__}")
    if not _DTYPE.fullmatch(value.dtype.str):
        raise TypeError(f"cannot send an array of type {value.dtype}")
    if isinstance(value, np.generic):
        return {"__npgeneric__": True, "data": value.item(), "dtype": value.dtype.str}
    return {
        "__ndarray__": True,
        "data": value.tobytes(),
        "dtype": value.dtype.str,
        "shape": [int(size) for size in value.shape],
    }


def _unpack_map(found: dict[Any, Any]) -> Any:
    for array, scalar, data, dtype, shape in (
        (b"__ndarray__", b"__npgeneric__", b"data", b"dtype", b"shape"),
        ("__ndarray__", "__npgeneric__", "data", "dtype", "shape"),
    ):
        if array in found:
            return _array(found.get(data), found.get(dtype), found.get(shape))
        if scalar in found:
            return _scalar(found.get(data), found.get(dtype))
    return found


def _array(data: Any, dtype: Any, shape: Any) -> NDArray[Any]:
    kind = _checked_dtype(dtype)
    wrong = not isinstance(shape, list) or len(shape) > _MOST_AXES
    if wrong or not all(type(size) is int and size >= 0 for size in shape):
        raise Malformed(f"an array of shape {clip(shape, 40)}")
    if not isinstance(data, bytes) or math.prod(shape) * kind.itemsize != len(data):
        size = f"{len(data)} bytes" if isinstance(data, bytes) else type(data).__name__
        raise Malformed(f"an array of shape {clip(shape, 40)} and type {kind} with data of {size}")
    try:
        return np.ndarray(shape, kind, buffer=data).copy()
    except (ValueError, TypeError, OverflowError) as error:
        raise Malformed(f"an array that NumPy refuses: {error}") from None


def _scalar(data: Any, dtype: Any) -> Any:
    kind = _checked_dtype(dtype)
    if not isinstance(data, (bool, int, float, str, bytes)):
        raise Malformed(f"a scalar of {type(data).__name__}")
    try:
        return kind.type(data)
    except (ValueError, TypeError, OverflowError) as error:
        raise Malformed(f"a scalar that NumPy refuses: {error}") from None


def _checked_dtype(dtype: Any) -> np.dtype[Any]:
    if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
        raise Malformed(f"an array of type {clip(dtype, 40)!r}; numbers and text are allowed")
    try:
        return np.dtype(dtype)
    except TypeError:
        raise Malformed(f"an array of type {dtype!r}, which NumPy does not know") from None
