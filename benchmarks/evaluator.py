"""How much quicker is the second evaluation of an `Evaluator` than the first?

An ACT of LeRobot's default size, live as a training loop holds it, on Meta-World with drawing, 10 short episodes.
Imports are in neither: what the host and the slowest worker spend on them, Python itself tells in their logs
(PYTHONPROFILEIMPORTTIME), and that is taken off. Prints the ratio for each of several pairs; the episodes of all
evaluations must have the same digests.

    make benchmark-evaluator
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from figures import report

_IMPORT = re.compile(r"import time: +(\d+) \|")


def seconds_of_imports(run: Path) -> float:
    """Return what the host and the slowest worker of a run have spent on imports, one after the other."""
    spent = {
        log.name: sum(int(found[1]) for found in _IMPORT.finditer(log.read_text(errors="replace"))) / 1e6
        for log in (run / "logs").glob("*.log")
    }
    workers = [seconds for name, seconds in spent.items() if name.startswith("worker")]
    return sum(seconds for name, seconds in spent.items() if name.startswith("host")) + max(workers, default=0.0)


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
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--side", type=int, default=96, help="of the pictures, in pixels")
    parser.add_argument("--steps", type=int, default=20, help="of an episode")
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--device", default="cpu", help="of the policy")
    arguments = parser.parse_args()

    import proctor

    os.environ["PYTHONPROFILEIMPORTTIME"] = "1"  # of the children
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
            seconds, imports, digests = [], [], []
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
                    imports.append(seconds_of_imports(result.path))
                    digests.append([record.digests for record in result])
            assert digests[0] == digests[1] == digests[2], "warm processes gave another result"
            first, second, third = (whole - spent for whole, spent in zip(seconds, imports, strict=True))
            if pair:  # before the first one, this process itself has imports to do
                ratios.append(first / second)
            print(
                f"first {seconds[0]:.2f} s, of which imports {imports[0]:.2f} s; without imports: first "
                f"{first:.2f} s, second {second:.2f} s, third {third:.2f} s; ratio {first / second:.1f}"
                + ("" if pair else " (not counted: this process imports too)")
            )
    report("the first evaluation of a live policy against the second, without imports", ratios)


if __name__ == "__main__":
    main()
