"""Play Meta-World's tasks, and compare every picture and its shadow map with one that is drawn whole.

    python metaworld_shadows.py CAMERA LIMIT TASK...

Prints a line per task: its name, how many pictures were drawn in part, the share of the map that was drawn anew,
and how many differ. LIMIT: `own`, what this GL offers; `wrong`: one that leaves some of the part alone;
`believed`: the same, but that nobody looks whether it is right.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from proctor.benchmarks.metaworld import drawing as drawing_module
from proctor.benchmarks.metaworld import shadow_map
from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.benchmarks.metaworld.drawing import Drawing
from proctor.benchmarks.metaworld.shadow_map import Part, ShadowMap, SmallerFramebuffer, depths
from proctor.types import NO_LOOK, Episode

EPISODES, PICTURES, STEPS = 2, 3, 12
"""Steps between two pictures; a picture at once after a reset, too."""

SIDE = 96


class Wrong(SmallerFramebuffer):
    @contextmanager
    def to(self, part: Part) -> Iterator[None]:
        middle = (part.left + part.right) // 2
        with super().to(part._replace(right=middle, top=(part.bottom + part.top) // 2)):
            yield


PARTS: list[Part] = []
"""Of the present task."""


class Observed(ShadowMap):
    def _moved(self, before: Any, now: Any) -> Part | None:
        part = super()._moved(before, now)
        PARTS.extend([] if part is None else [part])
        return part


def differs(drawing: Drawing) -> bool:
    """Draw, and draw the same again from nothing."""
    shadows: Any = drawing._shadows
    context = drawing._context
    found = []
    for _ in range(2):
        picture = drawing.rows(SIDE, SIDE).tobytes()
        drawing._gl.make_current()
        found.append((picture, depths(context, Part(0, 0, context.shadowSize, context.shadowSize))))
        before, shadows._drawn = shadows._drawn, None
    shadows._drawn = before
    return found[0] != found[1]


def main(camera: str, limit: str, *tasks: str) -> None:
    setattr(drawing_module, "ShadowMap", Observed)  # noqa: B010
    if limit != "own":
        shadow_map.SmallerFramebuffer = shadow_map.WindowRectangles = Wrong  # type: ignore[assignment, misc]
    if limit == "believed":
        shadow_map._is_exact[Wrong] = True
    actions = np.random.default_rng(0)
    for name in tasks:
        (task,) = (benchmark := MetaWorld(MetaWorldSettings(type="metaworld", task=name))).tasks()
        simulator: Any = benchmark.make_simulator(task)
        differ, drawing = [], None
        PARTS.clear()
        for index in range(EPISODES):
            simulator.reset(Episode(task, index, index), NO_LOOK)
            drawing = drawing or Drawing(simulator._env.model, simulator._env.data, camera)
            for _ in range(PICTURES):
                differ.append(differs(drawing))
                for _ in range(STEPS):
                    simulator.step(actions.uniform(-1, 1, 4).astype(np.float32), NO_LOOK)
        assert drawing is not None
        size = drawing._context.shadowSize
        areas = [(part.right - part.left) * (part.top - part.bottom) / size**2 for part in PARTS]
        limits = sorted(kind.__name__ for kind, exact in shadow_map._is_exact.items() if exact)
        drawing.close()
        simulator.close()
        sys.stdout.write(
            f"{name} parts={len(areas)} share={max(areas, default=1):.3f} differ={sum(differ)} "
            f"of={len(differ)} by={','.join(limits)}\n"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
