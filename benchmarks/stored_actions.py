"""What it costs to keep every episode's actions on Meta-World: CPU time with and without, and bytes an episode.

Both ways run the same episodes in turn, in one process, through Proctor's own loop and into its own store; the
clock is this process's CPU time, so neither waiting for the disk nor other programs count.

Run: .venv/bin/python benchmarks/stored_actions.py
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "disable")

from figures import report

from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.engine.meter import Meter
from proctor.engine.rollout import LocalActor, PolicyView, run_episode
from proctor.plan import make_plan
from proctor.policies.baselines import ExpertPolicy, RandomPolicy
from proctor.policies.protocol import Policy
from proctor.store.episodes import EpisodeTable
from proctor.store.schema import EpisodeRecord

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
    ratios, kept, steps = [], [], []
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
                size = len(tables[1].packed_trajectory(record.key))
                kept.append(size)
                steps.append(record.steps)
            simulator.close()
        for table in tables:
            table.__exit__(None, None, None)
    report(
        f"CPU time with stored actions against without, {type(policy).__name__}",
        statistics.quantiles(ratios, n=4),
        absolute=f"quartiles of {len(ratios)} episodes; {statistics.mean(kept):,.0f} bytes an episode of "
        f"{statistics.mean(steps):.0f} steps",
    )


if __name__ == "__main__":
    main()
