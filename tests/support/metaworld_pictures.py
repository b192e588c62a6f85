"""Draw Meta-World's tasks in a process of its own, and print what is seen of each at two moments.

    python metaworld_pictures.py gymnasium|proctor CAMERA TASK...

`gymnasium`: Meta-World's own environment, drawn by its own `render()`, turned as LeRobot turns it. `proctor`: the
simulators of an evaluation, one after the other; those of `TASK+TASK` are open at once and draw in turns.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.types import IMAGE, Episode

LOOK = frozenset({IMAGE})
STEPS = 20
SIZE: dict[str, Any] = {
    "observation_width": 160,
    "observation_height": 120,
    "visualization_width": 96,
    "visualization_height": 128,
}


class Scene:
    """One task's simulator, in the middle of an episode."""

    def __init__(self, route: str, camera: Any, name: str) -> None:
        self.route, self.camera, self.name = route, camera, name
        settings = MetaWorldSettings(
            type="metaworld", task=name, camera_name=camera, stock=route == "gymnasium", **SIZE
        )
        benchmark = MetaWorld(settings)
        (task,) = benchmark.tasks()
        self.simulator: Any = benchmark.make_simulator(task)
        self.simulator.reset(Episode(task, 0, 3), LOOK)

    def move(self) -> None:
        for _ in range(STEPS):
            self.simulator.step(np.full(4, 0.5, np.float32), LOOK)

    def seen(self) -> str:
        """Return a digest of the policy's picture and the film's."""
        if self.route == "proctor":
            pictures = self.simulator.observe()[IMAGE], self.simulator.render()
        else:
            pictures = self._rendered("observation"), self._rendered("visualization")
        shapes = [(SIZE[f"{size}_height"], SIZE[f"{size}_width"], 3) for size in ("observation", "visualization")]
        assert [picture.shape for picture in pictures] == shapes
        assert all(picture.std() > 10 for picture in pictures)
        return hashlib.sha256(b"".join(picture.tobytes() for picture in pictures)).hexdigest()

    def _rendered(self, size: str) -> NDArray[np.uint8]:
        env = self.simulator._env
        viewer = env.mujoco_renderer._get_viewer("rgb_array")
        viewer.viewport.width, viewer.viewport.height = SIZE[f"{size}_width"], SIZE[f"{size}_height"]
        picture: NDArray[np.uint8] = env.render()
        return picture[::-1, ::-1] if self.camera == "corner2" else picture


def main(route: str, camera: str, *tasks: str) -> None:
    for names in tasks:
        with contextlib.ExitStack() as closing:
            scenes = [Scene(route, camera, name) for name in names.split("+")]
            for scene in scenes:
                closing.callback(scene.simulator.close)
            first = [scene.seen() for scene in scenes]
            for scene in scenes:
                scene.move()
            for scene, before in zip(scenes, first, strict=True):
                sys.stdout.write(f"{scene.name} {before} {scene.seen()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
