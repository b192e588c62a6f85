"""A miniature tree of LIBERO's assets: boxes in place of scanned meshes, enough for whole tasks to run.

All of libero_spatial runs on it, and libero_goal's tasks. Names, joints and sites are those that hf-libero looks
up; masses and shapes are ours. Joints come in the order of LIBERO's initial states.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

PICK_AND_PLACE = ("libero_spatial", 0)
ARTICULATED = ("libero_goal", 0)
"""Open the middle drawer of the cabinet."""

IN_A_DRAWER = ("libero_spatial", 4)
"""Its beginning has an open drawer, for which LIBERO draws random numbers of its own."""

Numbers = Sequence[float]


def make_assets(root: Path) -> Path:
    """Write the tree and return its root."""
    pictures = {"light-gray-floor-tile": (170, 170, 170), "light-gray-plaster": (210, 210, 200)}
    for relative, text in _models().items():
        path = root / f"{relative}.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "textures").mkdir(exist_ok=True)
    for name, colour in pictures.items():
        (root / "textures" / f"{name}.png").write_bytes(_png(colour))
    return root


def _models() -> dict[str, str]:
    scanned, hope, turbo = "stable_scanned_objects", "stable_hope_objects", "turbosquid_objects"
    ramekin = "glazed_rim_porcelain_ramekin"
    objects = {
        (scanned, "akita_black_bowl"): _object(_dish("0.1 0.1 0.1 1", 0.045, 0.04), -0.06, 0.04, 0.04),
        (scanned, "plate"): _object(_box((0, 0, 0.006), (0.07, 0.07, 0.006), "0.9 0.9 0.9 1"), -0.06, 0.012, 0.06),
        (scanned, ramekin): _object(_dish("0.9 0.9 0.8 1", 0.035, 0.03), -0.06, 0.04, 0.04),
        (hope, "cookies"): _object(_box((0, 0, 0.02), (0.05, 0.03, 0.02), "0.8 0.1 0.1 1"), -0.06, 0.04, 0.05),
        (hope, "cream_cheese"): _object(
            _box((0, 0, 0.01), (0.04, 0.025, 0.01), "0.2 0.3 0.8 1"), -0.02, 0.02, 0.04
        ),
        (turbo, "wine_bottle"): _object(
            _box((0, 0, 0.06), (0.025, 0.025, 0.06), "0.1 0.4 0.2 1"), -0.06, 0.12, 0.03
        ),
        (turbo, "wine_rack"): _object(_rack(), -0.04, 0.1, 0.05),
    }
    return {
        "scenes/libero_tabletop_base_style": _scene(),
        "articulated_objects/wooden_cabinet": _object(_cabinet(), -0.04, 6 * _DRAWER + 0.011, 0.05),
        "articulated_objects/flat_stove": _object(_stove(), -0.04, 0.03, 0.12),
        **{f"{folder}/{name}/{name}": text for (folder, name), text in objects.items()},
    }


def _object(parts: str, bottom: float, top: float, radius: float) -> str:
    """Return an object with the three sites by which robosuite knows its size.

    Fixtures are put 4 cm into the table and up again by `bottom`. A radius above 9 cm leaves no room in a drawer.
    """

    def site(name: str, position: Numbers) -> str:
        return f'<site name="{name}" pos="{_text(position)}" size="0.005" rgba="0 0 0 0"/>'

    return (
        f'<mujoco model="object"><asset/><worldbody><body><body name="object">{parts}</body>'
        f"{site('bottom_site', (0, 0, bottom))}{site('top_site', (0, 0, top))}"
        f"{site('horizontal_radius_site', (radius, radius, 0))}</body></worldbody></mujoco>"
    )


def _box(position: Numbers, half: Numbers, colour: str) -> str:
    """Return a box twice, as LIBERO has everything: group 0 collides, group 1 is seen."""
    place = f'type="box" pos="{_text(position)}" size="{_text(half)}" rgba="{colour}"'
    touch = 'density="200" friction="0.95 0.3 0.1" solref="0.01 1" condim="4"'
    return f'<geom {place} group="0" {touch}/><geom {place} group="1" contype="0" conaffinity="0" mass="1e-8"/>'


def _dish(colour: str, radius: float, height: float, thick: float = 0.004) -> str:
    walls = _box((0, 0, thick), (radius, radius, thick), colour)
    for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        half = (thick, radius, height / 2) if x else (radius, thick, height / 2)
        walls += _box((x * (radius - thick), y * (radius - thick), height / 2), half, colour)
    return walls


def _region(name: str, position: Numbers, half: Numbers) -> str:
    return (
        f'<site type="box" name="{name}" pos="{_text(position)}" quat="1 0 0 0" size="{_text(half)}" '
        'rgba="0 0 1 0" group="0"/>'
    )


_DRAWER = 0.036
"""Half of the height that a drawer takes up."""


def _cabinet() -> str:
    colour, width, depth = "0.6 0.4 0.2 1", 0.11, 0.10
    drawers = ""
    for place, level in enumerate(("top", "middle", "bottom")):
        inside = _box((0, 0, -0.026), (width - 0.012, depth - 0.012, 0.003), colour)
        for side in (-1, 1):
            inside += _box((0, side * (depth - 0.015), 0), (width - 0.012, 0.003, 0.025), colour)
            inside += _box((side * (width - 0.015), 0, 0), (0.003, depth - 0.02, 0.025), colour)
        drawers += (
            f'<body name="cabinet_{level}" pos="0 0 {(2 * (2 - place) + 1) * _DRAWER:g}">'
            f'<joint name="{level}_level" type="slide" axis="0 1 0" range="-0.16 0.01" limited="true" '
            f'damping="5" frictionloss="1"/>{inside}'
            f"{_region(f'{level}_region', (0, 0, 0), (width - 0.03, depth - 0.03, 0.02))}</body>"
        )
    top = 6 * _DRAWER
    shell = "".join(
        _box(position, half, colour)
        for position, half in (
            ((width, 0, top / 2), (0.005, depth, top / 2)),
            ((-width, 0, top / 2), (0.005, depth, top / 2)),
            ((0, depth + 0.012, top / 2), (width, 0.005, top / 2)),
            ((0, 0, top + 0.006), (width, depth, 0.005)),
        )
    )
    # LIBERO stops looking for sites at the first body without any: the one that stands still comes last.
    lid = _region("top_side", (0, 0, top + 0.008), (width, depth, 0.003))
    return f'{drawers}<body name="cabinet_base">{shell}{lid}</body>'


def _stove() -> str:
    base = _box((0.09, 0, 0.01), (0.13, 0.08, 0.01), "0.3 0.3 0.3 1")
    flame = '<site type="cylinder" name="burner" pos="0.15 0 0.021" size="0.05 0.001" rgba="1 0 0 0"/>'
    plate = _box((0, 0, 0.002), (0.06, 0.06, 0.002), "0.1 0.1 0.1 1")
    cook = _region("cook_region", (0, 0, 0.003), (0.06, 0.06, 0.003))
    knob = (
        '<body name="button" pos="0 0 0.03"><joint name="button" type="hinge" axis="0 0 1" range="-0.005 2.1" '
        'limited="true" damping="0.1" frictionloss="0.01"/>'
        f"{_box((0, 0, 0), (0.012, 0.004, 0.008), '0.8 0.8 0.8 1')}"
        f"{_region('button_site', (0, 0, 0), (0.01, 0.01, 0.01))}</body>"
    )
    return f'{base}{flame}<body name="burner_plate" pos="0.15 0 0.02">{plate}{cook}</body>{knob}'


def _rack() -> str:
    colour = "0.5 0.3 0.1 1"
    legs = "".join(
        _box((0.04 * x, 0.06 * y, 0.03), (0.006, 0.006, 0.03), colour) for x in (-1, 1) for y in (-1, 1)
    )
    shelf = _box((0, 0, 0.065), (0.05, 0.07, 0.004), colour)
    rest = f'<body name="rest" pos="0 0 0.07">{_region("top_region", (0, 0, 0.01), (0.04, 0.06, 0.02))}</body>'
    return legs + shelf + rest


def _scene() -> str:
    walls = "".join(
        f'<geom name="wall_{name}_visual" type="box" pos="{position}" quat="{turn}" size="{size}" contype="0" '
        'conaffinity="0" group="1" material="walls_mat"/>'
        for name, position, turn, size in (
            ("left", "1.25 3 1.5", "0.7071 0.7071 0 0", "1.75 1.5 0.01"),
            ("right", "1.25 -3 1.5", "0.7071 -0.7071 0 0", "1.75 1.5 0.01"),
            ("rear", "-2 0 1.5", "0.5 0.5 0.5 0.5", "3 1.5 0.01"),
            ("front", "3 0 1.5", "0.5 0.5 -0.5 -0.5", "3 1.5 0.01"),
        )
    )
    unseen = 'contype="0" conaffinity="0" group="1"'
    legs = "".join(
        f'<geom name="table_leg{n}_visual" type="cylinder" size="0.05 0.1" {unseen} rgba=".5 .5 .5 1"/>'
        for n in range(1, 5)
    )
    cameras = "".join(
        f'<camera mode="fixed" name="{name}" pos="{position}" quat="{turn}"/>'
        for name, position, turn in (
            ("frontview", "1.6 0 1.45", "0.56 0.43 0.43 0.56"),
            ("birdview", "-0.2 0 3.0", "0.7071 0 0 0.7071"),
            ("agentview", "0.5 0 1.35", "0.653 0.271 0.271 0.653"),
            ("sideview", "-0.0565 1.2761 1.488", "0.0099 0.0069 0.5912 0.8064"),
        )
    )
    return f"""<mujoco model="tabletop"><asset>
<texture builtin="gradient" height="32" width="32" rgb1=".9 .9 1" rgb2=".2 .3 .4" type="skybox"/>
<texture name="texplane" type="2d" file="../textures/light-gray-floor-tile.png"/>
<material name="floorplane" texture="texplane" texrepeat="2 2" texuniform="true"/>
<texture name="tex-wall" type="2d" file="../textures/light-gray-plaster.png"/>
<material name="walls_mat" texture="tex-wall" texrepeat="3 3" texuniform="true"/>
</asset><worldbody>
<geom name="floor" type="plane" condim="3" group="1" pos="0 0 0" size="3 3 .125" material="floorplane"/>{walls}
<body name="table" pos="0 0 0.4">
<geom name="table_collision" type="box" size="0.4 0.4 0.4" group="0" friction="1 0.005 0.0001"/>
<geom name="table_visual" type="box" size="0.4 0.4 0.4" {unseen} rgba=".8 .7 .6 1"/>
<site name="table_top" pos="0 0 0.4" size="0.001 0.001 0.001" rgba="0 0 0 0"/>{legs}</body>
<light pos="1 1 1.5" dir="-0.2 -0.2 -1" specular="0.3 0.3 0.3" directional="true" castshadow="false"/>
{cameras}</worldbody></mujoco>"""


def _text(values: Numbers) -> str:
    return " ".join(f"{value:g}" for value in values)


def _png(colour: tuple[int, int, int], side: int = 2) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes(colour) * side) * side
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        chunk(*part) for part in ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    )
