"""Gymnasium environments that draw only what is looked at. Imported in workers.

PushT and ALOHA draw at the end of every step, whether anybody looks or not. Drawing reads the state and changes
nothing, so it can be left out; where it is done, it is their own code that does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.rendering import is_picture
from proctor.errors import SimulatorError
from proctor.types import IMAGE, Look

_FREE = 0
"""MuJoCo's type of a joint that may be anywhere."""


class LazyPushT(gymnasium.Wrapper):  # type: ignore[misc]
    """Takes the place of PushT's `_render` where it makes the policy's picture."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        inner = env.unwrapped
        blank = np.zeros((inner.observation_height, inner.observation_width, 3), np.uint8)
        draw, self._looking = inner._render, True

        def render(visualize: bool = False) -> Any:
            return draw(visualize) if visualize or self._looking else blank

        inner._render = render

    def set_look(self, look: Look) -> None:
        """Learn whether the next picture will be looked at."""
        self._looking = IMAGE in look

    def reset(self, **options: Any) -> Any:
        """Forget the last action: videos mark it, and it would be another episode's."""
        self.unwrapped._last_action = None
        return super().reset(**options)

    def layout(self) -> dict[str, float]:
        """Return where agent and block are, and how the block is turned; the goal is always the same."""
        inner = self.unwrapped
        places = (("agent", inner.agent.position), ("block", inner.block.position))
        found = {
            f"{what}_{axis}": float(at) for what, place in places for axis, at in zip("xy", place, strict=True)
        }
        return {**found, "block_angle": float(inner.block.angle % (2 * np.pi))}


class LazyAloha(gymnasium.Wrapper):  # type: ignore[misc]
    """Takes the place of the task's `get_observation`, which draws three cameras to give one of them.

    It draws at the size that the settings name; the task's own is always 480 by 640.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        inner = env.unwrapped
        self._size = (inner.observation_height, inner.observation_width)
        self._film = (inner.visualization_height, inner.visualization_width)
        self._blank = np.zeros((*self._size, 3), np.uint8)
        self._seen: NDArray[np.uint8] | None = None
        self._looking = True
        self._task = inner._env.task
        self._task.get_observation = self._observe

    def set_look(self, look: Look) -> None:
        """Learn whether the camera will be looked at after the next step."""
        self._looking = any(key.startswith(IMAGE) for key in look)

    def _observe(self, physics: Any) -> Mapping[str, Any]:
        height, width = self._size
        self._seen = physics.render(height=height, width=width, camera_id="top") if self._looking else None
        image = self._blank if self._seen is None else self._seen
        return {"qpos": self._task.get_qpos(physics), "images": {"top": image}}

    def render(self) -> Any:
        """Return the frame for videos; what the policy looked at is not drawn again."""
        return self._seen if self._seen is not None and self._film == self._size else super().render()

    def layout(self) -> dict[str, float]:
        """Return where on the table the things lie that are not bolted to it: cube, or peg and socket."""
        physics = self.unwrapped._env.physics
        joints = [physics.model.joint(number) for number in range(physics.model.njnt)]
        return {
            f"{joint.name.split('_')[-2]}_{axis}": float(physics.data.qpos[int(joint.qposadr[0]) + number])
            for joint in joints
            if int(joint.type[0]) == _FREE
            for number, axis in enumerate("xy")
        }

    def close(self) -> None:
        """Free physics and GL, which the environment itself never does."""
        self.unwrapped._env.close()
        super().close()


class GymCameras:
    """An environment's own `render()`, once a step at most, and what it is told beforehand of a look.

    Gymnasium's MuJoCo environments aim their free camera once, at the middle of what is there when they draw their
    first frame. A frame would then depend on the episode that ran before, and on which of its own steps were
    drawn. Here it is aimed at what is there after the reset, as in an environment that is new and draws every
    step.

    Args:
        env: the environment.
        render_as: observation key under which the policy sees frames; empty: it does not.
        task: its name, for messages.
    """

    def __init__(self, env: Any, render_as: str, task: str) -> None:
        self._env, self._render_as, self._task = env, render_as, task
        self._set_look = env.get_wrapper_attr("set_look") if env.has_wrapper_attr("set_look") else None
        renderer = getattr(env.unwrapped, "mujoco_renderer", None)
        known = all(hasattr(renderer, name) for name in ("data", "_get_viewer", "_set_cam_config"))
        self._renderer = renderer if known and env.render_mode == "rgb_array" else None
        self._middle: Any = None
        self._frame: NDArray[np.uint8] | None = None

    def expect(self, look: Look) -> None:
        """Tell an environment that draws on a look only what will be looked at."""
        self._frame = None
        if self._set_look is not None:
            self._set_look(look - {self._render_as})

    def aim(self) -> None:
        """Remember where the middle is; called after every reset."""
        if self._renderer is not None:
            self._middle = np.median(self._renderer.data.geom_xpos, axis=0)

    def picture(self, key: str) -> NDArray[np.uint8]:
        """Return the frame, which the policy sees under a key of its own."""
        return self.frame()

    def frame(self) -> NDArray[np.uint8]:
        """Return a frame; one step is drawn once."""
        if self._frame is None:
            if self._renderer is not None:
                viewer = self._renderer._get_viewer("rgb_array")
                viewer.cam.lookat[:] = self._middle
                self._renderer._set_cam_config()
            frame = self._env.render()
            if not is_picture(frame):
                raise SimulatorError(f"render() of {self._task} gave no picture (uint8, height by width by 3)")
            self._frame = frame.copy()
        return self._frame
