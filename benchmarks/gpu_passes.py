"""On a GPU: forward passes that are replayed from a CUDA graph against the same passes as they are, in turn.

    python benchmarks/gpu_passes.py [--policies=act,diffusion,smolvla] [--rows=16] [--rounds=7]

LeRobot's own networks in their default sizes, SmolVLA with a backbone of the real one's size (450 M weights), all
with random weights, made here without the hub. Diffusion and SmolVLA draw random numbers, each row from its own
episode's generator. The ratio is of seconds a pass, from a simulator's arrays to a robot's actions; the actions of
both sides must be equal to the bit, over several steps of episodes that go on.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from against_lerobot import save_checkpoint
from figures import report
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors

from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.policies.lerobot.policy import LeRobotPolicy, LeRobotSettings
from proctor.policies.lerobot.strategies import Forward

SIDES = {"act": 480, "diffusion": 96, "smolvla": 480}
"""Pixels of the camera's picture, as the benchmark gives it."""


def features(side: int) -> dict[str, Any]:
    """Return what Meta-World gives, and takes."""
    return {
        "input_features": {
            "observation.image": PolicyFeature(FeatureType.VISUAL, (3, side, side)),
            "observation.state": PolicyFeature(FeatureType.STATE, (4,)),
        },
        "output_features": {"action": PolicyFeature(FeatureType.ACTION, (4,))},
        "push_to_hub": False,
        "device": "cpu",
    }


def statistics_of_data() -> dict[str, dict[str, torch.Tensor]]:
    """Return a dataset's statistics."""
    numbers = {"mean": torch.zeros(4), "std": torch.ones(4), "min": -torch.ones(4), "max": torch.ones(4)}
    pictures = {"mean": torch.full((3, 1, 1), 0.5), "std": torch.full((3, 1, 1), 0.25)}
    bounds = {"min": torch.zeros(3, 1, 1), "max": torch.ones(3, 1, 1)}
    return {
        "observation.image": {**pictures, **bounds},
        "observation.state": numbers,
        "action": numbers,
    }


def save(config: Any, directory: Path) -> None:
    """Save a checkpoint with random weights."""
    torch.manual_seed(0)
    policy = get_policy_class(config.type)(config)
    for part in (policy, *make_pre_post_processors(config, dataset_stats=statistics_of_data())):
        part.save_pretrained(directory)


def save_diffusion(directory: Path) -> None:
    """Save LeRobot's default Diffusion policy: DDPM, 100 steps."""
    save(DiffusionConfig(**features(SIDES["diffusion"]), pretrained_backbone_weights=None), directory)


def save_smolvla(directory: Path) -> None:
    """Save LeRobot's default SmolVLA, on a backbone of the size of SmolVLM2-500M."""
    from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig
    from smolvlm_backbone import save_backbone

    backbone = save_backbone(directory.parent / "backbone")
    config = SmolVLAConfig(
        **features(SIDES["smolvla"]),
        vlm_model_name=str(backbone),
        load_vlm_weights=False,
        pad_language_to="max_length",
    )
    save(config, directory)


MAKE: dict[str, Callable[[Path], None]] = {
    "act": save_checkpoint,
    "diffusion": save_diffusion,
    "smolvla": save_smolvla,
}


def compare(name: str, rows: int, rounds: int, device: str) -> None:
    """Measure one network, and report."""
    pixels = SIDES[name]
    settings = MetaWorldSettings(
        type="metaworld", task="reach-v3", observation_height=pixels, observation_width=pixels
    )
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "checkpoint"
        MAKE[name](checkpoint)
        asked = LeRobotSettings(path=str(checkpoint), device=device, batch_size=rows)
        began = time.monotonic()
        policy = LeRobotPolicy.from_settings(asked, MetaWorld(settings).spec)
        loading = time.monotonic() - began
    trial = policy._trial
    recorded = trial.forward
    plain = dataclasses.replace(recorded, recorded="no", pool=recorded.pool.more())
    sides = {"plain": plain, "recorded": recorded}
    memories = {side: [forward.begin(seed) for seed in range(recorded.rows)] for side, forward in sides.items()}
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(rounds + 1):
        offsets = recorded.strategy.offsets
        windows = [trial.synthetic.window(10 * turn, offsets, row) for row in range(recorded.rows)]
        found = {}
        for side in list(sides)[:: -1 if turn % 2 else 1]:
            found[side], passed = timed(sides[side], windows, memories[side])
            if turn:  # the first makes what a lane needs
                seconds[side].append(passed)
        assert found["plain"] == found["recorded"], f"{name}: a recorded pass gives other bits"
    own, other = (1000 * statistics.median(seconds[side]) for side in ("recorded", "plain"))
    report(
        f"a forward pass of {name} as it is recorded, against the pass itself",
        [before / after for before, after in zip(seconds["plain"], seconds["recorded"], strict=True)],
        absolute=f"recorded: {recorded.recorded}; {own:.1f} against {other:.1f} ms for {recorded.rows} rows, "
        f"{recorded.strategy.steps} steps each; {torch.cuda.max_memory_allocated() >> 20} MiB of the GPU; loaded "
        f"and tried in {loading:.0f} s; bits equal" + "".join(f"; {note}" for note in trial.notes),
    )


def timed(forward: Forward, windows: list[Any], memories: list[Any]) -> tuple[list[bytes], float]:
    """Return the bits of a pass, and its seconds."""
    began = time.monotonic()
    chunks = forward(windows, memories)
    return [chunk.tobytes() for chunk in chunks], time.monotonic() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", default=",".join(MAKE))
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    for name in given.policies.split(","):
        compare(name, given.rows, given.rounds, given.device)


if __name__ == "__main__":
    main()
