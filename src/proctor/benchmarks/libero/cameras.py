"""LIBERO's cameras: their names, what policies call their pictures, and who draws them.

robosuite samples its cameras inside a step, at a substep that its own clocks choose. A picture asked for
afterwards is another one, and switching a camera off moves its clock. So the clocks run on untouched and the
camera's sensor is wrapped: it draws while it is expected to and gives black otherwise. A picture on a look is then
the very one of a run that draws always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.config.settings import comma_list
from proctor.errors import UsageError, did_you_mean
from proctor.types import IMAGES, Look

CAMERAS = {"agentview_image": "image", "robot0_eye_in_hand_image": "image2"}
"""LeRobot's two cameras and what policies call their pictures."""

SCENE_CAMERAS = (
    *CAMERAS, "frontview_image", "birdview_image", "sideview_image", "galleryview_image", "robot0_robotview_image",
)  # fmt: skip


def camera_keys(chosen: str, renames: Mapping[str, str] | None) -> dict[str, str]:
    """Return the observation key of each camera of a comma list, in its order.

    Raises:
        UsageError: there is no such camera, or its pictures have no name, or another's.
    """
    names = {**CAMERAS, **(renames or {})}
    for camera in names:
        if camera not in SCENE_CAMERAS:
            hint = did_you_mean(camera, SCENE_CAMERAS)
            raise UsageError(f"--env.camera_name_mapping: LIBERO has no camera '{camera}'.{hint}")
    cameras = comma_list(chosen)
    if not cameras:
        raise UsageError(f"--env.camera_name is empty. Known: {', '.join(SCENE_CAMERAS)}.")
    for camera in cameras:
        if camera not in SCENE_CAMERAS:
            raise UsageError(f"--env.camera_name={camera}: unknown.{did_you_mean(camera, SCENE_CAMERAS)}")
        if camera not in names:
            raise UsageError(
                f"--env.camera_name={camera}: its pictures have no name. "
                f"Give one: --env.camera_name_mapping='{{\"{camera}\": NAME}}'"
            )
    keys = {camera: f"{IMAGES}.{names[camera]}" for camera in cameras}
    if len(set(keys.values())) < len(cameras):
        raise UsageError("--env.camera_name and --env.camera_name_mapping give two pictures the same name.")
    return keys


def scene_camera(observable: str) -> str:
    """Return the scene's name of a camera whose pictures LeRobot knows as `NAME_image`."""
    return observable.removesuffix("_image")


class LiberoCameras:
    """Wraps the cameras of a robosuite environment, for good: those that a hard reset makes anew as well.

    Args:
        world: the environment.
        keys: the observation key of each camera; the first is for videos.
        size: height and width of every picture.
    """

    def __init__(self, world: Any, keys: Mapping[str, str], size: tuple[int, int]) -> None:
        self._world, self._size, self._make_sensors = world, size, world._create_camera_sensors
        self._cameras = {key: camera for camera, key in keys.items()}
        self._look: Look = frozenset()
        self._open: frozenset[str] = frozenset()
        self._sampled: Mapping[str, NDArray[Any]] = {}
        self._frame: NDArray[np.uint8] | None = None
        world._create_camera_sensors = self._gated_sensors

    def expect(self, look: Look) -> None:
        """Let the cameras that a look names draw from now on, and no other."""
        self._look, self._frame = look, None
        self._open = frozenset(scene_camera(camera) for key, camera in self._cameras.items() if key in look)

    def sampled(self, observation: Mapping[str, NDArray[Any]]) -> None:
        """Take what robosuite's cameras drew inside a step."""
        self._sampled = observation

    def picture(self, key: str) -> NDArray[np.uint8]:
        """Return a picture as it was sampled inside the step."""
        return _turned(self._sampled[self._cameras[key]])

    def frame(self) -> NDArray[np.uint8]:
        """Return the first camera's frame for videos; one the policy looked at is not drawn again."""
        key, camera = next(iter(self._cameras.items()))
        if key in self._look:
            return self.picture(key)
        if self._frame is None:
            self._make_current()
            height, width = self._size
            self._frame = _turned(
                self._world.sim.render(camera_name=scene_camera(camera), width=width, height=height)
            )
        return self._frame

    def _make_current(self) -> None:
        # The context that was made last is not ours where two simulators live in one process.
        self._world.sim._render_context_offscreen.gl_ctx.make_current()

    def _gated_sensors(self, cam_name: str, **options: Any) -> tuple[list[Callable[[Any], Any]], list[str]]:
        sensors, names = self._make_sensors(cam_name, **options)
        black = np.zeros((options["cam_h"], options["cam_w"], 3), np.uint8)
        return [self._gated(sensor, cam_name, black) for sensor in sensors], names

    def _gated(self, sensor: Any, camera: str, black: NDArray[np.uint8]) -> Callable[[Any], Any]:
        def gated(cache: Any) -> Any:
            if camera not in self._open:
                return black
            self._make_current()
            return sensor(cache)

        gated.__modality__ = sensor.__modality__  # type: ignore[attr-defined]
        return gated


def _turned(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a picture as LeRobot's policies see it: turned by half a circle."""
    return np.ascontiguousarray(picture[::-1, ::-1])
