"""What copies of a plain Python policy bring: `--policy.placement=auto` against one process that answers for it.

    python benchmarks/placement.py [--episodes=200] [--rounds=3]

The policy is a class with an `act`: NumPy, 6.5 million weights, asked at every step of Meta-World's reach-v3. Both
sides run whole evaluations, start-up and the change of placement included, in turn. The ratio is of steps a
second, and the digests of every episode must be equal.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from figures import report
from numpy.typing import NDArray

from proctor.config.load import build_settings
from proctor.engine.evaluation import evaluate_settings
from proctor.machine.resources import usable_cores

WIDTH = 2530
MANY, GOAL = 16, 10.0
"""On so many cores, and what copies should bring there."""


class Wide:
    """Three layers of random weights; what it does in the world does not matter, only that it takes its time."""

    def __init__(self) -> None:
        draw = np.random.default_rng(0)
        shapes = ((4, WIDTH), (WIDTH, WIDTH), (WIDTH, 4))
        self._layers = [draw.normal(0, shape[0] ** -0.5, shape).astype(np.float32) for shape in shapes]

    def act(self, observation: dict[str, Any]) -> NDArray[np.float32]:
        """Return the next action."""
        found: NDArray[np.float32] = observation["observation.state"].astype(np.float32)[:4]
        for layer in self._layers:
            found = np.tanh(found @ layer)
        return found


def evaluate(placement: str, episodes: int, cores: int) -> tuple[float, Any]:
    """Run an evaluation; returns steps a second of the whole of it, and the digests."""
    with tempfile.TemporaryDirectory() as folder:
        tree = {
            "policy": {"path": f"{Path(__file__)}:Wide", "placement": placement},
            "env": {"type": "metaworld", "task": "reach-v3", "obs_type": "state", "episode_length": 100},
            "eval": {"n_episodes": episodes, "batch_size": cores},
            "output_dir": folder,
            "display": "none",
        }
        began = time.monotonic()
        evaluation = evaluate_settings(build_settings(tree))
        seconds = time.monotonic() - began
        assert evaluation.error is None
        records = list(evaluation.records)
        return sum(one.steps for one in records) / seconds, {one.key: one.digests for one in records}


def main() -> None:
    """Print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    given, cores = parser.parse_args(), usable_cores()
    ratios, paces = [], []
    for number in range(given.rounds):
        found = {}
        for placement in ("central", "auto") if number % 2 else ("auto", "central"):
            found[placement] = evaluate(placement, given.episodes, cores)
        assert found["auto"][1] == found["central"][1], "the placement has changed an episode"
        paces.append((found["auto"][0], found["central"][0]))
        ratios.append(found["auto"][0] / found["central"][0])
    auto, central = (statistics.median(side) for side in zip(*paces, strict=True))
    report(
        f"a Python policy of 6.5 million weights, {cores} cores, against one process that answers for it",
        ratios,
        goal=GOAL if cores >= MANY else None,
        absolute=f"{auto:,.0f} against {central:,.0f} steps/s of whole evaluations, digests equal",
    )


if __name__ == "__main__":
    main()
