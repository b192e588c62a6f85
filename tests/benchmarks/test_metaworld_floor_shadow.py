"""The floor casts its shadow unless that falls on nothing, and a picture is the same either way."""

from __future__ import annotations

import os
import subprocess
import sys

import mujoco
import pytest

from harness import SUPPORT
from proctor.benchmarks.metaworld import floor_shadow
from proctor.benchmarks.metaworld.floor_shadow import FloorShadow
from proctor.benchmarks.metaworld.tasks import MT50
from proctor.benchmarks.rendering import Renderer

LIGHT = '<light directional="true" dir="-1 1 -1"/>'
FLOOR = '<geom type="plane" size="2 2 .1"/>'


def falls_on_nothing(*parts: str, height: float = 1.0, **values: str) -> bool:
    """Whether the shadow of a small world's floor is known to fall on nothing."""
    body = (
        f'<body pos="0 0 {height}"><freejoint/><geom type="box" size=".1 .1 .1" {values.get("cube", "")}/></body>'
    )
    world = "".join(parts) or LIGHT + FLOOR
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{world}{body}</worldbody></mujoco>")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return FloorShadow(model, mujoco.MjvOption()).falls_on_nothing(data)


def test_what_is_above_the_floor_is_not_in_its_shadow() -> None:
    assert falls_on_nothing()
    assert falls_on_nothing(height=0.1)  # it stands on the floor
    assert not falls_on_nothing(height=0.099)
    assert not falls_on_nothing(height=-1)


def test_the_corner_of_a_turned_cube_counts() -> None:
    assert falls_on_nothing(height=0.11)
    assert not falls_on_nothing(height=0.11, cube='quat=".924 .383 0 0"')


def test_what_is_not_drawn_does_not_count_and_sites_that_are_drawn_do() -> None:
    assert falls_on_nothing(height=-1, cube='group="4"')
    site = '<site pos="0 0 -.5" size=".01" group="{}"/>'
    assert not falls_on_nothing(LIGHT, FLOOR, site.format(0))
    assert falls_on_nothing(LIGHT, FLOOR, site.format(4))


@pytest.mark.parametrize(
    "parts",
    [
        ('<light directional="true" dir="-1 1 1"/>', FLOOR),
        ('<light directional="true" dir="1 0 0"/>', FLOOR),
        ('<light pos="0 0 2" dir="0 0 -1"/>', FLOOR),
        ('<light directional="true" dir="0 0 -1" mode="trackcom"/>', FLOOR),
        (f'<body pos="0 0 1"><joint/><geom size=".1"/>{LIGHT}</body>',),
        (LIGHT, '<geom type="plane" size="2 2 .1" euler="5 0 0"/>'),
        (LIGHT, '<geom type="plane" size="2 2 .1" group="4"/>'),
        (LIGHT, FLOOR, FLOOR),
        (LIGHT, '<geom type="box" size="2 2 .1"/>'),
    ],
    ids=[
        "from below",
        "level",
        "lamp",
        "moving light",
        "light on a body",
        "tilted",
        "hidden",
        "two floors",
        "no plane",
    ],
)
def test_a_light_or_a_floor_of_another_kind_is_not_known(parts: tuple[str, ...]) -> None:
    assert not falls_on_nothing(*(parts if len(parts) > 1 else (FLOOR, *parts)))


def test_lights_that_cast_no_shadow_may_shine_from_anywhere() -> None:
    assert falls_on_nothing(LIGHT, '<light pos="0 0 2" dir="0 0 1" castshadow="false"/>', FLOOR)


def test_with_other_versions_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floor_shadow, "why_stock", lambda: "mujoco is 9.9, not 3.3.0")
    assert not falls_on_nothing()


def drawn(renderer: Renderer, *arguments: str) -> list[str]:
    command = [sys.executable, str(SUPPORT / "floor_shadows.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **renderer.env})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.gl
def test_pictures_with_and_without_it_are_equal_as_long_as_all_is_above_the_floor(renderer: Renderer) -> None:
    """In states of the expert's and of random actions."""
    found = drawn(renderer, "compare", "20", "soccer-v3", "peg-insert-side-v3")
    assert [line for line in found if "differ" in line] == []
    assert sum("left out" in line for line in found) >= 10


@pytest.mark.slow
@pytest.mark.gl
@pytest.mark.timeout(3600)
def test_pictures_of_all_fifty_tasks_with_and_without_it_are_equal(renderer: Renderer) -> None:
    found = drawn(renderer, "compare", "60", *MT50)
    assert [line for line in found if "differ" in line] == []
    assert {line.split()[0] for line in found if "left out" in line} == set(MT50)


@pytest.mark.gl
def test_where_a_driver_draws_otherwise_the_floor_keeps_its_shadow(renderer: Renderer) -> None:
    """The first picture, too, is the whole one."""
    assert drawn(renderer, "other-driver", "reach-v3") == ["whole", "whole", "whole"]
