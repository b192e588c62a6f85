"""The compact network in NumPy: from what is observed and the task to a chunk of actions.

It computes in double precision and rounds at the end. Processors add up in different orders, which changes the
last bits of a sum; of the rounded action that is left in one number of millions. There is nothing but sums,
products, roots and ReLUs, which are the same everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.policies.compact.checkpoint import CompactCheckpoint, Scaling
from proctor.types import Observation

Array = NDArray[np.float64]

NORM_EPSILON = 1e-5
"""PyTorch's, which layer norms are trained with."""


class CompactNetwork:
    """The forward pass of one observation.

    Args:
        checkpoint: weights, sizes and statistics.
    """

    def __init__(self, checkpoint: CompactCheckpoint) -> None:
        self._config = checkpoint.config
        self._weights = {name: tensor.astype(np.float64) for name, tensor in checkpoint.weights.items()}
        self._scaling = Scaling.of(checkpoint.config, checkpoint.statistics)

    def __call__(self, observation: Observation, task: int) -> NDArray[np.float32]:
        """Return the chunk for an observation in the task with this number, in the action's own units."""
        config, scaling = self._config, self._scaling
        parts: list[Array] = []
        if config.numbers:
            seen = np.concatenate([np.asarray(observation[key], np.float64) for key in config.numbers])
            parts.append((seen - scaling.mean) / scaling.spread)
        parts += [self._picture(observation[key]) for key in config.images]
        parts.append(self._weights["task.weight"][task])
        hidden = self._layer("first", np.concatenate(parts))
        for number in range(config.blocks):
            block = f"blocks.{number}"
            wide = np.maximum(self._layer(f"{block}.widen", self._norm(f"{block}.norm", hidden)), 0.0)
            hidden = hidden + self._layer(f"{block}.back", wide)
        actions = self._layer("last", self._norm("norm", hidden)).reshape(config.chunk_size, config.action_size)
        # What was never an action in training is none now.
        scaled = scaling.middle + np.clip(actions, -1.0, 1.0) * scaling.reach
        rounded: NDArray[np.float32] = scaled.astype(np.float32)
        return rounded

    def _picture(self, pixels: NDArray[np.uint8]) -> Array:
        maps: Array = pixels.astype(np.float64) / 255.0 - 0.5
        for number in range(len(self._config.image_channels)):
            maps = np.maximum(self._convolution(f"convolutions.{number}", maps), 0.0)
        flat = maps.transpose(2, 0, 1).reshape(-1)  # channels first, as PyTorch flattens
        return self._norm("picture_norm", self._layer("picture", flat))

    def _convolution(self, name: str, maps: Array) -> Array:
        """3 x 3, every second place, with a border of zeros."""
        weight = self._weights[f"{name}.weight"]
        bordered = np.pad(maps, ((1, 1), (1, 1), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(bordered, (3, 3), axis=(0, 1))[::2, ::2]
        height, width = windows.shape[:2]
        flat = windows.reshape(height * width, -1)
        result: Array = flat @ weight.reshape(len(weight), -1).T + self._weights[f"{name}.bias"]
        return result.reshape(height, width, -1)

    def _layer(self, name: str, values: Array) -> Array:
        result: Array = self._weights[f"{name}.weight"] @ values + self._weights[f"{name}.bias"]
        return result

    def _norm(self, name: str, values: Array) -> Array:
        centred: Any = values - values.mean()
        result: Array = centred / np.sqrt((centred * centred).mean() + NORM_EPSILON)
        return result * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
