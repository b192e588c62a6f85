"""Compact checkpoints with drawn weights, small enough for any test."""

from __future__ import annotations

from typing import Any

import numpy as np

from proctor.policies.compact.checkpoint import CompactCheckpoint, CompactConfig


def made_checkpoint(
    *, images: bool = False, tasks: tuple[str, ...] = ("a", "b"), seed: int = 0, **sizes: Any
) -> CompactCheckpoint:
    """Return a checkpoint for 3 numbers, and pictures of 8 x 8 on request, that makes chunks of 4 actions."""
    inputs: dict[str, tuple[int, ...]] = {"observation.state": (3,)}
    if images:
        inputs["observation.image"] = (8, 8, 3)
    config = CompactConfig(
        inputs=inputs,
        action_size=2,
        tasks=tasks,
        **{"chunk_size": 4, "n_action_steps": 2, "width": 8, "blocks": 1, "image_channels": (4, 4), **sizes},
    )
    generator = np.random.default_rng(seed)
    weights = {
        name: generator.normal(size=shape).astype(np.float16) for name, shape in config.tensor_shapes().items()
    }
    statistics = {
        "observation.state.mean": np.zeros(3),
        "observation.state.std": np.ones(3),
        "action.min": np.full(2, -1.0),
        "action.max": np.ones(2),
    }
    return CompactCheckpoint(config, weights, statistics)
