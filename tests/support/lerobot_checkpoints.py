"""Small checkpoints, made and trained here on Meta-World's expert, saved as LeRobot saves them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors

from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.policies.baselines import ExpertPolicy
from proctor.types import ENVIRONMENT_STATE, IMAGE, STATE, Episode

SIDE = 64
TASK = "reach-v3"


class Demonstration(NamedTuple):
    """One expert episode: what the policy would have seen, and what the expert did."""

    images: torch.Tensor  # (steps, 3, side, side), in [0, 1]
    states: torch.Tensor
    actions: torch.Tensor


def features(image_key: str = IMAGE, side: int = SIDE, state_size: int = 4) -> dict[str, PolicyFeature]:
    return {
        image_key: PolicyFeature(FeatureType.VISUAL, (3, side, side)),
        STATE: PolicyFeature(FeatureType.STATE, (state_size,)),
    }


ACTION_FEATURES = {"action": PolicyFeature(FeatureType.ACTION, (4,))}


@cache
def demonstrations(episodes: int = 3, steps: int = 40) -> list[Demonstration]:
    """Let the expert play, and draw what it does."""
    settings = MetaWorldSettings(
        type="metaworld", task=TASK, observation_height=SIDE, observation_width=SIDE, episode_length=steps
    )
    benchmark = MetaWorld(settings)
    (task,) = benchmark.tasks()
    simulator = benchmark.make_simulator(task)
    expert = ExpertPolicy()
    look = frozenset({IMAGE, STATE, ENVIRONMENT_STATE})
    played = []
    for index in range(episodes):
        images, states, actions = [], [], []
        simulator.reset(Episode(task, index, 50 + index), look)
        memory = expert.begin(task)
        for _ in range(steps):
            seen = {**simulator.observe(), "task": task.prompt}
            generator = np.random.default_rng(0)
            (chunk,), (memory,) = expert.act([(seen,)], [memory], [generator])
            images.append(torch.from_numpy(seen[IMAGE]).permute(2, 0, 1).float() / 255)
            states.append(torch.from_numpy(seen[STATE]).float())
            actions.append(torch.from_numpy(np.asarray(chunk[0], np.float32)))
            if simulator.step(np.clip(chunk[0], -1, 1), look).terminated:
                break
        played.append(Demonstration(torch.stack(images), torch.stack(states), torch.stack(actions)))
    simulator.close()
    return played


def statistics(image_key: str = IMAGE) -> dict[str, dict[str, torch.Tensor]]:
    """Return what LeRobot's dataset statistics would be."""
    images = torch.cat([one.images for one in demonstrations()])
    columns = {
        STATE: torch.cat([one.states for one in demonstrations()]),
        "action": torch.cat([one.actions for one in demonstrations()]),
    }
    stats = {
        key: {
            "mean": values.mean(0),
            "std": values.std(0) + 1e-3,
            "min": values.amin(0) - 1e-3,
            "max": values.amax(0) + 1e-3,
        }
        for key, values in columns.items()
    }
    over = (0, 2, 3)
    stats[image_key] = {
        "mean": images.mean(over)[:, None, None],
        "std": images.std(over)[:, None, None],
        "min": images.amin(over)[:, None, None],
        "max": images.amax(over)[:, None, None],
    }
    return stats


def save_act(directory: Path, train_steps: int = 60, image_key: str = IMAGE, **changes: Any) -> Path:
    """Train a small ACT and save it."""
    config = act_config(image_key, **changes)
    return _train_and_save(config, directory, train_steps, image_key, past=0, ahead=config.chunk_size)


def act_config(image_key: str = IMAGE, **changes: Any) -> ACTConfig:
    """Return the config of a small ACT."""
    return ACTConfig(
        **{
            "input_features": features(image_key),
            "output_features": ACTION_FEATURES,
            "device": "cpu",
            "push_to_hub": False,
            "pretrained_backbone_weights": None,
            "chunk_size": 20,
            "n_action_steps": 10,
            "dim_model": 32,
            "n_heads": 4,
            "dim_feedforward": 64,
            "n_encoder_layers": 1,
            "n_vae_encoder_layers": 1,
            "latent_dim": 8,
            **changes,
        }
    )


def save_diffusion(directory: Path, train_steps: int = 30, **changes: Any) -> Path:
    """Train a small Diffusion policy (DDPM: it draws at every denoising step) and save it."""
    config = DiffusionConfig(
        **{
            "input_features": features(),
            "output_features": ACTION_FEATURES,
            "device": "cpu",
            "push_to_hub": False,
            "pretrained_backbone_weights": None,
            "n_obs_steps": 2,
            "horizon": 16,
            "n_action_steps": 8,
            "down_dims": (16, 32),
            "n_groups": 4,
            "diffusion_step_embed_dim": 16,
            "crop_shape": None,
            "resize_shape": None,
            "spatial_softmax_num_keypoints": 8,
            "num_train_timesteps": 10,
            **changes,
        }
    )
    return _train_and_save(
        config, directory, train_steps, IMAGE, past=config.n_obs_steps - 1, ahead=config.horizon
    )


def _train_and_save(config: Any, directory: Path, train_steps: int, image_key: str, past: int, ahead: int) -> Path:
    training = Training(config, image_key, past, ahead)
    training.run(train_steps)
    training.policy.eval()
    return training.save(directory)


class Training:
    """A training loop as LeRobot's: the policy, its processors, and an optimiser."""

    def __init__(self, config: Any, image_key: str = IMAGE, past: int = 0, ahead: int = 20) -> None:
        torch.manual_seed(0)
        self.policy = get_policy_class(config.type)(config)
        self.preprocessor, self.postprocessor = make_pre_post_processors(
            config, dataset_stats=statistics(image_key)
        )
        self._optimiser = torch.optim.Adam(self.policy.parameters(), lr=1e-3)
        self._generator = np.random.default_rng(0)
        self._what = image_key, past, ahead
        self.policy.train()

    def run(self, steps: int) -> None:
        """Train a while."""
        for _ in range(steps):
            loss, _ = self.policy.forward(self.preprocessor(_sample(self._generator, *self._what, rows=8)))
            self._optimiser.zero_grad()
            loss.backward()
            self._optimiser.step()

    def save(self, directory: Path) -> Path:
        """Save what LeRobot's trainer saves of the policy."""
        for part in (self.policy, self.preprocessor, self.postprocessor):
            part.save_pretrained(directory)
        return directory


def _sample(
    generator: np.random.Generator, image_key: str, past: int, ahead: int, rows: int
) -> dict[str, torch.Tensor]:
    images, states, actions, padding = [], [], [], []
    for _ in range(rows):
        one = demonstrations()[generator.integers(len(demonstrations()))]
        now = int(generator.integers(len(one.actions)))
        seen = [max(0, now + offset) for offset in range(-past, 1)]
        done = [now - past + offset for offset in range(ahead)]
        inside = [min(max(step, 0), len(one.actions) - 1) for step in done]
        images.append(one.images[seen] if past else one.images[now])
        states.append(one.states[seen] if past else one.states[now])
        actions.append(one.actions[inside])
        padding.append(torch.tensor([not 0 <= step < len(one.actions) for step in done]))
    return {
        image_key: torch.stack(images),
        STATE: torch.stack(states),
        "action": torch.stack(actions),
        "action_is_pad": torch.stack(padding),
    }


def edit_json(file: Path, **changes: Any) -> None:
    """Change a checkpoint's JSON file."""
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
