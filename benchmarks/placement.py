"""What copies of a plain Python policy bring: `--policy.placement=auto` against one process that answers for it.

    python benchmarks/placement.py [--episodes=160] [--rounds=3]

The policy is a class with an `act`: NumPy, 6.5 million weights, asked at every step of Meta-World's reach-v3. Both
sides run whole evaluations, start-up and the change of placement included, in turn; `auto` runs as many times the
episodes as there are cores, so that both take about as long. The ratio is of steps a second, and the digests of
the episodes that both have must be equal. The limit is measured in each round, too: as many bare processes as
cores, each with a copy of the policy and a simulator, that play without a pause and keep nothing.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from figures import report
from numpy.typing import NDArray

from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.config.load import build_settings
from proctor.engine.evaluation import evaluate_settings
from proctor.machine.resources import usable_cores
from proctor.types import STATE, Episode

WIDTH = 2530
EPISODE = 100
"""Steps."""
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
            "env": {"type": "metaworld", "task": "reach-v3", "obs_type": "state", "episode_length": EPISODE},
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


BARE_SECONDS = 4.0


def bare_process(barrier: Any, counts: Any, place: int) -> None:
    """Play with a copy of the policy."""
    benchmark = MetaWorld(MetaWorldSettings(type="metaworld", task="reach-v3", obs_type="state"))
    (task,) = benchmark.tasks()
    simulator, policy, look = benchmark.make_simulator(task), Wide(), frozenset({STATE})
    simulator.reset(Episode(task, 0, place), look)
    policy.act(simulator.observe())
    barrier.wait()
    end, steps = time.monotonic() + BARE_SECONDS, 0
    while time.monotonic() < end:
        simulator.step(policy.act(simulator.observe()), look)
        steps += 1
        if steps % EPISODE == 0:
            simulator.reset(Episode(task, 0, place), look)
    counts[place] = steps


def bare(cores: int) -> float:
    """Return the steps a second of bare processes, each on a core of its own."""
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    context = multiprocessing.get_context("spawn")
    barrier, counts = context.Barrier(cores), context.Array("i", cores)
    processes = [context.Process(target=bare_process, args=(barrier, counts, place)) for place in range(cores)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return float(sum(counts[:])) / BARE_SECONDS


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=160)
    parser.add_argument("--rounds", type=int, default=3)
    given, cores = parser.parse_args(), usable_cores()
    paces = []
    for number in range(given.rounds):
        found: dict[str, tuple[float, Any]] = {}
        for placement in ("central", "auto") if number % 2 else ("auto", "central"):
            times = cores if placement == "auto" else 1
            found[placement] = evaluate(placement, times * given.episodes, cores)
        (auto, many), (central, few) = found["auto"], found["central"]
        assert few.items() <= many.items(), "the placement has changed an episode"
        paces.append((auto, central, bare(cores)))
    auto, central, limit = (statistics.median(side) for side in zip(*paces, strict=True))
    report(
        f"a Python policy of 6.5 million weights, {cores} cores, against one process that answers for it",
        [auto / central for auto, central, _ in paces],
        goal=GOAL if cores >= MANY else None,
        absolute=f"{auto:,.0f} against {central:,.0f} steps/s of whole evaluations, digests equal",
    )
    report(
        f"a Python policy of 6.5 million weights, against {cores} bare processes with a copy each",
        [auto / limit for auto, _, limit in paces],
        absolute=f"{auto:,.0f} against {limit:,.0f} steps/s",
    )


if __name__ == "__main__":
    main()
