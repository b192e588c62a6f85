"""What it costs to keep every episode's actions on Meta-World: CPU time with and without, and bytes an episode.

Both ways run the same episodes in turn, in one process, through Proctor's own loop and into its own store; the
clock is this process's CPU time, so neither waiting for the disk nor other programs count. A round goes through
all episodes twice, because the second of two equal ones takes up to 10 % less: each way comes first once. The
first round, which warms simulators up, is not counted. A round's ratio is of sums over its episodes, so the spread
is that of the measurement alone. What keeping costs is little beside the simulator's own ups and downs, so its
parts are measured alone, too: gathering and packing what a policy and its simulator said, played without a
simulator, and writing it.

Run: .venv/bin/python benchmarks/stored_actions.py
"""

from __future__ import annotations

import argparse
import dataclasses
import operator
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import count, islice, product
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "disable")

import numpy as np
from figures import report

from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.engine.meter import Meter
from proctor.engine.rollout import LocalActor, PolicyView, run_episode
from proctor.plan import make_plan
from proctor.policies.baselines import ExpertPolicy, RandomPolicy
from proctor.policies.protocol import Policy
from proctor.store.episodes import EpisodeTable
from proctor.store.schema import EpisodeRecord
from proctor.store.trajectories import Trajectory, unpack_trajectory

GOAL = 1.02
TASKS = "reach-v3,push-v3,pick-place-v3,drawer-open-v3"


def main() -> None:
    """Print the ratio and the bytes for two policies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10, help="of each task [10]")
    parser.add_argument("--rounds", type=int, default=8, help="of all episodes [8]")
    parser.add_argument("--task", default=TASKS, help=f"tasks [{TASKS}]")
    given = parser.parse_args()
    benchmark = MetaWorld(MetaWorldSettings(type="metaworld", task=given.task, obs_type="state"))
    for policy in (ExpertPolicy(), RandomPolicy(benchmark.spec)):
        measure(benchmark, policy, given.episodes, given.rounds)


def measure(benchmark: MetaWorld, policy: Policy, episodes: int, rounds: int) -> None:
    """Run the episodes both ways in turn, and report what that took."""
    views = [PolicyView.of(policy.spec, benchmark.spec, keeps) for keeps in (False, True)]
    actor, meter = LocalActor(policy, benchmark.spec.action_size), Meter()
    simulators = {task.name: benchmark.make_simulator(task) for task in benchmark.tasks()}
    plan = list(make_plan(benchmark.tasks(), episodes, 1000))
    kept: list[EpisodeRecord] = []

    def run(number: int, way: int) -> EpisodeRecord:
        episode = plan[number]
        return run_episode(simulators[episode.task.name], episode, actor, views[way], meter)

    without, with_actions = in_turn(len(plan), rounds, run, kept)
    for simulator in simulators.values():
        simulator.close()
    name = type(policy).__name__
    report(
        f"CPU time with stored actions against without, {name}",
        quartiles(list(map(operator.truediv, with_actions, without))),
        unit="times",
        goal=GOAL,
        absolute=f"quartiles of {rounds} rounds of {len(plan)} episodes, "
        f"{statistics.median(without):.3g} ms each without; "
        f"{statistics.mean(len(one.trajectory) for one in kept):,.0f} bytes an episode of "
        f"{statistics.mean(one.steps for one in kept):.0f} steps",
    )
    parts(kept, views, rounds, name)


def in_turn(
    episodes: int, rounds: int, run: Callable[[int, int], EpisodeRecord], kept: list[EpisodeRecord]
) -> tuple[list[float], list[float]]:
    """Run and write every episode without and with its actions, round after round.

    Args:
        episodes: how many there are.
        rounds: how many are counted, after one that is not.
        run: given an episode's number and 0 or 1 for without and with, makes its record.
        kept: takes the records with actions of one round.

    Returns:
        Without and with: each round's mean, in ms of CPU time an episode.
    """
    spent: tuple[list[float], list[float]] = ([], [])
    unused = count()
    with tempfile.TemporaryDirectory() as folder:
        tables = [EpisodeTable(Path(folder) / f"{way}.sqlite") for way in (0, 1)]
        for turn in range(rounds + 1):
            seconds = [0.0, 0.0]
            for first, number in product((0, 1), range(episodes)):
                for way in (first, 1 - first):
                    began = time.process_time()
                    record = run(number, way)
                    seconds[way] += time.process_time() - began
                    if first and way and not turn:
                        kept.append(record)
                    # A table takes an episode once, so each time it is another.
                    other = dataclasses.replace(record, episode_index=next(unused))
                    began = time.process_time()
                    tables[way].write([other])
                    seconds[way] += time.process_time() - began
            for way in (0, 1) if turn else ():
                spent[way].append(1000 * seconds[way] / 2 / episodes)
        for table in tables:
            table.__exit__(None, None, None)
    return spent


def parts(records: list[EpisodeRecord], views: list[PolicyView], rounds: int, name: str) -> None:
    """Measure what keeping alone costs: episodes gathered and packed once more, and written, with and without."""
    trajectories = [unpack_trajectory(record.trajectory) for record in records]
    both = [[dataclasses.replace(record, trajectory=b"") for record in records], records]

    def gathered(number: int, way: int) -> EpisodeRecord:
        gather(trajectories[number], views[way])
        return both[0][number]  # so that neither way writes any actions

    def written(number: int, way: int) -> EpisodeRecord:
        return both[way][number]

    rounds *= 5  # each is short
    words = f"quartiles of {rounds} rounds of {len(records)} episodes"
    for what, run in (("gathering and packing", gathered), ("writing", written)):
        without, with_actions = in_turn(len(records), rounds, run, [])
        more = list(map(operator.sub, with_actions, without))
        report(f"{what} an episode's actions, {name}", quartiles(more), "ms", absolute=words)


def gather(trajectory: Trajectory, view: PolicyView) -> None:
    """Play what an episode's digests are told, with made-up observations of the right form."""
    digests = view.digests()
    seen = {one.source: np.zeros(one.shape, one.dtype) for one in view.shown}
    rows = iter([row for actions in trajectory.actions for row in actions])
    for length in trajectory.chunks.tolist():
        for key, array in seen.items():
            digests.saw(0, key, array)
        digests.asked(length)
        for action in islice(rows, length):
            digests.acted(action)
    ends = dict(zip(("terminated", "truncated", "limited"), trajectory.ending, strict=True))
    digests.ended(trajectory.rewards, trajectory.succeeded is not None, trajectory.succeeded, **ends)


def quartiles(values: list[float]) -> list[float]:
    """Return what a figure shows of many values: the median between the quartiles."""
    return statistics.quantiles(values, n=4)


if __name__ == "__main__":
    main()
