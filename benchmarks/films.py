"""Seconds per video: `proctor film` of a run's failures against filming them while they run; and equal frames.

The plan runs once, undrawn. Then in each round, in turn, each a command with a fresh process:

- *after the run*: `proctor film` replays and draws its failures;
- *during the run*: a run of these failures alone, filmed as it goes on, less the same run undrawn;
- with --all, *during the run, all*: nobody knows beforehand what will fail, so every episode of the plan is drawn,
  and the videos of failures are kept, less the plan undrawn.

By default the plan is ten episodes of every task of MT50 in which the policy that comes with Proctor has failed.

Run: .venv/bin/python benchmarks/films.py
A run of 500 episodes: .venv/bin/python benchmarks/films.py --task=mt50 --all --rounds=1
Further flags go to `proctor eval`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import av
import numpy as np
from figures import report

import proctor
from proctor.plan import Plan, as_choice
from proctor.store.outcomes import FAILURE
from proctor.store.stored_run import StoredRun

POLICY = "metaworld-mt50"
DURING = "--eval.store_actions=false"
"""Episodes that cannot be replayed are filmed as they run."""


def hard_tasks() -> str:
    """Return the tasks of MT50 in which the policy that comes with Proctor failed when it was made."""
    checkpoints = Path(proctor.__file__).parent / "policies" / "compact" / "checkpoints"
    outcomes = json.loads((checkpoints / POLICY / "outcomes.json").read_text())
    return ",".join(name for name, task in outcomes["tasks"].items() if not all(task["successes"]))


def main() -> None:
    """Print seconds per video of each way, their ratios, and how many videos have equal frames."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10, help="of each task [10]")
    parser.add_argument("--task", default=hard_tasks(), help="tasks [those in which the policy has failures]")
    parser.add_argument("--size", type=int, default=480, help="side of the videos in pixels [480]")
    parser.add_argument("--fps", type=int, default=30, help="most frames a second [30]")
    parser.add_argument("--rounds", type=int, default=3, help="how often each way is measured [3]")
    parser.add_argument("--all", action="store_true", help="measure filming all to keep the failures, too")
    parser.add_argument("--policy", default=f"--policy.path=proctor/{POLICY}", help="flag that names it")
    given, rest = parser.parse_known_args()
    plan = [
        "eval", given.policy, "--env.type=metaworld", f"--env.task={given.task}", "--env.obs_type=state",
        f"--eval.n_episodes={given.episodes}", f"--eval.video_fps={given.fps}", "--display=none", *rest,
        f"--env.visualization_width={given.size}", f"--env.visualization_height={given.size}",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        Films(Path(folder), plan, given.fps, given.all).measure(given.rounds)


class Films:
    """Makes the videos of one run's failures, in every way."""

    def __init__(self, place: Path, plan: Sequence[str], fps: int, every: bool) -> None:
        self._place, self._plan, self._fps, self._every = place, plan, fps, every
        self._whole = [seconds(*plan, f"--output_dir={place / 'undrawn'}")]
        self._run = StoredRun.open(place / "undrawn")
        self._failures: Plan = self._run.plan.at(self._run.ended.at(FAILURE))
        if not self._failures:
            sys.exit(f"none of {len(self._run.plan)} episodes failed: there is nothing to film. Use other tasks.")

    def measure(self, rounds: int) -> None:
        """Print the figures."""
        number = len(self._failures)
        after, during, everything = list[float](), list[float](), list[float]()
        equal = 0
        for turn in range(rounds):
            here = self._place / str(turn)
            here.mkdir()
            ways = [(after, self._after), (during, self._failures_alone)]
            if self._every:
                ways.append((everything, self._all_of_them))
            for times, way in ways if turn % 2 == 0 else reversed(ways):
                times.append(way(here))
            equal += sum(self._equal(here, episode.key) for episode in self._failures)
        words = f"{number} failures of {len(self._run.plan)} episodes, which take {self._whole[0]:.1f} s undrawn"
        report("a video by proctor film after the run", [one / number for one in after], "s", absolute=words)
        report("a video during the run", [one / number for one in during], "s", absolute=words)
        report("filming failures during the run against proctor film", ratios(during, after), absolute=words)
        if self._every:
            words = f"{statistics.median(everything):.1f} against {statistics.median(after):.1f} s"
            report(
                "filming all to keep the failures against proctor film", ratios(everything, after), absolute=words
            )
        made = number * rounds
        report("videos with equal frames", [equal / made], goal=1.0, absolute=f"{equal} of {made}")
        if equal < made:
            sys.exit(f"{made - equal} of {made} videos have other frames than those filmed during the run")

    def _after(self, here: Path) -> float:
        return seconds("film", str(self._run.path), f"--fps={self._fps}", f"--output_dir={here / 'after'}")

    def _failures_alone(self, here: Path) -> float:
        chosen = f"--only={as_choice(self._failures)}"
        return self._during(here / "same", chosen, "--eval.video=all")

    def _all_of_them(self, here: Path) -> float:
        return self._during(here / "all", "", "--eval.video=failures")

    def _during(self, output: Path, chosen: str, films: str) -> float:
        """Return how much longer a run takes that films as it goes on."""
        plan = [*self._plan, *filter(None, [chosen])]
        undrawn = seconds(*plan, f"--output_dir={output}_undrawn")
        return seconds(*plan, films, DURING, f"--output_dir={output}") - undrawn

    def _equal(self, here: Path, key: tuple[str, int, int]) -> bool:
        """Whether an episode's video, made by film, has the frames of those that were made during a run."""
        group, task_id, index = key
        name = f"videos/{group}_{task_id}/eval_episode_{index}.mp4"
        ways = ("after", "same", "all") if self._every else ("after", "same")
        first, *others = (pictures(here / way / name) for way in ways)
        return all(len(first) == len(other) and all(map(np.array_equal, first, other)) for other in others)


def ratios(ones: Sequence[float], others: Sequence[float]) -> list[float]:
    """Return the ratio of each round."""
    return [one / other for one, other in zip(ones, others, strict=True)]


def seconds(*arguments: str) -> float:
    """Return how long a command takes by the clock."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "proctor", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"proctor {' '.join(arguments)}: status {done.returncode}\n{done.stderr}")
    return time.perf_counter() - began


def pictures(video: Path) -> list[np.ndarray]:
    """Return the frames of a video."""
    with av.open(str(video)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


if __name__ == "__main__":
    main()
