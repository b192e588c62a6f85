"""Every kind of policy that the installed LeRobot builds without a download, and the strategy it is asked by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lerobot.policies  # noqa: F401 - registers every kind
import pytest
import torch
from lerobot.configs import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors

from lerobot_checkpoints import ACTION_FEATURES, features, save_act, save_diffusion, statistics
from lerobot_runs import load
from proctor.machine.resources import usable_cores
from tiny_smolvla import save_smolvla

SMALL: dict[str, dict[str, Any]] = {
    "vqbet": {
        "crop_shape": None,
        "pretrained_backbone_weights": None,
        "gpt_n_layer": 1,
        "gpt_n_head": 2,
        "gpt_input_dim": 32,
        "gpt_output_dim": 32,
        "gpt_hidden_dim": 32,
        "vqvae_embedding_dim": 16,
        "vqvae_enc_hidden_dim": 16,
        "spatial_softmax_num_keypoints": 8,
    },
    "tdmpc": {"n_gaussian_samples": 16, "n_pi_samples": 4, "n_elites": 4, "mlp_dim": 16, "cem_iterations": 2},
    "gaussian_actor": {},
}

# How each is asked, and where its random numbers come from.
WAYS = {
    "act": ("Chunk", "none"),
    "diffusion": ("Chunk", "rows"),
    "smolvla": ("Chunk", "rows"),
    "vqbet": ("Chunk", "rows"),
    # Its plan starts from the plan before.
    "tdmpc": ("OwnCopy", "rows"),
    # It has no chunks: an action is drawn at every step from the newest observation alone.
    "gaussian_actor": ("Chunk", "rows"),
}

NEEDS_MORE = {
    "eo1": "a backbone from the hub",
    "evo1": "a backbone from the hub",
    "fastwam": "a backbone from the hub",
    "groot": "a backbone from the hub",
    "lingbot_va": "more than 14 GB for its smallest form",
    "molmoact2": "a backbone from the hub",
    "multi_task_dit": "a CLIP from the hub",
    "pi0": "more than 14 GB for its smallest form",
    "pi05": "more than 14 GB for its smallest form",
    "pi0_fast": "tokenizers from the hub",
    "vla_jepa": "a backbone from the hub",
    "wall_x": "torchdiffeq, and a backbone from the hub",
    "xvla": "a backbone from the hub, and LIBERO's form of actions",
}


def save_small(kind: str, directory: Path) -> Path:
    torch.manual_seed(0)
    config = PreTrainedConfig.get_choice_class(kind)(
        input_features=features(),
        output_features=ACTION_FEATURES,
        device="cpu",
        push_to_hub=False,
        **SMALL[kind],
    )
    for part in (
        get_policy_class(kind)(config),
        *make_pre_post_processors(config, dataset_stats=statistics()),
    ):
        part.save_pretrained(directory)
    return directory


SAVE: dict[str, Callable[[Path], Path]] = {
    "act": lambda place: save_act(place, train_steps=1),
    "diffusion": lambda place: save_diffusion(place, train_steps=1),
    "smolvla": save_smolvla,
    **{kind: lambda place, kind=kind: save_small(kind, place) for kind in SMALL},  # type: ignore[misc]
}


@pytest.mark.parametrize("kind", sorted(PreTrainedConfig.get_known_choices()))
@pytest.mark.filterwarnings("ignore:To evaluate in the environment, your VQ-BeT")
def test_which_way_it_goes(kind: str, tmp_path: Path) -> None:
    if kind in NEEDS_MORE:
        pytest.skip(f"{kind} needs {NEEDS_MORE[kind]}")
    policy = load(SAVE[kind](tmp_path / "one" / "checkpoint"))
    forward = policy._trial.forward
    assert (type(forward.strategy).__name__, forward.draws) == WAYS[kind]
    # Copies of a lane's policy meet nowhere, so as many lanes as cores.
    assert policy.spec.lanes == usable_cores()
    assert policy.spec.reproducible
    told = any("copy of the policy" in note for note in policy.spec.notes)
    assert told == (type(forward.strategy).__name__ == "OwnCopy")
