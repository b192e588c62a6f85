"""Draw Meta-World with the floor's shadow and without, in a process of its own, and print what comes of it.

python floor_shadows.py compare STEPS TASK...   a line per picture: was it cast, does it differ
python floor_shadows.py other-driver TASK       as if a GL driver drew something else without it
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metaworld_episodes import expert, random
from proctor.benchmarks.metaworld import drawing
from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.benchmarks.metaworld.drawing import Drawing
from proctor.benchmarks.metaworld.floor_shadow import FloorShadow
from proctor.types import ENVIRONMENT_STATE, Episode, Task

LOOK = frozenset({ENVIRONMENT_STATE})
CAMERA, SIDE, EVERY = "corner2", 96, 5


def simulator(name: str) -> tuple[Any, Task]:
    benchmark = MetaWorld(MetaWorldSettings(type="metaworld", task=name, obs_type="state"))
    (task,) = benchmark.tasks()
    found: Any = benchmark.make_simulator(task)
    found.reset(Episode(task, 0, 1000), LOOK)
    return found, task


def drawer_of(one: Any) -> Drawing:
    return Drawing(one._env.model, one._env.data, CAMERA)


def both_ways(drawer: Drawing) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    pictures = []
    for alike in (False, True):
        drawing._alike[CAMERA, SIDE, SIDE] = alike
        pictures.append(drawer.rows(SIDE, SIDE).copy())
    return pictures[0], pictures[1]


def states(one: Any, task: Task, steps: int) -> Iterator[None]:
    """Go through an expert's steps, then as many random ones from where the expert has come to."""
    actors = expert(task, 1000), random("float32", 1.0, 0)
    yield
    for step in range(2 * steps):
        one.step(actors[step >= steps](one.observe()[ENVIRONMENT_STATE]), LOOK)
        if step % EVERY == EVERY - 1:
            yield


def compare(name: str, steps: int) -> None:
    one, task = simulator(name)
    drawer = drawer_of(one)
    said: Counter[str] = Counter()
    for _ in states(one, task, steps):
        with_it, without_it = both_ways(drawer)
        said["left out" if drawer._floor_shadow.falls_on_nothing(one._env.data) else "cast"] += 1
        said["differ"] += not np.array_equal(with_it, without_it)
    for words, times in said.items():
        sys.stdout.write(f"{name} {words}\n" * times)
    drawer.close()


def other_driver(name: str) -> None:
    one, _ = simulator(name)
    drawer = drawer_of(one)
    leave_out = FloorShadow.leave_out
    expected, _ = both_ways(drawer)
    drawing._alike.clear()

    def and_darken(self: FloorShadow, scene: Any) -> None:
        leave_out(self, scene)
        scene.lights[0].diffuse *= 0.5

    FloorShadow.leave_out = and_darken  # type: ignore[method-assign]
    for _ in range(3):
        whole = np.array_equal(drawer.rows(SIDE, SIDE), expected)
        sys.stdout.write("whole\n" if whole else "changed\n")


def main(what: str, *arguments: str) -> None:
    if what == "other-driver":
        other_driver(*arguments)
    else:
        for name in arguments[1:]:
            compare(name, int(arguments[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
