"""Pictures as simulators draw them: with or without colour, with or without transparency."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_picture(frame: Any) -> bool:
    """Whether something is a picture: uint8, height by width, by 1 to 4 channels where they are told apart."""
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or 0 in frame.shape:
        return False
    return frame.ndim == 2 or (frame.ndim == 3 and frame.shape[2] <= 4)


def as_rgb(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a picture in colour: grey ones have three equal channels, and transparency is left out."""
    if picture.ndim == 2:
        picture = picture[..., None]
    coloured = picture[..., :3] if picture.shape[2] > 2 else picture[..., :1]
    return np.broadcast_to(coloured, (*picture.shape[:2], 3))
