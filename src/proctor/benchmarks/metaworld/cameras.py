"""Meta-World's cameras: their names, and who draws them. A further one is a further name here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from proctor.types import Look

if TYPE_CHECKING:
    from proctor.benchmarks.metaworld.benchmark import MetaWorldSettings
    from proctor.benchmarks.metaworld.drawing import Drawing

CameraName = Literal["corner", "corner2", "corner3", "corner4", "topview", "behindGripper", "gripperPOV"]

_TURNED = "corner2"
"""The camera that LeRobot turns by half a circle, and moves."""
_CORNER2 = 2
_CORNER2_POSITION = (0.75, 0.075, 0.7)
"""LeRobot's view: nearer to the table than Meta-World's own corner2."""

_Size = tuple[int, int]


def _sizes(settings: MetaWorldSettings) -> tuple[_Size, _Size]:
    """Return width and height of the policy's image and of videos."""
    s = settings
    view = (s.observation_width, s.observation_height)
    return view, (s.visualization_width or view[0], s.visualization_height or view[1])


def camera_arguments(settings: MetaWorldSettings) -> dict[str, Any]:
    """Return the arguments of an environment that can draw what the settings ask for."""
    # The off-screen buffer must hold the larger of the two; it never changes the pixels of the smaller.
    width, height = (max(sizes) for sizes in zip(*_sizes(settings), strict=True))
    return {"render_mode": "rgb_array", "camera_name": settings.camera_name, "width": width, "height": height}


class MetaWorldCameras:
    """One camera, in the policy's size and in that of videos, drawn when it is asked for."""

    def __init__(self, env: Any, settings: MetaWorldSettings) -> None:
        self._env, self._name = env, settings.camera_name
        self._view, self._film = _sizes(settings)
        self._turned = settings.camera_name == _TURNED
        if self._turned:
            env.model.cam_pos[_CORNER2] = _CORNER2_POSITION
        self._drawing: Drawing | None = None
        self._drawn: dict[_Size, NDArray[np.uint8]] = {}

    def expect(self, look: Look) -> None:
        """Forget the pictures of the state before."""
        self._drawn.clear()

    def picture(self, key: str) -> NDArray[np.uint8]:
        """Return the policy's image."""
        return self._draw(self._view)

    def frame(self) -> NDArray[np.uint8]:
        """Return the frame for videos; one the policy looked at is not drawn again."""
        return self._draw(self._film)

    def close(self) -> None:
        """Leave GL to another simulator."""
        if self._drawing is not None:
            self._drawing.close()
            self._drawing = None

    def _draw(self, size: _Size) -> NDArray[np.uint8]:
        if size not in self._drawn:
            # Here, not above: the benchmark reads the cameras' names, and imports no simulator.
            from proctor.benchmarks.metaworld.drawing import Drawing, turned, upright

            if self._drawing is None:
                self._drawing = Drawing(self._env.model, self._env.data, self._name)
            rows = self._drawing.rows(*size)
            self._drawn[size] = turned(rows) if self._turned else upright(rows)
        return self._drawn[size]
