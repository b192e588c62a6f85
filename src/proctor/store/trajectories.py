"""An episode's trajectory: the actions that its simulator was given, and what it takes to play them again.

Packed it is a few kilobytes, in a table of its own: whoever goes through all episodes does not read it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

MOST_BYTES = 8 << 20
"""Of a packed trajectory. A longer one is not kept."""

MARK = 2
"""Bytes of a mark. They find where two episodes part; that they are equal is proved by digests alone."""

_LEVEL = 1
"""Of compression: higher ones gain 3 % of size on Meta-World, and cost three times the time."""

_SAMPLE = 64
"""Of an array's numbers, those whose lowest bytes are looked at: as good as random, or some of them alike."""

_MOST_STEPS = 1 << 24
_MOST_NUMBERS = 1 << 26
"""Of a trajectory that may come from anybody, all its arrays together."""

_FORMAT = 1


@dataclass(frozen=True)
class Trajectory:
    """What went into a simulator and what came of it, step by step.

    Attributes:
        actions: as `Simulator.step` got them, in the policy's own dtype; several arrays if that changed.
        chunks: how many actions each answer of the policy had, the last one's unused actions among them. With the
            policy's offsets that says which steps were looked at.
        rewards: of every step.
        marks: a few bytes of the running digest after each array that the policy saw, one after the other.
        succeeded: the step at which success was first reported; `None` if it never was.
        ending: whether it was terminated, truncated, and at its limit of steps.
    """

    actions: Sequence[NDArray[Any]]
    chunks: NDArray[np.int64]
    rewards: NDArray[np.float64]
    marks: bytes
    succeeded: int | None
    ending: tuple[bool, bool, bool]

    @property
    def steps(self) -> int:
        """How many steps it has."""
        return len(self.rewards)


def pack_trajectory(trajectory: Trajectory) -> bytes:
    """Return a trajectory packed for the store; empty if it is too long to be kept."""
    packed: bytes = msgpack.packb(
        [
            _FORMAT,
            [pack_array(actions, quickly=True) for actions in trajectory.actions],
            pack_array(trajectory.chunks.astype("<i8")),
            pack_array(trajectory.rewards.astype("<f8"), quickly=True),
            trajectory.marks,
            trajectory.succeeded,
            list(trajectory.ending),
        ]
    )
    return packed if len(packed) <= MOST_BYTES else b""


def unpack_trajectory(packed: bytes, most_numbers: int = _MOST_NUMBERS) -> Trajectory:
    """Return what `pack_trajectory` has packed.

    Args:
        packed: that.
        most_numbers: of all its arrays together. One that has more is not unpacked any further.

    Raises:
        ValueError: it is something else, which anybody may have put in its place.
    """
    if len(packed) > MOST_BYTES:
        raise ValueError(f"a trajectory of {len(packed):,} bytes")
    try:
        form, actions, chunks, rewards, marks, succeeded, ending = msgpack.unpackb(packed)
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
        raise ValueError(f"no trajectory ({error})") from None
    if form != _FORMAT:
        raise ValueError(f"a trajectory of format {form!r:.20}")
    arrays: list[NDArray[Any]] = []
    for one in (chunks, rewards, *_listed(actions)):
        arrays.append(unpack_array(one, most_numbers))
        most_numbers -= arrays[-1].size
    found = Trajectory(
        arrays[2:],
        arrays[0],
        arrays[1],
        marks,
        succeeded,
        tuple(bool(one) for one in _listed(ending)),  # type: ignore[arg-type]
    )
    _check(found)
    return found


def _check(found: Trajectory) -> None:
    """Raise `ValueError` unless the parts belong together and the actions are some that a policy may return."""
    steps = found.steps
    shapes = {actions.shape[1:] for actions in found.actions}
    if found.chunks.dtype != "<i8" or found.chunks.ndim != 1 or found.rewards.dtype != "<f8" or not steps:
        raise ValueError("a trajectory without steps")
    if len(shapes) != 1 or sum(map(len, found.actions)) != steps or any(one.ndim != 2 for one in found.actions):
        raise ValueError("other actions than steps")
    if any(one.dtype.kind not in "fiu" or not np.isfinite(one).all() for one in found.actions):
        raise ValueError("actions that are no finite numbers")
    within = (found.chunks > 0) & (found.chunks <= _MOST_STEPS)
    if not within.all() or not found.chunks.sum() >= steps > found.chunks[:-1].sum():
        raise ValueError("other chunks than steps")
    if not isinstance(found.marks, bytes) or len(found.ending) != 3:
        raise ValueError("no marks or no ending")
    if found.succeeded is not None and not (type(found.succeeded) is int and 0 < found.succeeded <= steps):
        raise ValueError("a success at no step")


def pack_array(array: NDArray[Any], *, quickly: bool = False) -> list[Any]:
    """Return an array's dtype, shape and compressed bytes, for `unpack_array`.

    All first bytes of its numbers come first, then all second ones: exponents are alike, so that gains a fifth.

    Args:
        array: that.
        quickly: without compressing fractions that differ in all but their exponents. On Meta-World that would
            gain a sixth, and take longer than all else that it takes to keep an episode's actions.
    """
    content, size = array.tobytes(), array.itemsize
    planes = b"".join([content[byte::size] for byte in range(size)])
    lowest = planes[: min(array.size, _SAMPLE)]
    noise = array.dtype.kind == "f" and len(set(lowest)) > len(lowest) // 4
    level = zlib.Z_NO_COMPRESSION if quickly and noise else _LEVEL
    return [array.dtype.str, list(array.shape), zlib.compress(planes, level)]


def unpack_array(packed: Any, most_numbers: int) -> NDArray[Any]:
    """Return what `pack_array` has packed. Raises `ValueError` if it is something else, or has more numbers."""
    kind, shape, content = _listed(packed)
    if not all(type(side) is int and 0 <= side <= _MOST_STEPS for side in _listed(shape)) or len(shape) > 2:
        raise ValueError("an array of no possible shape")
    try:
        dtype = np.dtype(str(kind))
    except TypeError:
        raise ValueError(f"an array of {kind!r:.20}") from None
    count = int(np.prod(shape, dtype=object))
    if dtype.hasobject or not 0 < dtype.itemsize <= 16:
        raise ValueError("an array of no possible size")
    if count > most_numbers:
        raise ValueError(f"an array of {count:,} numbers, and {most_numbers:,} are read")
    size = count * dtype.itemsize
    unpacking = zlib.decompressobj()
    try:
        planes = unpacking.decompress(bytes(content), size + 1)  # never more than the shape says
    except (zlib.error, TypeError) as error:
        raise ValueError(f"an array that cannot be read ({error})") from None
    if len(planes) != size:
        raise ValueError("an array of another length")
    numbers = np.frombuffer(planes, np.uint8).reshape(dtype.itemsize, count).T
    return np.ascontiguousarray(numbers).reshape(-1).view(dtype).reshape(shape)


def _listed(value: Any) -> Sequence[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{type(value).__name__} in place of a list")
    return value
