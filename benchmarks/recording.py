"""How many demonstrations a second `proctor record` comes to, as a share of what the simulators alone would.

    python benchmarks/recording.py [DEMONSTRATIONS]

The peer are as many bare processes as there are cores, which step Meta-World's environments with its experts
until every task of mt10 has so many successes, and keep nothing. Both sides play the same layouts, start their
processes, import what they need and build their simulators; they take turns.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
import warnings
from pathlib import Path

from figures import report

from proctor.benchmarks.metaworld.tasks import MT10
from proctor.config.load import build_settings
from proctor.engine.evaluation import evaluate_settings
from proctor.machine.resources import usable_cores

ROUNDS = 3
SEED = 1_000_000
PART = 10


def bare(task: str, first: int, wanted: int) -> int:
    """Play one task, from an episode on, until it has so many successes; returns the steps."""
    warnings.filterwarnings("ignore")
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS
    from metaworld.policies import ENV_POLICY_MAP

    env = ALL_V3_ENVIRONMENTS[task]()
    env._set_task_called, env._partially_observable = True, False
    env.__dict__.pop("sawyer_observation_space", None)
    env._freeze_rand_vec, env.seeded_rand_vec = False, True
    steps, successes, index = 0, 0, first
    while successes < wanted:
        env.seed(SEED + index)
        seen, _ = env.reset()
        expert, index = ENV_POLICY_MAP[task](), index + 1
        for _ in range(500):
            seen, _, _, _, info = env.step(expert.get_action(seen))
            steps += 1
            if info["success"]:
                successes += 1
                break
    return steps


def bare_rate(wanted: int) -> float:
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(usable_cores()) as pool:
        # In parts of ten, so that every core has work to the end.
        parts = [(task, first, min(PART, wanted - first)) for first in range(0, wanted, PART) for task in MT10]
        pool.starmap(bare, parts, chunksize=1)
    return len(MT10) * wanted / (time.monotonic() - began)


def recorded_rate(wanted: int) -> float:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        tree = {
            "policy": {"type": "expert"},
            "env": {"type": "metaworld", "task": "mt10", "obs_type": "state"},
            "eval": {"recording": True, "only_success": True, "demonstrations": wanted, "n_episodes": 10 * wanted},
            "seed": SEED,
            "output_dir": str(Path(directory) / "run"),
            "display": "none",
        }
        evaluation = evaluate_settings(build_settings(tree))
        assert evaluation.error is None
        assert evaluation.recorded == len(MT10) * wanted
        return evaluation.recorded / (time.monotonic() - began)


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    ratios = []
    for number in range(ROUNDS):
        if number % 2:
            limit, ours = bare_rate(wanted), recorded_rate(wanted)
        else:
            ours, limit = recorded_rate(wanted), bare_rate(wanted)
        ratios.append(ours / limit)
        print(f"{ours:.1f} demonstrations/s recorded, {limit:.1f} played by bare processes: {ours / limit:.2f}")
    report(
        f"{len(MT10) * wanted} demonstrations, dataset included, against bare processes of Meta-World's own",
        ratios,
    )


if __name__ == "__main__":
    main()
