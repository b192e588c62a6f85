"""Checkpoints of the plugin's policies, LeRobot's own loop on them, and how the engine would ask them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lerobot.configs import FeatureType, PolicyFeature, PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from lerobot.utils.import_utils import register_third_party_plugins

from lerobot_checkpoints import ACTION_FEATURES
from lerobot_runs import load
from proctor.policies.protocol import Policy
from proctor.types import Task

STATE = "observation.state"
STEPS = 40


def save_hidden(directory: Path, hides: str = "nothing", **changes: Any) -> Path:
    register_third_party_plugins()
    torch.manual_seed(0)
    config = PreTrainedConfig.get_choice_class("hidden")(
        input_features={STATE: PolicyFeature(FeatureType.STATE, (4,))},
        output_features=ACTION_FEATURES,
        device="cpu",
        push_to_hub=False,
        hides=hides,
        **changes,
    )
    statistics = {key: {"mean": torch.zeros(4), "std": torch.ones(4)} for key in (STATE, "action")}
    for part in (get_policy_class("hidden")(config), *make_pre_post_processors(config, dataset_stats=statistics)):
        part.save_pretrained(directory)
    return directory


def observation(episode: int, step: int) -> dict[str, Any]:
    state = np.random.default_rng((1, episode, step)).uniform(-1, 1, 4).astype(np.float32)
    state[3] = 1.0  # as Meta-World's open gripper
    return {STATE: state, "task": f"do {episode}"}


def generator(episode: int) -> np.random.Generator:
    return np.random.default_rng((2, episode))


def lerobots_actions(checkpoint: Path, episode: int, steps: int = STEPS) -> list[bytes]:
    """Run LeRobot's own loop on a policy of its own, as after `lerobot.utils.random_utils.set_seed`."""
    config = PreTrainedConfig.from_pretrained(checkpoint)
    policy = get_policy_class(config.type).from_pretrained(checkpoint, config=config)
    pre, post = make_pre_post_processors(config, pretrained_path=str(checkpoint))
    seed = int(generator(episode).integers(2**63))
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    policy.reset()
    actions = []
    with torch.inference_mode():
        for step in range(steps):
            seen = observation(episode, step)
            batch = pre({STATE: torch.from_numpy(seen[STATE])[None], "task": [seen["task"]]})
            actions.append(post(policy.select_action(batch))[0].numpy().tobytes())
    return actions


class Asking:
    """An episode that asks a policy when it has used up its actions."""

    def __init__(self, policy: Policy, episode: int) -> None:
        self._policy, self._episode, self._generator = policy, episode, generator(episode)
        self.memory = policy.begin(Task("group", episode, f"task-{episode}", f"do {episode}", STEPS))
        self.actions: list[bytes] = []

    def ask(self) -> None:
        now = len(self.actions)
        offsets = self._policy.spec.observation_offsets
        window = tuple(observation(self._episode, max(0, now + offset)) for offset in offsets)
        (chunk,), (self.memory,) = self._policy.act([window], [self.memory], [self._generator])
        self.actions += [action.tobytes() for action in np.asarray(chunk)]


def proctors_actions(policy: Policy, episodes: Sequence[int], steps: int = STEPS) -> dict[int, list[bytes]]:
    """Ask for several episodes in turns that change."""
    asking = [Asking(policy, episode) for episode in episodes]
    turns = np.random.default_rng(3)
    while open_ones := [one for one in asking if len(one.actions) < steps]:
        open_ones[turns.integers(len(open_ones))].ask()
    return {episode: one.actions[:steps] for episode, one in zip(episodes, asking, strict=True)}


def load_hidden(checkpoint: Path) -> Policy:
    return load(checkpoint)
