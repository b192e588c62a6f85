"""The world of Breeze: a disc that is flown, a puck, a flag and the wind; and its camera."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor import Episode, Look, Observation, Outcome, Task
from proctor_breeze.benchmark import IMAGE, STATE, WORLD, BreezeSettings

DT, THRUST, DRAG = 0.05, 4.0, 1.5
DISC, PUCK, NEAR = 0.08, 0.1, 0.12
"""Radii of disc and puck, and how near the flag is near enough. The table reaches from -1 to 1."""

TABLE, FLAG, PUCK_COLOUR, DISC_COLOUR = (235, 235, 225), (60, 160, 80), (70, 90, 200), (210, 70, 50)


class BreezeSimulator:
    """One task; every episode follows from its seed and index alone."""

    def __init__(self, task: Task, settings: BreezeSettings) -> None:
        self._task, self._settings = task, settings
        self._look: Look = frozenset()

    def reset(self, episode: Episode, look: Look) -> None:
        """Place everything anew. The generator is made here, so nothing is left of the episode before."""
        self._random = np.random.default_rng([episode.seed, episode.index])
        from_where, puck = (np.array([np.cos(a), np.sin(a)]) for a in self._random.uniform(0, 2 * np.pi, 2))
        self._wind = THRUST * self._settings.wind * from_where
        flag = self._random.uniform(-0.5, 0.5, 2)
        self._disc, self._puck = flag + 0.4 * self._random.choice([-1, 1], 2), flag + 0.35 * puck
        if self._task.name == "reach-far":
            self._disc, flag = np.array([-0.9, -0.9]), self._random.uniform(0.7, 0.9, 2)
        self._flag, self._velocity, self._slide = flag, np.zeros(2), np.zeros(2)
        self._look = look

    def step(self, action: NDArray[Any], look: Look) -> Outcome:
        """Move physics and draw nothing; what is looked at is made in `observe`."""
        gust = 1 + 0.5 * self._random.normal()
        force = THRUST * np.clip(action, -1, 1) + gust * self._wind - DRAG * self._velocity
        self._velocity = self._velocity + DT * force
        self._disc = np.clip(self._disc + DT * self._velocity, -1, 1)
        self._slide_puck()
        self._look = look
        target = self._puck if self._task.group == "push" else self._disc
        distance = float(np.linalg.norm(target - self._flag))
        success = distance < NEAR
        return Outcome(
            -distance, terminated=success, truncated=False, success=success, metrics={"distance": distance}
        )

    def _slide_puck(self) -> None:
        apart = self._puck - self._disc
        distance = float(np.linalg.norm(apart))
        if self._task.group == "push" and 0 < distance < DISC + PUCK:
            normal = apart / distance
            self._slide = normal * max(0.0, float(self._velocity @ normal))
            self._puck = self._disc + normal * (DISC + PUCK)
        self._slide = 0.8 * self._slide
        self._puck = np.clip(self._puck + DT * self._slide, -1, 1)

    def observe(self) -> Observation:
        """Return what was looked at, in new arrays: those given away are never written to again."""
        makers: dict[str, Callable[[], NDArray[Any]]] = {
            IMAGE: lambda: self._draw(self._settings.image_size),
            STATE: lambda: np.concatenate([self._disc, self._velocity]),
            WORLD: lambda: np.concatenate([self._disc, self._velocity, self._puck, self._flag]),
        }
        return {key: makers[key]() for key in self._look}

    def render(self) -> NDArray[np.uint8]:
        """Return a frame for a video."""
        return self._draw(self._settings.video_size)

    def close(self) -> None:
        """Nothing is open."""

    def _draw(self, side: int) -> NDArray[np.uint8]:
        image = np.full((side, side, 3), TABLE, np.uint8)
        across = np.linspace(-1.1, 1.1, side)
        things = [(self._flag, NEAR, FLAG), (self._disc, DISC, DISC_COLOUR)]
        if self._task.group == "push":
            things.insert(1, (self._puck, PUCK, PUCK_COLOUR))
        for place, radius, colour in things:
            image[(across[None] - place[0]) ** 2 + (across[::-1, None] - place[1]) ** 2 < radius**2] = colour
        return image
