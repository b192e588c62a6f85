"""The robot's state as LeRobot gives it to policies: eight numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

STATE_SIZE = 8

_NO_ANGLE = 1e-10
"""Below this sine of half the angle there is no axis."""


def robot_state(position: NDArray[Any], quaternion: NDArray[Any], gripper: NDArray[Any]) -> NDArray[np.float32]:
    """Return end-effector position (3), axis times angle (3) and the fingers' positions (2).

    The rotation is worked out in single precision, as LeRobot does.
    """
    return np.concatenate([position, axis_angle(quaternion), gripper]).astype(np.float32)


def axis_angle(quaternion: NDArray[Any]) -> NDArray[np.float32]:
    """Return a rotation's axis times its angle in radians; the quaternion is x, y, z, w."""
    single = np.asarray(quaternion, np.float32)
    w = np.clip(single[3], np.float32(-1), np.float32(1))
    sine = np.sqrt(np.maximum(np.float32(1) - w * w, np.float32(0)))
    if not sine > _NO_ANGLE:
        return np.zeros(3, np.float32)
    angle = np.float32(2) * np.arccos(w)
    turned: NDArray[np.float32] = single[:3] / sine * angle
    return turned
