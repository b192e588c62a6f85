"""A policy whose actions depend on every pixel it is shown, in chunks, so that it looks rarely."""

from __future__ import annotations

from typing import Any

import numpy as np

CHUNK = 25


class Pixels:
    def act(self, observation: dict[str, Any], generator: np.random.Generator) -> np.ndarray[Any, Any]:
        image = observation["observation.image"].astype(np.float64)
        weights = np.linspace(0.5, 1.5, image.size).reshape(image.shape)
        colours = (image * weights).mean(axis=(0, 1)) / 128 - 1
        return np.concatenate([np.tile(colours, (CHUNK, 1)), generator.uniform(-1, 1, (CHUNK, 1))], axis=1)


class Wild:
    """A policy that is shown pictures, minds none, and asks for more than the arm can do."""

    def act(self, observation: dict[str, Any], generator: np.random.Generator) -> np.ndarray[Any, Any]:
        # Exact in float32, so that what was recorded can be played again to the bit.
        return generator.integers(-12, 13, (5, 4)).astype(np.float32) / 4
