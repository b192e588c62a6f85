"""A SmolVLA with a tiny, randomly initialised backbone, made without any hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import smolvlm_backbone
import torch
from lerobot.policies.factory import make_pre_post_processors
from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig
from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy
from smolvlm_backbone import Part, Sizes

from lerobot_checkpoints import ACTION_FEATURES, features

_SIDE = 64
_TINY = Sizes(Part(64, 128, 2, 4, 2), Part(32, 64, 2, 2), side=_SIDE, scale=2)


def save_smolvla(directory: Path, **changes: Any) -> Path:
    """Build it, and save it with a backbone beside it."""
    backbone = save_backbone(directory.parent / "backbone")
    torch.manual_seed(0)
    config = SmolVLAConfig(
        **{
            "input_features": features(),
            "output_features": ACTION_FEATURES,
            "device": "cpu",
            "push_to_hub": False,
            "vlm_model_name": str(backbone),
            "load_vlm_weights": False,
            "num_vlm_layers": 2,
            "resize_imgs_with_padding": (_SIDE, _SIDE),
            "chunk_size": 10,
            "n_action_steps": 10,
            "num_steps": 4,
            "tokenizer_max_length": 128,
            **changes,
        }
    )
    policy = SmolVLAPolicy(config)
    statistics = {
        "observation.state": {"mean": torch.zeros(4), "std": torch.ones(4)},
        "action": {"mean": torch.zeros(4), "std": torch.full((4,), 0.5)},
    }
    for part in (policy, *make_pre_post_processors(config, dataset_stats=statistics)):
        part.save_pretrained(directory)
    return directory


def save_backbone(directory: Path, *, weights: bool = False) -> Path:
    """Save a backbone's config and processor, with random weights if they are wanted."""
    return smolvlm_backbone.save_backbone(directory, _TINY, weights=weights)
