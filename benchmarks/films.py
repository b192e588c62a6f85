"""Seconds per video: `proctor film` of a run's failures against filming them while they run; and equal frames.

Three ways to the videos of the same failures, each a command with a fresh process:

- *after*: the plan runs undrawn, then `proctor film` replays and draws its failures;
- *the same episodes, as they run*: a run of these failures alone, filmed as it goes on, less the same run undrawn;
- *all, as they run*: nobody knows beforehand what will fail, so every episode of the plan is drawn, and the videos
  of failures are kept, less the plan undrawn.

Run: .venv/bin/python benchmarks/films.py --task=mt50 --episodes=10
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
from figures import report

from proctor.plan import as_choice
from proctor.store.outcomes import FAILURE
from proctor.store.stored_run import StoredRun


class Round(NamedTuple):
    """Seconds that each way took, and what there was to film."""

    undrawn: float
    film: float
    same: float
    all: float
    failures: int
    episodes: int


def main() -> None:
    """Print seconds per video of each way, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=4, help="of each task [4]")
    parser.add_argument("--task", default="mt10", help="tasks [mt10]")
    parser.add_argument("--size", type=int, default=480, help="side of the videos in pixels [480]")
    parser.add_argument("--fps", type=int, default=30, help="most frames a second [30]")
    parser.add_argument("--policy", default="--policy.path=proctor/metaworld-mt50", help="flag that names it")
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    size = [f"--env.visualization_width={given.size}", f"--env.visualization_height={given.size}"]
    plan = [
        "eval", given.policy, "--env.type=metaworld", f"--env.task={given.task}", "--env.obs_type=state",
        f"--eval.n_episodes={given.episodes}", f"--eval.video_fps={given.fps}", "--display=none", *size,
    ]  # fmt: skip
    rounds = []
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory() as folder:
            rounds.append(measure(plan, given.fps, Path(folder)))
    number, episodes = rounds[0].failures, rounds[0].episodes
    undrawn = statistics.median(one.undrawn for one in rounds)
    words = f"{number} failures of {episodes} episodes, which take {undrawn:.1f} s undrawn; all frames equal"
    report("a video by proctor film", [one.film / number for one in rounds], "s", absolute=words)
    report(
        "filming the failures as they run, if one knew them, against proctor film",
        [one.same / one.film for one in rounds],
    )
    report("filming all to keep the failures against proctor film", [one.all / one.film for one in rounds])


def measure(plan: list[str], fps: int, place: Path) -> Round:
    """Go all three ways once; their frames must be equal."""
    during = ["--eval.store_actions=false"]
    undrawn = seconds(*plan, f"--output_dir={place / 'undrawn'}")
    run = StoredRun.open(place / "undrawn")
    failures = run.plan.at(run.ended.at(FAILURE))
    if not failures:
        sys.exit(f"none of {len(run.plan)} episodes failed: there is nothing to film. Use more episodes.")
    chosen = f"--only={as_choice(failures)}"
    film = seconds("film", str(place / "undrawn"), f"--fps={fps}")
    alone = seconds(*plan, chosen, f"--output_dir={place / 'alone'}")
    same = seconds(*plan, chosen, "--eval.video=all", *during, f"--output_dir={place / 'same'}")
    all_of_them = seconds(*plan, "--eval.video=failures", *during, f"--output_dir={place / 'all'}")
    equal = [frames_equal(place, episode.key) for episode in failures]
    assert all(equal), f"frames equal to those filmed during the run: {sum(equal)} of {len(failures)} videos"
    return Round(undrawn, film, same - alone, all_of_them - undrawn, len(failures), len(run.plan))


def seconds(*arguments: str) -> float:
    """Return how long a command takes by the clock."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "proctor", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"proctor {' '.join(arguments)}: status {done.returncode}\n{done.stderr}")
    return time.perf_counter() - began


def frames_equal(place: Path, key: tuple[str, int, int]) -> bool:
    """Whether an episode's video, made by film, has the frames of both that were made during a run."""
    group, task_id, index = key
    name = f"videos/{group}_{task_id}/eval_episode_{index}.mp4"
    after, *others = (pictures(place / run / name) for run in ("undrawn", "same", "all"))
    return all(len(after) == len(other) and all(map(np.array_equal, after, other)) for other in others)


def pictures(video: Path) -> list[np.ndarray]:
    """Return the frames of a video."""
    with av.open(str(video)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


if __name__ == "__main__":
    main()
