"""The free camera of Gymnasium's MuJoCo environments, aimed anew in every episode.

They aim it once, at the middle of what is there when they draw their first frame. A frame would then depend on
the episode that ran before, and on which of its own steps were drawn. Here it is aimed at what is there after the
reset, as in an environment that is new and draws every step.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class FreeCamera:
    """Holds the camera of an environment that has one; of others it does nothing."""

    def __init__(self, env: Any) -> None:
        renderer = getattr(env.unwrapped, "mujoco_renderer", None)
        known = all(hasattr(renderer, name) for name in ("data", "_get_viewer", "_set_cam_config"))
        self._renderer = renderer if known and env.render_mode == "rgb_array" else None
        self._middle: Any = None

    def aim(self) -> None:
        """Remember where the middle is; call it after every reset."""
        if self._renderer is not None:
            self._middle = np.median(self._renderer.data.geom_xpos, axis=0)

    def hold(self) -> None:
        """Look there; call it before every frame."""
        if self._renderer is not None:
            viewer = self._renderer._get_viewer("rgb_array")
            viewer.cam.lookat[:] = self._middle
            self._renderer._set_cam_config()
