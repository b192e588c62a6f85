"""The compact network in NumPy, which is evaluated, is the one in torch, which was trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from compact_checkpoints import made_checkpoint
from proctor.policies.compact.checkpoint import Scaling
from proctor.policies.compact.network import CompactNetwork
from proctor.training.compact.network import TorchCompactNetwork


@pytest.mark.parametrize("images", [False, True])
def test_both_networks_return_the_same_chunks(images: bool) -> None:
    made = made_checkpoint(images=images, width=16, blocks=2)
    # Small weights: what is clipped would be equal whatever came before.
    made = type(made)(
        made.config, {k: (v * 0.2).astype(v.dtype) for k, v in made.weights.items()}, made.statistics
    )
    trained = TorchCompactNetwork(made.config).double()
    trained.load_state_dict({name: torch.tensor(np.asarray(w, np.float64)) for name, w in made.weights.items()})
    scaling, evaluated = Scaling.of(made.config, made.statistics), CompactNetwork(made)
    generator = np.random.default_rng(0)
    inside = 0
    for task in (0, 1, 1, 0):
        seen: dict[str, Any] = {"observation.state": generator.normal(size=3)}
        if images:
            seen["observation.image"] = generator.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        numbers = torch.tensor((seen["observation.state"] - scaling.mean) / scaling.spread)[None]
        pictures = [
            torch.tensor(seen[key]).permute(2, 0, 1)[None].double() / 255.0 - 0.5 for key in made.config.images
        ]
        chunk = trained(numbers, pictures, torch.tensor([task]))[0].detach().numpy()
        inside += int((np.abs(chunk) < 1).sum())
        expected = scaling.middle + np.clip(chunk, -1, 1) * scaling.reach
        np.testing.assert_allclose(evaluated(seen, task), expected, rtol=0, atol=1e-6)
    assert inside > 8, "most are not clipped"
