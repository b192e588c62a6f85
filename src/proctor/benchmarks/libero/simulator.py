"""One LIBERO task, stepped and drawn. Imported in workers only: it pulls in MuJoCo and chooses GL."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.libero.assets import HOW_TO_GET, find_assets, package_root
from proctor.benchmarks.libero.benchmark import LiberoSettings
from proctor.benchmarks.libero.cameras import LiberoCameras, scene_camera
from proctor.benchmarks.libero.installation import import_libero, no_debugger, read_initial_states
from proctor.benchmarks.rendering import Cameras
from proctor.errors import SimulatorError
from proctor.types import NO_LOOK, STATE, Episode, Look, Observation, Outcome, Task

SETTLE_STEPS = 10
"""Steps in which nothing is done, so that objects come to rest; they are not the episode's."""

_NOTHING = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0)
"""No movement, gripper open."""

_PLACEMENTS = 10
"""How often LIBERO may try to place the objects. By itself it tries for ever."""


_MOST_OBJECTS = 24
"""Whose places are named: an episode keeps a few numbers."""

_FREE = 7
"""Numbers of a joint that lets a thing be anywhere: place and orientation."""


class LiberoSimulator:
    """Wraps LIBERO's own environment so that an episode depends on its seed and index alone."""

    def __init__(self, task: Task, settings: LiberoSettings, cameras: Mapping[str, str]) -> None:
        assets = find_assets(settings.assets_path)
        if assets is None:
            raise SimulatorError(f"LIBERO's assets are not on this machine. {HOW_TO_GET}")
        root = package_root()
        self._task, self._settings = task, settings
        self._states = (
            read_initial_states(root / "init_files" / task.group / f"{task.name}.pruned_init")
            if settings.init_states
            else None
        )
        envs = import_libero(assets)
        draws = os.environ.get("MUJOCO_GL") != "disable"
        # Building draws random numbers too, though no episode depends on them.
        np.random.seed(0)
        self._env: Any = self._placed(
            lambda: envs.env_wrapper.ControlEnv(
                bddl_file_name=str(root / "bddl_files" / task.group / f"{task.name}.bddl"),
                camera_names=[scene_camera(camera) for camera in cameras],
                camera_heights=settings.observation_height,
                camera_widths=settings.observation_width,
                use_camera_obs=draws,
                has_offscreen_renderer=draws,
                ignore_done=True,  # the step limit is the engine's
            )
        )
        self._world = self._env.env
        size = settings.observation_height, settings.observation_width
        self._cameras = LiberoCameras(self._world, cameras, size) if draws else None
        if not draws:
            _forward_as_if_drawing(self._world)
        self._initializers = list(self._world.object_property_initializers)
        self._raw: Mapping[str, NDArray[Any]] = {}
        self._look: Look = NO_LOOK
        self._layout: dict[str, float] = {}

    def reset(self, episode: Episode, look: Look) -> None:
        """Build the world anew from the seed, set the episode's initial state and let it settle."""
        world = self._world
        self._expect(NO_LOOK)
        # LIBERO appends to this list with every reset, and every entry draws a random number, so that an episode
        # would depend on how many ran before. Two rounds are what the first episode of LeRobot meets.
        world.object_property_initializers = self._initializers * 2
        self._env.seed(episode.seed)
        # Not through ControlEnv.reset, which takes every error, and Ctrl-C, for a reason to try again.
        self._placed(world.reset)
        if self._states is not None:
            number = episode.index % len(self._states)
            self._set_state(self._states[number])
            self._layout = {"initial_state": number}
        for step in range(SETTLE_STEPS):
            self._step(_NOTHING, look if step == SETTLE_STEPS - 1 else NO_LOOK)
        for robot in world.robots:
            robot.controller.use_delta = self._settings.control_mode == "relative"

    def step(self, action: NDArray[Any], look: Look) -> Outcome:
        """Apply one action for a twentieth of a second; draw the cameras that the look names."""
        reward, success = self._step(action, look)
        return Outcome(float(reward), terminated=success, truncated=False, success=success)

    def observe(self) -> Observation:
        """Return what the look named, as it was sampled inside the step."""
        return {key: self._state() if key == STATE else self._drawn().picture(key) for key in self._look}

    def layout(self) -> dict[str, float]:
        """Return which of the task's initial states it began from, where it has any, and where the objects lie."""
        return {**self._layout, **self._places()}

    def _places(self) -> dict[str, float]:
        """Return where the objects lie that can be moved; fixtures, such as a stove, can not."""
        data, things = self._world.sim.data, sorted(self._world.objects_dict.items())
        places = {name: data.get_joint_qpos(thing.joints[-1]) for name, thing in things[:_MOST_OBJECTS]}
        return {
            f"{name}_{axis}": float(number)
            for name, place in places.items()
            if np.size(place) == _FREE
            for axis, number in zip("xy", place, strict=False)
        }

    def render(self) -> NDArray[np.uint8]:
        """Return the first camera's frame for videos."""
        return self._drawn().frame()

    def close(self) -> None:
        """Free the world and its GL context."""
        if self._env is not None:
            self._env.close()
            self._env = self._world = self._cameras = None

    def _step(self, action: Any, look: Look) -> tuple[float, bool]:
        self._expect(look)
        self._raw, reward, success, _ = self._env.step(action)
        if self._cameras is not None:
            self._cameras.sampled(self._raw)
        return reward, bool(success)

    def _expect(self, look: Look) -> None:
        self._look = look
        if self._cameras is not None:
            self._cameras.expect(look)

    def _drawn(self) -> Cameras:
        assert self._cameras is not None, "there is no GL in this process"
        return self._cameras

    def _placed(self, make: Callable[[], Any]) -> Any:
        """Call something that places objects at random, again if they did not fit."""
        for _ in range(_PLACEMENTS):
            try:
                with no_debugger():
                    return make()
            except Exception as error:
                # One of LIBERO's samplers does not import the name of the error that it raises.
                if "RandomizationError" not in f"{type(error).__name__}: {error}":
                    raise
        raise SimulatorError(f"LIBERO found no room for the objects of {self._task.name} in {_PLACEMENTS} tries")

    def _set_state(self, state: NDArray[np.float64]) -> None:
        model = self._world.sim.model
        wanted = 1 + model.nq + model.nv
        if len(state) != wanted:
            raise SimulatorError(
                f"an initial state of {self._task.name} has {len(state)} numbers, but the world that its assets "
                f"make has {wanted}: these assets are not those of this version of LIBERO"
            )
        self._env.set_init_state(state)

    def _state(self) -> NDArray[np.float32]:
        raw = self._raw
        return robot_state(raw["robot0_eef_pos"], raw["robot0_eef_quat"], raw["robot0_gripper_qpos"])


def _forward_as_if_drawing(world: Any) -> None:
    """Have a world without GL do at every reset what making a GL context does besides.

    That computes forces once more, and the solver starts from those of the last time: left out, a run with
    pictures and one without could differ in their last bits.
    """
    reset_internal = world._reset_internal

    def forward_first() -> None:
        world.sim.forward()
        reset_internal()

    world._reset_internal = forward_first


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
