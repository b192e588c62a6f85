"""How much quicker is the second evaluation of an `Evaluator` than the first?

An ACT of LeRobot's default size, live as a training loop holds it, on Meta-World with drawing, 10 short episodes.
Imports are in neither: of the host's and the workers' start, what they spend on importing torch, LeRobot and the
simulator is measured in processes of their own and taken off the first evaluation, all of it, though part runs
side by side. Prints the ratio for each of several pairs, and the same digest check that the tests make.

    make benchmark-evaluator
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WORKER_IMPORTS = (
    "import proctor.engine.worker, metaworld, mujoco; from proctor.benchmarks.metaworld import simulator"
)
HOST_IMPORTS = (
    "import proctor.engine.policy_host, torch, lerobot.policies, lerobot.policies.factory, "
    "proctor.policies.lerobot.trial; from lerobot.policies.act import modeling_act"
)


def seconds_to_import(statement: str, gl: dict[str, str]) -> float:
    """Return what a fresh interpreter spends on imports, without its own start."""
    code = f"import time; begun = time.monotonic()\n{statement}\nprint(time.monotonic() - begun)"
    environment = {**os.environ, **gl, "OMP_NUM_THREADS": "1"}
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        for _ in range(3)
    ]
    return min(float(run.stdout.split()[-1]) for run in runs)


def live_act(side: int, steps: int, device: str) -> tuple[Any, Any, Any]:
    """Return an ACT with random weights, and its processors."""
    import torch
    from lerobot.configs import FeatureType, PolicyFeature
    from lerobot.policies.act.configuration_act import ACTConfig
    from lerobot.policies.factory import get_policy_class, make_pre_post_processors

    torch.manual_seed(0)
    config = ACTConfig(
        input_features={
            "observation.image": PolicyFeature(FeatureType.VISUAL, (3, side, side)),
            "observation.state": PolicyFeature(FeatureType.STATE, (4,)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (4,))},
        device=device,
        push_to_hub=False,
        pretrained_backbone_weights=None,
        n_action_steps=steps,
    )
    stats = {
        key: {"mean": torch.zeros(shape), "std": torch.ones(shape)}
        for key, shape in (("observation.image", (3, 1, 1)), ("observation.state", (4,)), ("action", (4,)))
    }
    return get_policy_class("act")(config).to(device), *make_pre_post_processors(config, dataset_stats=stats)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--side", type=int, default=96, help="of the pictures, in pixels")
    parser.add_argument("--steps", type=int, default=20, help="of an episode")
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--device", default="cpu", help="of the policy")
    arguments = parser.parse_args()

    import proctor
    from proctor.benchmarks.rendering import find_renderer

    gl = dict(find_renderer().env)
    imports = seconds_to_import(WORKER_IMPORTS, gl) + seconds_to_import(HOST_IMPORTS, gl)
    print(f"imports, taken off the first: {imports:.2f} s")
    policy, preprocessor, postprocessor = live_act(arguments.side, arguments.steps, arguments.device)
    env = {
        "observation_height": arguments.side,
        "observation_width": arguments.side,
        "episode_length": arguments.steps,
    }
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for pair in range(arguments.pairs):
            seconds, digests = [], []
            with proctor.Evaluator(
                task="reach-v3", n_episodes=arguments.episodes, display="none", env=env
            ) as evaluator:
                for number in range(3):
                    begun = time.monotonic()
                    result = evaluator.evaluate(
                        policy,
                        preprocessor=preprocessor,
                        postprocessor=postprocessor,
                        output_dir=Path(folder) / f"{pair}-{number}",
                    )
                    seconds.append(time.monotonic() - begun)
                    digests.append([record.digests for record in result])
            assert digests[0] == digests[1] == digests[2], "warm processes gave another result"
            first = seconds[0] - imports
            ratios.append(first / seconds[1])
            print(
                f"first {seconds[0]:.2f} s, without imports {first:.2f} s; second {seconds[1]:.2f} s; "
                f"third {seconds[2]:.2f} s; first without imports / second: {ratios[-1]:.1f}"
            )
    print(f"ratio: {statistics.median(ratios):.1f} (of {len(ratios)}: {min(ratios):.1f} to {max(ratios):.1f})")


if __name__ == "__main__":
    main()
