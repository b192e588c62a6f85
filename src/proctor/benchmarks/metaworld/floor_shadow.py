"""The floor's own shadow: MuJoCo draws it into every shadow map, which it fills, and it falls on nothing.

The light shines from far above, so whatever is above the floor is nearer to it than the floor. Nor does the floor
shade itself: MuJoCo moves what casts shadows away from the light by one and a half times what its depth changes
from one texel to the next (`glPolygonOffset` in render_gl3.c), and looks up the nearest texel, which is at most
half a texel off in each direction. So no pixel changes where the floor casts none, and pictures take less time.

It is left out only where all of that is known: with the versions of Meta-World and MuJoCo for which tests compare
the pictures of all tasks, where all that is drawn is above the floor, and when a picture by the same camera has
been drawn both ways in this process and came out the same, since a GL driver has a part in it too.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from proctor.benchmarks.metaworld.environments import why_stock

_FLOOR = 0
"""Meta-World's first geom. What it is like is looked at."""

_ROUNDING = 1e-9
"""Metres: by so much may what stands on the floor be computed to be in it."""

_DIRECTIONAL = 1
"""The kind of a light, in `light_directional` of older models and in `light_type` of newer ones."""


class FloorShadow:
    """Knows in which states of a model the floor's shadow falls on nothing, and leaves it out of a scene.

    Args:
        model: the model whose floor it is.
        options: which of its geoms and sites are drawn.
    """

    def __init__(self, model: Any, options: Any) -> None:
        self._known = not why_stock() and _is_lit_from_above(model) and _is_level_floor(model, options)
        geoms = np.flatnonzero(options.geomgroup[model.geom_group])
        self._geoms = geoms[geoms != _FLOOR]
        self._centre, self._half = np.split(model.geom_aabb[self._geoms], 2, axis=1)
        self._sites = np.flatnonzero(options.sitegroup[model.site_group])
        self._radius = model.site_size[self._sites].max(axis=1)

    def falls_on_nothing(self, data: Any) -> bool:
        """Whether all that is drawn in this state is above the floor."""
        if not self._known:
            return False
        upwards = data.geom_xmat.reshape(-1, 3, 3)[self._geoms, 2]  # of each geom's own axes
        lowest = data.geom_xpos[self._geoms, 2] + (upwards * self._centre - np.abs(upwards) * self._half).sum(
            axis=1
        )
        sites = data.site_xpos[self._sites, 2] - self._radius
        height = data.geom_xpos[_FLOOR, 2] - _ROUNDING
        return bool((lowest >= height).all() and (sites >= height).all())

    def leave_out(self, scene: Any) -> None:
        """Leave it out of the next pictures of a scene that shows such a state."""
        floor = scene.geoms[0]
        if (floor.objtype, floor.objid) == (mujoco.mjtObj.mjOBJ_GEOM, _FLOOR):
            # Decoration casts no shadow, and is drawn like anything else: `renderGeom` in MuJoCo's render_gl3.c.
            floor.category = mujoco.mjtCatBit.mjCAT_DECOR


def _is_level_floor(model: Any, options: Any) -> bool:
    planes = model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE
    return bool(
        planes[_FLOOR]
        and planes.sum() == 1
        and model.geom_bodyid[_FLOOR] == 0
        and (model.geom_quat[_FLOOR] == (1, 0, 0, 0)).all()
        and options.geomgroup[model.geom_group[_FLOOR]]
        and model.nskin == model.nflex == model.ntendon == 0  # which no geom tells the place of
    )


def _is_lit_from_above(model: Any) -> bool:
    """Whether every light that casts shadows is far away, above the floor, and stays there."""
    kinds = model.light_type if hasattr(model, "light_type") else model.light_directional
    casts = model.light_castshadow.astype(bool)
    return bool(
        (kinds[casts] == _DIRECTIONAL).all()
        and (model.light_bodyid[casts] == 0).all()
        and (model.light_mode[casts] == mujoco.mjtCamLight.mjCAMLIGHT_FIXED).all()
        and (model.light_dir[casts, 2] < 0).all()
    )
