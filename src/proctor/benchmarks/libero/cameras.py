"""Cameras that draw only when told.

robosuite samples its cameras inside a step, at a substep that its own clocks choose. A picture asked for
afterwards is another one, and switching a camera off moves its clock. So the clocks run on untouched and the
camera's sensor is wrapped: it draws while it is open and gives black otherwise. A picture on a look is then the
very one of a run that draws always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SUFFIX = "_image"


def scene_camera(observable: str) -> str:
    """Return the scene's name of a camera whose pictures LeRobot knows as `NAME_image`."""
    return observable.removesuffix(_SUFFIX)


class CameraGate:
    """Wraps the cameras of a robosuite environment, for good: those that a hard reset makes anew as well."""

    def __init__(self, env: Any) -> None:
        self._env, self._make_sensors = env, env._create_camera_sensors
        self._open: frozenset[str] = frozenset()
        env._create_camera_sensors = self._gated_sensors

    def open(self, cameras: Iterable[str]) -> None:
        """Let these cameras draw from now on, and no other; names are the scene's."""
        self._open = frozenset(cameras)

    def draw(self, camera: str, height: int, width: int) -> NDArray[np.uint8]:
        """Return the present state as a camera sees it, rows from below, as robosuite's cameras give them."""
        sim = self._env.sim
        # The context that was made last is not ours where two simulators live in one process.
        sim._render_context_offscreen.gl_ctx.make_current()
        picture: NDArray[np.uint8] = sim.render(camera_name=camera, width=width, height=height)
        return picture

    def _gated_sensors(self, cam_name: str, **options: Any) -> tuple[list[Callable[[Any], Any]], list[str]]:
        sensors, names = self._make_sensors(cam_name, **options)
        black = np.zeros((options["cam_h"], options["cam_w"], 3), np.uint8)
        return [self._gated(sensor, cam_name, black) for sensor in sensors], names

    def _gated(self, sensor: Any, camera: str, black: NDArray[np.uint8]) -> Callable[[Any], Any]:
        def gated(cache: Any) -> Any:
            if camera not in self._open:
                return black
            self._env.sim._render_context_offscreen.gl_ctx.make_current()
            return sensor(cache)

        gated.__modality__ = sensor.__modality__  # type: ignore[attr-defined]
        return gated
