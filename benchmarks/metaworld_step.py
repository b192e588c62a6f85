"""Meta-World's environments: the quick ones against Meta-World's own, and against MuJoCo with nothing around it.

    python benchmarks/metaworld_step.py                    all fifty tasks, and builds
    python benchmarks/metaworld_step.py reach-v3 push-v3   these tasks
    python benchmarks/metaworld_step.py builds             builds only

CPU time, so that other processes disturb little. Per task all three take turns, round by round, on the same
actions from the same layout; who goes first changes. MuJoCo alone moves the hand in the same way, with no
observation and no reward.
"""

from __future__ import annotations

import importlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import mujoco
import numpy as np
from figures import report
from numpy.typing import NDArray

from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.benchmarks.metaworld.tasks import MT50
from proctor.types import NO_LOOK, Episode, Task

ROUNDS, STEPS = 7, 100
GOAL = 1.7


def simulator(name: str, stock: bool) -> tuple[Any, Task]:
    benchmark = MetaWorld(MetaWorldSettings(type="metaworld", task=name, obs_type="state", stock=stock))
    (task,) = benchmark.tasks()
    return benchmark.make_simulator(task), task


def spent(work: Callable[[], None]) -> float:
    """Seconds of CPU."""
    start = time.process_time()
    work()
    return time.process_time() - start


@dataclass(frozen=True)
class Costs:
    """Microseconds of a step, and milliseconds of a reset: medians over rounds."""

    stock: float
    quick: float
    limit: float
    stock_reset: float
    quick_reset: float


def measure(name: str) -> Costs:
    (stock, task), (quick, _), (bare, _) = simulator(name, True), simulator(name, False), simulator(name, False)
    steps: dict[str, list[float]] = {"stock": [], "quick": [], "limit": []}
    resets: dict[str, list[float]] = {"stock": [], "quick": [], "limit": []}
    for number in range(-1, ROUNDS):  # the first warms up
        actions = np.random.default_rng(number + 1).uniform(-1, 1, (STEPS, 4)).astype(np.float32)
        episode = Episode(task, 0, number + 1)
        turns = [("stock", stock), ("quick", quick), ("limit", bare)]
        for side, one in turns if number % 2 else reversed(turns):
            reset = spent(partial(one.reset, episode, NO_LOOK))
            run = only_mujoco if side == "limit" else all_of_it
            taken = run(one._env, actions)
            if number >= 0:
                resets[side].append(reset * 1e3)
                steps[side].append(taken / STEPS * 1e6)
    for one in (stock, quick, bare):
        one.close()
    medians = [statistics.median(steps[side]) for side in ("stock", "quick", "limit")]
    return Costs(*medians, *(statistics.median(resets[side]) for side in ("stock", "quick")))


def all_of_it(env: Any, actions: NDArray[Any]) -> float:
    def run() -> None:
        for action in actions:
            env.step(action)

    return spent(run)


def only_mujoco(env: Any, actions: NDArray[Any]) -> float:
    total = 0.0
    for action in actions:
        env.set_xyz_action(action[:3])
        env.data.ctrl[:] = action[3], -action[3]
        total += spent(lambda: mujoco.mj_step(env.model, env.data, nstep=env.frame_skip))
    return total


def spread(values: list[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return f"{middle:.2f} (quartiles {low:.2f} to {high:.2f}, range {min(values):.2f} to {max(values):.2f})"


def part_steps(names: list[str]) -> None:
    print(f"CPU per step in microseconds, per reset in milliseconds; {ROUNDS} rounds of {STEPS} random actions")
    print(f"  {'task':30}{'stock':>7}{'quick':>7}{'mj_step':>9}{'ratio':>8}{'reset':>8}{'quick':>7}")
    found = []
    for name in names:
        costs = measure(name)
        found.append(costs)
        print(
            f"  {name:30}{costs.stock:7.0f}{costs.quick:7.0f}{costs.limit:9.0f}{costs.stock / costs.quick:8.2f}"
            f"{costs.stock_reset:8.1f}{costs.quick_reset:7.1f}",
            flush=True,
        )
    for what, values in (
        ("stock, microseconds a step", [one.stock for one in found]),
        ("quick, microseconds a step", [one.quick for one in found]),
        ("mj_step alone", [one.limit for one in found]),
    ):
        print(f"  {what}: median {statistics.median(values):.0f}")
    speedups = [c.stock / c.quick for c in found]
    report(
        "Meta-World's steps per CPU-second against its own environments, quartiles of the tasks",
        statistics.quantiles(speedups, n=4) if len(speedups) > 1 else speedups,
        goal=GOAL,
        absolute=f"{min(speedups):.2f} to {max(speedups):.2f}",
    )
    print(f"  most that is possible, stock / mj_step alone: {spread([c.stock / c.limit for c in found])}")
    print(f"  resets, stock / quick: {spread([c.stock_reset / c.quick_reset for c in found])}", flush=True)


SWITCHED = MT50[::5]


def part_builds() -> None:
    """Builds in fresh processes: with no model kept yet, with kept ones, and Meta-World's own."""
    print(
        f"CPU per build in milliseconds, after imports: the first, then the median of {len(SWITCHED)} other tasks"
    )
    with tempfile.TemporaryDirectory() as cache:
        for what, stock in (("quick, nothing kept", ""), ("quick, models kept", ""), ("stock", "stock")):
            command = [sys.executable, __file__, "build", stock]
            done = subprocess.run(
                command, env={**os.environ, "XDG_CACHE_HOME": cache}, capture_output=True, text=True, check=True
            )
            first, *others = map(float, done.stdout.split())
            print(
                f"  {what}: {first:.0f}, then {statistics.median(others):.0f} (at most {max(others):.0f})",
                flush=True,
            )


def build(stock: bool) -> None:
    for module in ("metaworld.env_dict", "scipy.spatial.transform", "proctor.benchmarks.metaworld.simulator"):
        importlib.import_module(module)
    for name in ("reach-v3", *SWITCHED):
        print(spent(lambda name=name: simulator(name, stock)[0].close()) * 1e3)  # type: ignore[misc]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["build", stock]:
            build(bool(stock))
        case ["builds"]:
            part_builds()
        case names:
            part_steps(names or list(MT50))
            if not names:
                part_builds()
