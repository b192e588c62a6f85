"""Draws with Gymnasium's viewer and with ours in turn, in one process: does each draw as it does alone?"""

from __future__ import annotations

import sys

import mujoco
import numpy as np
from gymnasium.envs.mujoco.mujoco_rendering import OffScreenViewer
from numpy.typing import NDArray

from proctor.benchmarks.metaworld.drawing import Drawing

WORLD = """<mujoco><visual><global offwidth="64" offheight="64"/></visual><worldbody><light pos="0 0 3"/>
<camera name="front" pos="0 -2 1" xyaxes="1 0 0 0 .5 1"/><geom type="{}" size=".3 .3 .3" rgba="{} 1"/></worldbody>
</mujoco>"""


def world(shape: str, colour: str) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """Return a world of one thing."""
    model = mujoco.MjModel.from_xml_string(WORLD.format(shape, colour))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def ours(drawing: Drawing) -> NDArray[np.uint8]:
    """Return what we draw."""
    return drawing.rows(64, 64).copy()


def theirs(viewer: OffScreenViewer) -> NDArray[np.uint8]:
    """Return what Gymnasium draws."""
    picture = viewer.render("rgb_array", camera_id=0)
    assert isinstance(picture, np.ndarray)
    return picture.copy()


red, green = world("box", "1 0 0"), world("sphere", "0 1 0")
drawing = Drawing(*red, "front")
alone = ours(drawing)
drawing.close()
viewer = OffScreenViewer(*green, 64, 64)
before = theirs(viewer)
drawing = Drawing(*red, "front")
assert (alone != before).any()
for _ in range(3):
    assert (ours(drawing) == alone).all(), "ours is another"
    assert (theirs(viewer) == before).all(), "Gymnasium's is another"
drawing.close()
assert (theirs(viewer) == before).all(), "Gymnasium's is another when ours has gone"
viewer.close()
sys.stdout.write("each as alone\n")
