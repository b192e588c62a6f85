"""An observation as a message: arrays in msgpack, images in the server's size, and how much one may hold.

openpi marks an array by a map with bytes keys, vla-eval by one with text keys. What comes from the other side
is never trusted: plain numbers and text only, no object dtypes, sizes that fit the data, and no pickle anywhere.
Fifteen megabytes of empty lists are more than a gigabyte of Python objects. So the headers of a message are walked
over before any of it is decoded; text and arrays are one step each, however long they are.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from dataclasses import dataclass
from typing import Any, Literal

import msgpack
import numpy as np
from numpy.typing import NDArray

from proctor.errors import UsageError
from proctor.files import clip

Spelling = Literal["bytes", "text"]

_MOST_AXES = 32
_DTYPE = re.compile(r"[<>|=]?[biufSU][1-9]\d{0,5}")


class MalformedMessage(ValueError):
    """A message that is not what the protocol allows; the text says why, in one line."""


@dataclass(frozen=True)
class MessageLayout:
    """Under which names an observation travels. A name `a:b` is the entry `b` of a map `a`."""

    keys: dict[str, str]
    prompt_key: str

    def __post_init__(self) -> None:
        paths = sorted(tuple(name.split(":")) for name in [*self.keys.values(), self.prompt_key])
        for first, second in itertools.pairwise(paths):
            if second[: len(first)] == first:  # one would overwrite the other
                raise UsageError(f"--policy.keys gives two things the same place: '{':'.join(second)}'.")

    def message(self, values: dict[str, Any], prompt: str) -> dict[str, Any]:
        """Return an observation as the server wants it."""
        message: dict[str, Any] = {self.prompt_key: prompt}
        for key, value in values.items():
            *outer, name = self.keys.get(key, key).split(":")
            place = message
            for part in outer:
                place = place.setdefault(part, {})
            place[name] = value
        return message


def pack(message: Any, spelling: Spelling = "bytes") -> bytes:
    """Return a message as msgpack, arrays and NumPy scalars included."""
    packed: bytes = msgpack.packb(message, default=_pack_bytes_keys if spelling == "bytes" else _pack_text_keys)
    return packed


def unpack(data: bytes) -> Any:
    """Return what `pack` was given, in either spelling. Raises `MalformedMessage` for anything else.

    Both sides of a connection read with it, and neither takes more than a message of the protocol can hold.
    Arrays are writable copies: torch warns about read-only ones.
    """
    try:
        check_bounds(data)
        return msgpack.unpackb(data, object_hook=_unpack_map)
    except MalformedMessage:
        raise
    # msgpack raises its own errors, some of ours' kind and bare ones for depth, size and wrong text.
    except Exception as error:
        raise MalformedMessage(clip(f"no msgpack: {type(error).__name__}: {error}".rstrip(": "))) from None


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
        raise MalformedMessage(f"an array of shape {clip(shape, 40)}")
    if not isinstance(data, bytes) or math.prod(shape) * kind.itemsize != len(data):
        size = f"{len(data)} bytes" if isinstance(data, bytes) else type(data).__name__
        raise MalformedMessage(f"an array of shape {clip(shape, 40)} and type {kind} with data of {size}")
    try:
        return np.ndarray(shape, kind, buffer=data).copy()
    except (ValueError, TypeError, OverflowError) as error:
        raise MalformedMessage(f"an array that NumPy refuses: {error}") from None


def _scalar(data: Any, dtype: Any) -> Any:
    kind = _checked_dtype(dtype)
    if not isinstance(data, (bool, int, float, str, bytes)):
        raise MalformedMessage(f"a scalar of {type(data).__name__}")
    try:
        return kind.type(data)
    except (ValueError, TypeError, OverflowError) as error:
        raise MalformedMessage(f"a scalar that NumPy refuses: {error}") from None


def _checked_dtype(dtype: Any) -> np.dtype[Any]:
    if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
        raise MalformedMessage(f"an array of type {clip(dtype, 40)!r}; numbers and text are allowed")
    try:
        return np.dtype(dtype)
    except TypeError:
        raise MalformedMessage(f"an array of type {dtype!r}, which NumPy does not know") from None


MOST_VALUES = 20_000
"""Values of a message, those inside of lists and maps included. An array is one: its numbers are bytes."""

MOST_LEVELS = 32

# By first byte: how many bytes its own length takes, and how many follow beside what the length says.
_SIZED = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_EXTENDED = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_FIXED = {
    0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4,
    0xD3: 8, 0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17,
}  # fmt: skip
_COUNTED = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
"""Lists and maps: bytes of the count, and values of each entry."""


def check_bounds(data: bytes) -> None:
    """Raise `MalformedMessage` if msgpack holds too many values, or nests them too deeply.

    What is no msgpack at all passes: the decoder says what is wrong with it.
    """
    place, values = 0, 0
    left = [1]
    """How many values each open list or map still has, the outermost first."""
    while left:
        if not left[-1]:
            left.pop()
            continue
        left[-1] -= 1
        if place >= len(data):
            return  # cut short
        values += 1
        place, inside = _step(data, place)
        if values + inside > MOST_VALUES:
            raise MalformedMessage(f"a message of more than {MOST_VALUES:,} values")
        if inside:
            left.append(inside)
            if len(left) - 1 > MOST_LEVELS:
                raise MalformedMessage(f"a message nested more than {MOST_LEVELS} levels deep")


def _step(data: bytes, place: int) -> tuple[int, int]:
    """Return where the next value's header begins, and how many values this one holds."""
    first = data[place]
    place += 1
    if first < 0x80 or first >= 0xE0:
        return place, 0
    if first < 0x90:
        return place, 2 * (first & 0x0F)
    if first < 0xA0:
        return place, first & 0x0F
    if first < 0xC0:
        return place + (first & 0x1F), 0
    if first in _FIXED:
        return place + _FIXED[first], 0
    if first in _COUNTED:
        width, each = _COUNTED[first]
        return place + width, each * int.from_bytes(data[place : place + width])
    width = _SIZED.get(first) or _EXTENDED.get(first, 0)
    length = int.from_bytes(data[place : place + width])
    return place + width + length + (first in _EXTENDED), 0


# The arithmetic is Pillow's bilinear filter (openpi's clients resize with it), in plain NumPy: no dependency, and
# the same bits on every machine. They are Pillow's own bits unless a picture is much taller than wide, where
# Pillow may take the two axes in the other order.
_BITS = 22
"""Pillow's fixed-point weights have this many bits behind the point."""


def resize_with_pad(image: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Return a (height, width, channels) image as a `size` × `size` one, with its shape kept."""
    height, width, channels = image.shape
    if height == width == size:
        return image
    ratio = max(width / size, height / size)
    rows, columns = max(1, int(height / ratio)), max(1, int(width / ratio))
    small = _along(_along(image, 1, columns), 0, rows)
    padded = np.zeros((size, size, channels), np.uint8)
    top, left = (size - rows) // 2, (size - columns) // 2
    padded[top : top + rows, left : left + columns] = small
    return padded


def _along(image: NDArray[np.uint8], axis: int, size: int) -> NDArray[np.uint8]:
    if image.shape[axis] == size:
        return image
    weights = _weights(image.shape[axis], size)
    sums = np.tensordot(weights, image.astype(np.int64), (1, axis)) + (1 << (_BITS - 1))
    return np.moveaxis(np.clip(sums >> _BITS, 0, 255).astype(np.uint8), 0, axis)


@functools.lru_cache(maxsize=32)
def _weights(before: int, after: int) -> NDArray[np.int64]:
    """Return how much each old pixel counts in each new one: a triangle as wide as a new pixel."""
    scale = before / after
    reach = max(scale, 1.0)
    table = np.zeros((after, before), np.int64)
    for place in range(after):
        centre = (place + 0.5) * scale
        low, high = max(0, int(centre - reach + 0.5)), min(before, int(centre + reach + 0.5))
        shares = [max(0.0, 1.0 - abs((old - centre + 0.5) * (1.0 / reach))) for old in range(low, high)]
        total = sum(shares)
        table[place, low:high] = [math.floor(0.5 + share / total * (1 << _BITS)) for share in shares]
    return table
