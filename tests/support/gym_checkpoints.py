"""Small LeRobot checkpoints for PushT and ALOHA, made in LeRobot's interpreter: `gym_checkpoints.py NAME DIR`.

They are not trained; their statistics are such that what they do moves the robots.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors

STATE = "observation.state"
SMALL = {"device": "cpu", "push_to_hub": False, "pretrained_backbone_weights": None}


def features(image: str, shape: tuple[int, int, int], state: int, action: int) -> dict[str, Any]:
    return {
        "input_features": {
            image: PolicyFeature(FeatureType.VISUAL, shape),
            STATE: PolicyFeature(FeatureType.STATE, (state,)),
        },
        "output_features": {"action": PolicyFeature(FeatureType.ACTION, (action,))},
    }


def diffusion() -> Any:
    return DiffusionConfig(
        **features("observation.image", (3, 96, 96), 2, 2),
        **SMALL,
        n_obs_steps=2,
        horizon=16,
        n_action_steps=8,
        down_dims=(16, 32),
        n_groups=4,
        diffusion_step_embed_dim=16,
        crop_shape=None,
        resize_shape=None,
        spatial_softmax_num_keypoints=8,
        num_train_timesteps=10,
    )


def act() -> Any:
    return ACTConfig(
        **features("observation.images.top", (3, 60, 80), 14, 14),
        **SMALL,
        chunk_size=16,
        n_action_steps=8,
        dim_model=32,
        n_heads=4,
        dim_feedforward=64,
        n_encoder_layers=1,
        n_vae_encoder_layers=1,
        latent_dim=8,
    )


def numbers(size: int, low: float, high: float) -> dict[str, torch.Tensor]:
    middle, width = (low + high) / 2, (high - low) / 2
    values = {"min": low, "max": high, "mean": middle, "std": width}
    return {name: torch.full((size,), value) for name, value in values.items()}


def picture() -> dict[str, torch.Tensor]:
    values = {"min": 0.0, "max": 1.0, "mean": 0.5, "std": 0.2}
    return {name: torch.full((3, 1, 1), value) for name, value in values.items()}


def save(name: str, directory: Path) -> None:
    torch.manual_seed(0)
    config = diffusion() if name == "pusht" else act()
    low, high, state, action = (0.0, 512.0, 2, 2) if name == "pusht" else (-1.0, 1.0, 14, 14)
    image = next(key for key in config.input_features if key != STATE)
    stats = {image: picture(), STATE: numbers(state, low, high), "action": numbers(action, low, high)}
    policy = get_policy_class(config.type)(config).eval()
    for part in (policy, *make_pre_post_processors(config, dataset_stats=stats)):
        part.save_pretrained(directory)


if __name__ == "__main__":
    save(sys.argv[1], Path(sys.argv[2]))
