"""A shadow map that is drawn anew in part holds what one that is drawn whole does, in every bit."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness import SUPPORT
from proctor.benchmarks.metaworld import shadow_map
from proctor.benchmarks.metaworld.shadow_map import Part, ShadowMap, _part
from proctor.benchmarks.metaworld.tasks import MT50
from proctor.benchmarks.rendering import Renderer

SIZE = 4096
EVERYWHERE = mujoco.mjtCatBit.mjCAT_ALL

Found = dict[str, dict[str, str]]


def drawn(renderer: Renderer, camera: str, limit: str, *tasks: str) -> Found:
    """Return what `metaworld_shadows.py` says of each task."""
    command = [sys.executable, str(SUPPORT / "metaworld_shadows.py"), camera, limit, *tasks]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **renderer.env})
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return {line.split()[0]: dict(re.findall(r"(\w+)=(\S*)", line)) for line in done.stdout.splitlines()}


def assert_equal(found: Found) -> None:
    for task, said in found.items():
        assert said["differ"] == "0", (task, said)
        assert int(said["parts"]) == int(said["of"]) - 1, (task, said)
        assert float(said["share"]) < 0.3, (task, said)  # it was worth it
        assert said["by"], (task, said)


@pytest.mark.gl
@pytest.mark.parametrize(
    ("camera", "tasks"), [("corner2", ("pick-place-v3", "hammer-v3")), ("behindGripper", ("drawer-open-v3",))]
)
def test_maps_and_pictures_are_those_of_the_whole(renderer: Renderer, camera: str, tasks: tuple[str, ...]) -> None:
    assert_equal(drawn(renderer, camera, "own", *tasks))


@pytest.mark.slow
@pytest.mark.gl
@pytest.mark.timeout(1800)
def test_maps_and_pictures_of_all_fifty_tasks_are_those_of_the_whole(renderer: Renderer) -> None:
    found = drawn(renderer, "corner2", "own", *random.Random(0).sample(MT50, 50))
    assert len(found) == 50
    assert_equal(found)


@pytest.mark.gl
def test_a_gl_that_draws_a_part_differently_is_found_out(renderer: Renderer) -> None:
    (said,) = drawn(renderer, "corner2", "wrong", "pick-place-v3").values()
    assert said["differ"] == "0"
    assert said["by"] == ""


@pytest.mark.gl
def test_a_part_that_is_not_drawn_would_be_seen(renderer: Renderer) -> None:
    (said,) = drawn(renderer, "corner2", "believed", "pick-place-v3").values()
    assert int(said["differ"]) > 0


numbers = st.floats(-2.0, 2.0)
points = st.tuples(numbers, numbers, numbers)


@given(points.filter(lambda one: np.linalg.norm(one) > 0.01), points, points, st.floats(0, 1), points)
@example((0.0, 0.0, -1.0), (0.0, 0.0, 3.0), (0.1, 0.2, 0.0), 0.3, (1.0, 0.0, 0.0))
@example((2.0, 0.0, 0.125), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.0, (0.0, 0.0, 0.0))
@example((1.0, 0.0, 0.1), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.0, (0.0, 0.0, 0.0))
@example((1.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.1, 0.2, 0.0), 0.3, (0.0, 1.0, 1.0))
def test_whatever_lies_within_a_radius_is_seen_within_the_part(
    direction: Any, origin: Any, centre: Any, radius: float, towards: Any
) -> None:
    """By the matrices that MuJoCo hands to GL (mjr_orthoVec, mjr_lookAt, glOrtho)."""
    clip = 2.25
    length = float(np.linalg.norm(towards))
    point = np.array(centre) + (np.array(towards) / length * radius if length > 1e-6 else 0)
    part = _part(np.array([centre]), np.array([radius]), np.array(origin), np.array(direction), clip, SIZE)
    if part is None:  # rounding decides how MuJoCo turns the map
        assert abs(direction[1] ** 2 + direction[2] ** 2 - 0.01) < 1e-4
        return
    forward = np.array(direction) / np.linalg.norm(direction)
    up = np.cross(direction, [-1, 0, 0])
    if up @ up <= 0.01:
        up = np.cross(direction, [0, 1, 0])
    side = np.cross(forward, up)
    side /= np.linalg.norm(side)
    upward = np.cross(side, forward)
    look_at = np.array([[*side, -side @ origin], [*upward, -upward @ origin]])
    seen = look_at @ [*point, 1] / clip  # -1 to 1: the viewport
    x, y = 1 + (seen + 1) / 2 * (SIZE - 2)
    if 0 <= x < SIZE and 0 <= y < SIZE:
        assert part.left <= x < part.right
        assert part.bottom <= y < part.top


SCENE = """
<mujoco><visual><quality shadowsize="4096"/></visual><worldbody>
  <light directional="true" castshadow="true" pos="1 -1 1" dir="-1 1 -1"/>
  {more}
  <geom type="plane" size="4 4 .1"/>
  <body pos="0 0 .5"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
  <body pos=".5 .5 .5"><freejoint/><geom type="sphere" size=".1"/></body>
</worldbody></mujoco>
"""


class Scene:
    """A scene and its shadow map, without a GL."""

    def __init__(self, more: str = "") -> None:
        self.model: Any = mujoco.MjModel.from_xml_string(SCENE.format(more=more))
        self.data: Any = mujoco.MjData(self.model)
        self.scene: Any = mujoco.MjvScene(self.model, 100)
        self.camera = mujoco.MjvCamera()
        context = SimpleNamespace(shadowClip=2.0, shadowSize=SIZE)
        self.map = ShadowMap(self.model, self.scene, context)
        self.seen = self.now()

    def now(self) -> Any:
        mujoco.mj_forward(self.model, self.data)
        options, perturbations = mujoco.MjvOption(), mujoco.MjvPerturb()
        mujoco.mjv_updateScene(self.model, self.data, options, perturbations, self.camera, EVERYWHERE, self.scene)
        return self.map._casters()

    def casters(self) -> Any:
        """Return what casts shadows in the scene as it is."""
        return self.map._casters()

    def part(self) -> Part | None:
        """Return what would be drawn anew."""
        return self.map._moved(self.seen, self.now())


def texels(part: Part | None) -> int:
    assert part is not None
    return (part.right - part.left) * (part.top - part.bottom)


def test_the_same_state_is_drawn_whole() -> None:
    """Whether parts are exact could not be tried with one in which nothing is."""
    assert Scene().part() is None


def test_the_part_reaches_from_where_something_was_to_where_it_is() -> None:
    scene = Scene()
    scene.data.qpos[0] += 0.001
    little = scene.part()
    scene.data.qpos[0] += 1.0
    much = scene.part()
    assert 1 < texels(little) < texels(much) < SIZE * SIZE / 2
    assert little is not None
    assert much is not None
    assert much.left <= little.left < little.right <= much.right


@pytest.mark.parametrize("name", ["pos", "size", "mat"])
def test_any_change_of_a_geom_is_noticed(name: str) -> None:
    scene = Scene()
    before = scene.seen
    getattr(scene.scene.geoms[1], name).flat[0] += 1e-6
    assert texels(scene.map._moved(before, scene.casters())) > 1


def test_what_became_invisible_or_another_shape_is_drawn_whole() -> None:
    scene = Scene()
    scene.model.geom_rgba[2, 3] = 0  # MuJoCo leaves it out
    assert scene.part() is None
    scene = Scene()
    scene.model.geom_type[1] = mujoco.mjtGeom.mjGEOM_CYLINDER
    assert scene.part() is None


def test_a_plane_that_moves_may_cast_a_shadow_anywhere() -> None:
    scene = Scene()
    before = scene.seen
    scene.scene.geoms[0].pos[2] = -0.1
    assert scene.map._moved(before, scene.casters()) is None


def test_another_light_is_drawn_whole() -> None:
    scene = Scene()
    scene.model.light_dir[0] = [0, 0, -1]
    assert scene.part() is None


def test_another_reach_of_the_camera_is_drawn_whole() -> None:
    scene = Scene()
    scene.model.vis.map.znear *= 2
    assert scene.part() is None


def test_another_way_of_drawing_is_drawn_whole() -> None:
    scene = Scene()
    before = scene.seen
    scene.scene.flags[mujoco.mjtRndFlag.mjRND_WIREFRAME] = 1
    assert scene.map._moved(before, scene.casters()) is None


def test_a_position_that_is_no_number_is_drawn_whole() -> None:
    scene = Scene()
    before = scene.seen
    scene.scene.geoms[1].pos[0] = np.nan
    assert scene.map._moved(before, scene.casters()) is None


@pytest.mark.parametrize(
    "more",
    [
        '<light castshadow="true" pos="0 0 3" dir="0 0 -1"/>',
        '<light directional="true" castshadow="true" pos="0 0 3" dir="0 0 -1"/>',
    ],
    ids=["a spot", "one more"],
)
def test_scenes_of_several_shadows_are_drawn_whole(more: str) -> None:
    assert Scene(more).seen is None


def test_a_spot_light_is_drawn_whole() -> None:
    scene = Scene()
    scene.model = mujoco.MjModel.from_xml_string(SCENE.format(more="").replace('directional="true" ', ""))
    scene.data = mujoco.MjData(scene.model)
    assert scene.now() is None


@pytest.mark.parametrize(
    ("name", "value"), [("version", "3.9.0"), ("backend", "glfw"), ("backend", ""), ("map", 0)]
)
def test_what_nobody_has_looked_into_is_drawn_whole(
    monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    """A MuJoCo of another version, another kind of GL, a context without shadows."""
    monkeypatch.setenv("MUJOCO_GL", value if name == "backend" else "egl")
    if name == "version":
        monkeypatch.setattr(mujoco, "__version__", value)
    for kind in (shadow_map.WindowRectangles, shadow_map.SmallerFramebuffer):
        monkeypatch.setattr(kind, "is_here", staticmethod(lambda: pytest.fail("GL was asked")))
    assert shadow_map._limit_for(SimpleNamespace(shadowFBO=value if name == "map" else 3)) is None
