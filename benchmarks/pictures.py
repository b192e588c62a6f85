"""A world whose observation is two pictures of 256 px and eight numbers, for Proctor and for vla-eval.

The pictures cost next to nothing to make: what is measured is what becomes of them on the way to the policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.protocol import Benchmark, Simulator
from proctor.config.settings import EnvSettings
from proctor.types import BenchmarkSpec, Episode, Feature, Look, Observation, Outcome, Task

SIZE, STATE, ACTION = 256, 8, 7
CAMERAS = ("agentview", "wrist")
LENGTH = 100
_SCENE: NDArray[np.uint8] = np.random.default_rng(0).integers(0, 256, (2 * SIZE, SIZE, 3), dtype=np.uint8)


class World:
    """What both harnesses step: a vector that actions push, and views of a fixed scene that it moves over."""

    def __init__(self) -> None:
        self.state = np.zeros(STATE, np.float32)

    def reset(self, seed: int) -> None:
        self.state = np.random.default_rng(seed).normal(size=STATE).astype(np.float32)

    def step(self, action: NDArray[Any]) -> None:
        self.state = self.state * np.float32(0.99)
        self.state[:ACTION] += np.asarray(action, np.float32) * np.float32(0.1)

    def picture(self, camera: int) -> NDArray[np.uint8]:
        place = int(abs(float(self.state[camera])) * 50) % SIZE
        return np.ascontiguousarray(_SCENE[place : place + SIZE])


def act(state: NDArray[Any], pictures: Sequence[NDArray[np.uint8]], chunk: int) -> NDArray[np.float32]:
    """Return what both policies answer: something that depends on all that was shown."""
    seen = sum(float(picture[::16, ::16].mean()) for picture in pictures) / 510
    return np.tanh(np.full((chunk, ACTION), float(state[0]) + seen, np.float32))


@dataclass(frozen=True, kw_only=True)
class PicturesSettings(EnvSettings):
    length: int = LENGTH


class Pictures(Benchmark):
    Settings = PicturesSettings
    settings: PicturesSettings

    @property
    def spec(self) -> BenchmarkSpec:
        cameras = {f"observation.images.{name}": Feature((SIZE, SIZE, 3), "uint8", drawn=True) for name in CAMERAS}
        return BenchmarkSpec(
            "pictures", {**cameras, "observation.state": Feature((STATE,), "float32")}, action_size=ACTION
        )

    def tasks(self) -> Sequence[Task]:
        return [Task("pictures", 0, "pictures", "move", self.settings.length)]

    def make_simulator(self, task: Task) -> Simulator:
        return PicturesSimulator()


class PicturesSimulator:
    def __init__(self) -> None:
        self._world = World()
        self._look: Look = frozenset()

    def reset(self, episode: Episode, look: Look) -> None:
        self._world.reset(episode.seed)
        self._look = look

    def step(self, action: NDArray[Any], look: Look) -> Outcome:
        self._world.step(action)
        self._look = look
        return Outcome(0.0, False, False, False, {})

    def observe(self) -> Observation:
        world = self._world
        shown = {f"observation.images.{name}": number for number, name in enumerate(CAMERAS)}
        return {key: world.picture(shown[key]) if key in shown else world.state.copy() for key in self._look}

    def render(self) -> NDArray[np.uint8]:
        return self._world.picture(0)

    def close(self) -> None:
        pass


class PicturesPolicy:
    """The policy as Proctor takes it."""

    def __init__(self, chunk: int = 1) -> None:
        self._chunk = chunk

    def act(self, observation: dict[str, Any]) -> NDArray[np.float32]:
        pictures = [observation[f"observation.images.{name}"] for name in CAMERAS]
        return act(observation["observation.state"], pictures, self._chunk)
