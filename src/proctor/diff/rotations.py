"""Whether a rotation within a vector is ours, written in another way, or with another one after or before it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

ROUNDING = 1e-5
"""Of an entry of a matrix."""

MOTION = 0.01
"""How much an entry must change over all pairs before what stays the same beside it means anything."""

_FEWEST = 3
"""Pairs of which one may say that something is the same in all."""


class _Form(NamedTuple):
    """A way to write a rotation.

    Attributes:
        words: what it is called.
        size: how many numbers it takes.
        matrices: of rows of so many numbers; NaN where they are no rotation.
    """

    words: str
    size: int
    matrices: Callable[[Numbers], Numbers]


def rotation_diagnoses(ours: Numbers, theirs: Numbers) -> list[str]:
    """Return in which ways rotations at some place of their rows come of those at the same place of ours.

    Args:
        ours: a row for each pair.
        theirs: as many rows.
    """
    same: list[str] = []
    turned: list[str] = []
    for mine, other in itertools.product(_FORMS, _FORMS):
        for place in _places(ours, theirs, mine.size, other.size):
            before = mine.matrices(ours[:, place : place + mine.size])
            after = other.matrices(theirs[:, place : place + other.size])
            if not (np.isfinite(before).all() and np.isfinite(after).all()):
                continue
            where = f"its rotation at places {place} to {place + other.size - 1} is "
            if np.abs(before - after).max() <= ROUNDING:
                same.append(where + _written(mine, other))
            else:
                turned += [where + words for words in _turned(mine, other, before, after)]
    # A rotation that is written from its other side, or about one axis alone, is the same in several forms.
    return [words for words in same if "from the other side" in words][:1] or same or turned


def _places(ours: Numbers, theirs: Numbers, size: int, their_size: int) -> Iterator[int]:
    """Go through the places of a rotation of these sizes that have all of what differs."""
    rest = ours.shape[1] - size
    if rest < 0 or theirs.shape[1] - their_size != rest:
        return
    for place in range(rest + 1):
        left = ours[:, :place], theirs[:, :place]
        right = ours[:, place + size :], theirs[:, place + their_size :]
        if all(_close(*both) for both in (left, right)):
            yield place


def _close(ours: Numbers, theirs: Numbers) -> bool:
    return bool((np.abs(ours - theirs) <= ROUNDING * np.maximum(1.0, np.abs(ours))).all())


def _written(mine: _Form, other: _Form) -> str:
    if mine is other:
        return f"the same from the other side: {mine.words} has two ways to write it"
    return f"{other.words} where ours is {mine.words}"


def _turned(mine: _Form, other: _Form, before: Numbers, after: Numbers) -> Iterator[str]:
    if len(before) < _FEWEST or np.ptp(before, axis=0).max() < MOTION:
        return
    back = before.transpose(0, 2, 1)
    for between, order in ((after @ back, "followed by"), (back @ after, "after")):
        if np.ptp(between, axis=0).max() <= ROUNDING:
            angle = np.degrees(np.arccos(np.clip((np.trace(between[0]) - 1) / 2, -1, 1)))
            form = mine.words if mine is other else f"{other.words} where ours is {mine.words}"
            yield f"ours {order} another one of {angle:.4g} degrees, always the same ({form})"


def _of_vectors(numbers: Numbers) -> Numbers:
    angles = np.linalg.norm(numbers, axis=1)
    axes = numbers / np.where(angles > 0, angles, 1.0)[:, None]
    quaternions = np.column_stack([axes * np.sin(angles / 2)[:, None], np.cos(angles / 2)])
    return _of_quaternions(quaternions)


def _of_quaternions(numbers: Numbers) -> Numbers:
    x, y, z, w = _unit(numbers).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), -1, 0)


def _unit(numbers: Numbers) -> Numbers:
    """Return rows of length 1, and NaN for those that have another."""
    length = np.linalg.norm(numbers, axis=1)[:, None]
    return np.where(np.abs(length - 1) <= ROUNDING, numbers, np.nan)


def _about(axis: int) -> Callable[[Numbers], Numbers]:
    unit = np.eye(3)[axis]
    return lambda angles: _of_vectors(angles[:, None] * unit)


_X, _Y, _Z = map(_about, range(3))


def _of_fixed(numbers: Numbers) -> Numbers:
    x, y, z = numbers.T
    return _Z(z) @ _Y(y) @ _X(x)


def _of_moving(numbers: Numbers) -> Numbers:
    x, y, z = numbers.T
    return _X(x) @ _Y(y) @ _Z(z)


def _of_columns(first: Numbers, second: Numbers) -> Numbers:
    first, second = _unit(first), _unit(second)
    upright = np.abs((first * second).sum(axis=1))[:, None] <= ROUNDING
    return np.stack([first, np.where(upright, second, np.nan), np.cross(first, second)], axis=-1)


_FORMS = (
    _Form("axis times angle", 3, _of_vectors),
    _Form("Euler angles about fixed axes x, y, z", 3, _of_fixed),
    _Form("Euler angles about moving axes x, y, z", 3, _of_moving),
    _Form("a quaternion with w last", 4, _of_quaternions),
    _Form("a quaternion with w first", 4, lambda numbers: _of_quaternions(np.roll(numbers, -1, axis=1))),
    _Form("two columns of a matrix", 6, lambda numbers: _of_columns(numbers[:, :3], numbers[:, 3:])),
    _Form("two columns of a matrix, in turns", 6, lambda numbers: _of_columns(numbers[:, ::2], numbers[:, 1::2])),
)
