"""Small-array functions of NumPy, SciPy and Meta-World, quicker for what its tasks pass them, equal in every bit.

Each takes any arguments that the original takes. What is usual in a step is computed here, with the same
floating-point operations in the same order; everything else is handed to the original. A result has the
original's bits and its type: a Python float where NumPy gives a `float64` would change what is computed from it
in float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
from metaworld.utils import reward_utils
from numpy._core import umath
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

clip_elements: Any = umath.clip  # type: ignore[attr-defined]
"""The universal function behind `np.clip`."""

_FLOAT64 = np.dtype(np.float64)
_REAL = (float, np.float64, int)
_SQUARABLE = 1e150
"""Beyond, Python raises for a square where NumPy gives infinity."""

_VALUE_AT_MARGIN = 0.1
_LONG_TAIL_SCALE = float(np.sqrt(1 / _VALUE_AT_MARGIN - 1))
_GAUSSIAN_SCALE = float(np.sqrt(-2 * np.log(_VALUE_AT_MARGIN)))


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Return what `np.linalg.norm` does: the root of BLAS's dot product, which may fuse or reorder."""
    if axis is None and not keepdims and (ord is None or ord == 2):
        if type(x) is np.ndarray:
            # A flat array with memory of its own is contiguous.
            if x.ndim == 1 and x.dtype is _FLOAT64 and (x.base is None or x.flags.c_contiguous):
                return np.float64(math.sqrt(x.dot(x)))
        elif type(x) is np.float64 and ord is None:
            number = float(x)
            return np.float64(math.sqrt(number * number))
    return np.linalg.norm(x, ord, axis, keepdims)


def clip(a: Any, a_min: Any = None, a_max: Any = None, **others: Any) -> Any:
    """Return what `np.clip` does, without the two functions around it."""
    if type(a) in _CLIPPED and not others and a_min is not None and a_max is not None:
        return clip_elements(np.float64(a) if type(a) is float else a, a_min, a_max)
    return np.clip(a, a_min, a_max, **others)


_CLIPPED = (float, np.float64, np.float32)


def hstack(tup: Any, **others: Any) -> Any:
    """Return what `np.hstack` does: flat arrays are joined, numbers become an array."""
    if type(tup) is tuple and not others:
        kinds = set(map(type, tup))
        if kinds == _ARRAYS and all(part.ndim == 1 for part in tup):
            return np.concatenate(tup)
        if kinds == _NUMBERS:
            return np.array(tup)
    return np.hstack(tup, **others)


_ARRAYS, _NUMBERS = {np.ndarray}, {np.float64}


def tolerance(
    x: Any,
    bounds: tuple[float, float] = (0.0, 0.0),
    margin: Any = 0.0,
    sigmoid: Any = "gaussian",
    value_at_margin: float = _VALUE_AT_MARGIN,
) -> Any:
    """Return what `reward_utils.tolerance` does, for a number without its 0-dimensional arrays."""
    lower, upper = bounds
    if (
        type(x) in _NUMBER
        and type(margin) in _REAL
        and type(lower) in _REAL
        and type(upper) in _REAL
        and value_at_margin == _VALUE_AT_MARGIN
        and lower <= upper
        and margin > 0
    ):
        x = float(x)
        if sigmoid in _SCALES and lower <= x <= upper:
            return 1.0
        distance = float(lower - x if x < lower else x - upper) / float(margin)
        scaled = distance * _SCALES.get(sigmoid, math.inf)
        if -_SQUARABLE < scaled < _SQUARABLE:
            # Not `scaled * scaled`: NumPy asks the C library for the power of a scalar, and that may differ.
            square = scaled**2
            return 1 / (square + 1) if sigmoid == "long_tail" else float(np.exp(-0.5 * square))
    return reward_utils.tolerance(x, bounds, margin, sigmoid, value_at_margin)


_NUMBER = (float, np.float64)
_SCALES = {"long_tail": _LONG_TAIL_SCALE, "gaussian": _GAUSSIAN_SCALE}


def quaternion(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what `Rotation.from_matrix(matrix).as_quat()` does."""
    rows = matrix.tolist()
    if not _is_rotation(rows):
        return np.asarray(Rotation.from_matrix(matrix).as_quat())
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = rows
    trace = xx + yy + zz
    largest = max(xx, yy, zz, trace)  # the first of equals, as in SciPy
    if xx == largest:
        x, y, z, w = 1 - trace + 2 * xx, yx + xy, zx + xz, zy - yz
    elif yy == largest:
        x, y, z, w = yx + xy, 1 - trace + 2 * yy, zy + yz, xz - zx
    elif zz == largest:
        x, y, z, w = zx + xz, zy + yz, 1 - trace + 2 * zz, yx - xy
    else:
        x, y, z, w = zy - yz, xz - zx, yx - xy, 1 + trace
    length = math.sqrt(x * x + y * y + z * z + w * w)
    return np.array([x / length, y / length, z / length, w / length])


_ORTHOGONAL = 1e-13
"""SciPy takes a matrix as it is where its products of rows are within 1e-12 of a rotation's."""


def _is_rotation(rows: list[list[float]]) -> bool:
    """Whether SciPy would take a matrix as it is, on the safe side."""
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = rows
    return (
        abs(xx * xx + xy * xy + xz * xz - 1) < _ORTHOGONAL
        and abs(yx * yx + yy * yy + yz * yz - 1) < _ORTHOGONAL
        and abs(zx * zx + zy * zy + zz * zz - 1) < _ORTHOGONAL
        and abs(xx * yx + xy * yy + xz * yz) < _ORTHOGONAL
        and abs(xx * zx + xy * zy + xz * zz) < _ORTHOGONAL
        and abs(yx * zx + yy * zy + yz * zz) < _ORTHOGONAL
        and xx * (yy * zz - yz * zy) - xy * (yx * zz - yz * zx) + xz * (yx * zy - yy * zx) > 0.5
    )


class _Matrix:
    """A rotation by its matrix, which SciPy would check, convert and copy."""

    def __init__(self, matrix: NDArray[np.float64]) -> None:
        self._matrix = matrix

    def as_quat(self) -> NDArray[np.float64]:
        return quaternion(self._matrix)


NUMPY = SimpleNamespace(**vars(np))
NUMPY.linalg = SimpleNamespace(**{**vars(np.linalg), "norm": norm})
NUMPY.clip, NUMPY.hstack = clip, hstack
REWARD_UTILS = SimpleNamespace(**{**vars(reward_utils), "tolerance": tolerance})
ROTATION = SimpleNamespace(from_matrix=_Matrix)


def trial() -> Iterator[tuple[Any, Any]]:
    """Compute a little of everything both ways, and give what came of it in pairs: ours, and the original's."""
    rng = np.random.default_rng(0)
    for vector in rng.normal(size=(64, 4)) * np.logspace(-8, 2, 64)[:, None]:
        yield bits(norm(vector)), bits(np.linalg.norm(vector))
        yield bits(norm(vector[:3])), bits(np.linalg.norm(vector[:3]))
        yield bits(norm(vector[0])), bits(np.linalg.norm(vector[0]))
        yield bits(clip(vector[0], -1.0, 1.0)), bits(np.clip(vector[0], -1.0, 1.0))
        yield bits(hstack((vector[0], vector[1]))), bits(np.hstack((vector[0], vector[1])))
        yield bits(hstack((vector, vector))), bits(np.hstack((vector, vector)))
        bounds, margin = (0, abs(vector[0]) / 2), abs(vector[1])
        for sigmoid in _SCALES:
            parts = vector[2], bounds, margin, sigmoid
            yield bits(tolerance(*parts)), bits(reward_utils.tolerance(*parts))
        rotation = Rotation.from_quat(vector).as_matrix()
        yield bits(quaternion(rotation)), bits(Rotation.from_matrix(rotation).as_quat())


def bits(value: Any) -> tuple[type, bytes]:
    """Return all that can make a difference between two values."""
    return type(value), np.asarray(value).tobytes()
