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
