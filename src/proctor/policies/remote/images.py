"""Images as a policy server wants them: a square, the picture unstretched in its middle, black around it.

The arithmetic is Pillow's bilinear filter (openpi's clients resize with it), in plain NumPy: no dependency, and
the same bits on every machine. They are Pillow's own bits unless a picture is much taller than wide, where
Pillow may take the two axes in the other order.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray

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
