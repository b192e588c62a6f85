"""What it costs to keep every episode's actions on Meta-World: CPU time with and without, and bytes an episode.

Both ways run the same episodes in turn, in one process, through Proctor's own loop and into its own store; the
clock is this process's CPU time, so neither waiting for the disk nor other programs count. What keeping costs is
little beside the simulator's own ups and downs, so its parts are measured alone, too: gathering and packing what a
policy and its simulator said, played without a simulator, and writing it.

Run: .venv/bin/python benchmarks/stored_actions.py
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import tempfile
import time
from itertools import islice
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
    parser.add_argument("--task", default=TASKS, help=f"tasks [{TASKS}]")
    given = parser.parse_args()
    benchmark = MetaWorld(MetaWorldSettings(type="metaworld", task=given.task, obs_type="state"))
    for policy in (ExpertPolicy(), RandomPolicy(benchmark.spec)):
        measure(benchmark, policy, given.episodes)


def measure(benchmark: MetaWorld, policy: Policy, episodes: int) -> None:
    """Run the episodes both ways in turn."""
    views = [PolicyView.of(policy.spec, benchmark.spec, keeps) for keeps in (False, True)]
    ratios, kept, steps, records = [], [], [], []
    actor, meter = LocalActor(policy, benchmark.spec.action_size), Meter()
    with tempfile.TemporaryDirectory() as folder:
        tables = [EpisodeTable(Path(folder) / f"{number}.sqlite") for number in (0, 1)]
        for task in benchmark.tasks():
            simulator = benchmark.make_simulator(task)
            for episode in make_plan([task], episodes, 1000):
                seconds = [0.0, 0.0]
                for way in (0, 1) if episode.index % 2 else (1, 0):
                    began = time.process_time()
                    record: EpisodeRecord = run_episode(simulator, episode, actor, views[way], meter)
                    tables[way].write([record])
                    seconds[way] = time.process_time() - began
                ratios.append(seconds[1] / seconds[0])
                packed = tables[1].packed_trajectory(record.key)
                records.append(dataclasses.replace(record, trajectory=packed))
                kept.append(len(packed))
                steps.append(record.steps)
            simulator.close()
        for table in tables:
            table.__exit__(None, None, None)
    report(
        f"CPU time with stored actions against without, {type(policy).__name__}",
        quartiles(ratios),
        unit="times",
        goal=GOAL,
        absolute=f"quartiles of {len(ratios)} episodes; {statistics.mean(kept):,.0f} bytes an episode of "
        f"{statistics.mean(steps):.0f} steps",
    )
    parts(records, views, type(policy).__name__)


def parts(records: list[EpisodeRecord], views: list[PolicyView], name: str) -> None:
    """Measure what keeping alone costs: episodes gathered and packed once more, and written, with and without."""
    gathering, writing = [], []
    with tempfile.TemporaryDirectory() as folder:
        tables = [EpisodeTable(Path(folder) / f"{number}.sqlite") for number in (0, 1)]
        for number, record in enumerate(records):
            trajectory = unpack_trajectory(record.trajectory)
            spent, written = [0.0, 0.0], [0.0, 0.0]
            for way in (0, 1) if number % 2 else (1, 0):
                began = time.process_time()
                gather(trajectory, views[way])
                spent[way] = time.process_time() - began
                kept = dataclasses.replace(record, trajectory=record.trajectory if way else b"")
                began = time.process_time()
                tables[way].write([kept])
                written[way] = time.process_time() - began
            gathering.append(1000 * (spent[1] - spent[0]))
            writing.append(1000 * (written[1] - written[0]))
        for table in tables:
            table.__exit__(None, None, None)
    words = f"quartiles of {len(records)} episodes"
    report(f"gathering and packing an episode's actions, {name}", quartiles(gathering), "ms", absolute=words)
    report(f"writing an episode's actions, {name}", quartiles(writing), "ms", absolute=words)


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
