"""From the command to the first episode, and to the end: `proctor eval` of a single episode of a single step.

    python benchmarks/startup.py                  the policy that comes with Proctor; `--help` and `list`
    python benchmarks/startup.py --lerobot        an ACT of LeRobot's default size (in LeRobot's environment)

What has to happen anyhow is measured beside it in the same rounds, each in a process of its own: to import what
the policy needs and load it, and to import Meta-World, build the simulator and reset it (with LeRobot: and draw).
The first episode cannot end before the slower of the two. Who goes first changes from round to round.
"""

from __future__ import annotations

import argparse
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from figures import report

SHIPPED = "proctor/metaworld-mt50"
HELP_GOAL = 0.3
"""Seconds of CPU."""

LOAD_SHIPPED = """
from proctor.policies.compact.checkpoint import open_checkpoint
from proctor.policies.compact.policy import CHECKPOINTS, CompactPolicy
CompactPolicy(open_checkpoint(CHECKPOINTS / "metaworld-mt50"))
"""
LOAD_LEROBOT = """
import sys
from lerobot.policies.act.modeling_act import ACTPolicy
from lerobot.policies.factory import make_pre_post_processors
policy = ACTPolicy.from_pretrained(sys.argv[1])
make_pre_post_processors(policy.config, pretrained_path=sys.argv[1])
"""
SIMULATE = """
import sys
from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.types import IMAGE, NO_LOOK, Episode
benchmark = MetaWorld(MetaWorldSettings(type="metaworld", task="reach-v3", obs_type=sys.argv[1]))
(task,) = benchmark.tasks()
simulator = benchmark.make_simulator(task)
simulator.reset(Episode(task, 0, 1000), frozenset({IMAGE}) if sys.argv[1] == "pixels" else NO_LOOK)
simulator.observe()
simulator.close()
"""


class Start(NamedTuple):
    """Seconds of a round."""

    first: float
    whole: float
    policy: float
    simulator: float


def seconds(*command: str) -> float:
    """Return how long a command takes by the clock; it must end well."""
    began = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\nexited with {done.returncode}:\n{done.stderr[-2000:]}")
    return time.monotonic() - began


def evaluate(flags: Sequence[str]) -> tuple[float, float]:
    """Run one step of one episode; returns seconds until it had ended, and until the command had."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.time()
        whole = seconds(
            *(sys.executable, "-m", "proctor", "eval", *flags, "--env.type=metaworld", "--env.task=reach-v3"),
            *("--env.episode_length=1", "--eval.n_episodes=1", "--display=none", f"--output_dir={folder}/run"),
        )
        database = sqlite3.connect(f"{Path(folder, 'run', 'run.sqlite').as_uri()}?mode=ro&immutable=1", uri=True)
        ((ended,),) = database.execute("SELECT ended_at FROM episodes").fetchall()
        database.close()
    return ended - began, whole


def cpu_of(*arguments: str) -> float:
    """Return the CPU time of a command of Proctor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds(sys.executable, "-m", "proctor", *arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(flags: Sequence[str], load: Sequence[str], obs_type: str, number: int) -> Start:
    """Measure a round."""
    alone = [[sys.executable, "-c", *load], [sys.executable, "-c", SIMULATE, obs_type]]
    if number % 2:
        apart = [seconds(*command) for command in alone]
        return Start(*evaluate(flags), *apart)
    return Start(*evaluate(flags), *(seconds(*command) for command in alone))


def report_starts(what: str, starts: Sequence[Start]) -> None:
    """Report the times, and the ratios to what cannot be avoided."""
    policy, simulator = (statistics.median(getattr(one, side) for one in starts) for side in Start._fields[2:])
    apart = f"alone: policy with its imports {policy:.2f} s, simulator with its imports {simulator:.2f} s"
    report(f"until the first episode has ended, {what}", [one.first for one in starts], "s", absolute=apart)
    report(f"the whole command, {what}", [one.whole for one in starts], "s")
    report(
        f"the slower of policy and simulator alone against the first episode, {what}",
        [max(one.policy, one.simulator) / one.first for one in starts],
        absolute="1x: nothing is waited for that could go on beside",
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lerobot", action="store_true", help="a LeRobot checkpoint")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if not given.lerobot:
        flags = [f"--policy.path={SHIPPED}", "--env.obs_type=state"]
        starts = [measure(flags, [LOAD_SHIPPED], "state", number) for number in range(-1, given.rounds)]
        report_starts("the policy that comes with Proctor", starts[1:])  # the first fills caches
        for command in ("--help", "list"):
            used = [cpu_of(command) for _ in range(given.rounds)]
            report(f"CPU time of `proctor {command}`", used, "s", goal=HELP_GOAL)
        return
    from against_lerobot import save_checkpoint

    from proctor.benchmarks.rendering import find_renderer

    os.environ.update(find_renderer().env)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = str(Path(folder) / "checkpoint")
        save_checkpoint(Path(checkpoint))
        flags = [f"--policy.path={checkpoint}", "--policy.device=cpu"]
        load = [LOAD_LEROBOT, checkpoint]
        starts = [measure(flags, load, "pixels", number) for number in range(-1, given.rounds)]
    report_starts("a LeRobot checkpoint (ACT)", starts[1:])


if __name__ == "__main__":
    main()
