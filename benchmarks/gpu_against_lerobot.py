"""On a GPU: an ACT of LeRobot's default size through `lerobot-eval` and through Proctor, in turn; and MT50 x 10.

    python benchmarks/gpu_against_lerobot.py [--rounds=2] [--steps=1,50]     about 8 minutes on an H200

At `n_action_steps` of 1 and 50, on reach-v3: LeRobot 8 episodes in a batch of 8, Proctor 24, as commands of their
own; ratios are of seconds an episode (`eval_s` of either side's eval_info.json), and who goes first changes. Then
Proctor's MT50 x 10 at 50: the evaluation, and the whole command. How busy the GPU was is what its driver says.
Proctor's episodes must be equal from run to run, to the bit. Nothing counts drawings here, so that a sitecustomize
of the machine's own stays in force; LEROBOT_EVAL_VARIABLES="A=1 B=2" are variables for `lerobot-eval` alone.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from against_lerobot import Measurements, measure, save_checkpoint
from figures import report
from gpu import Utilisation

OURS, THEIRS = 24, 8
AIMS = {1: 5.0, 50: None}
EVALUATION_AIM, COMMAND_AIM = 25.0, 35.0
"""Seconds for MT50 x 10."""


def command(side: str, checkpoint: Path, steps: int, task: str, episodes: int, place: Path) -> list[str]:
    """Return the command of a side: LeRobot's own flags for both."""
    start = {
        "LeRobot": ["-m", "lerobot.scripts.lerobot_eval", f"--eval.batch_size={THEIRS}"],
        "Proctor": ["-m", "proctor", "eval", "--display=none"],
    }
    return [
        *(sys.executable, *start[side], f"--policy.path={checkpoint}", "--policy.device=cuda"),
        *(f"--policy.n_action_steps={steps}", "--env.type=metaworld", f"--env.task={task}"),
        *(f"--eval.n_episodes={episodes}", "--seed=1000", f"--output_dir={place}"),
    ]


def variables_of(side: str) -> dict[str, str]:
    """Return the environment variables that a side is given beside those that are set."""
    words = os.environ.get("LEROBOT_EVAL_VARIABLES", "").split() if side == "LeRobot" else []
    return dict(word.split("=", 1) for word in words)


def an_episode(one: Measurements) -> float:
    """Return its seconds."""
    return one.eval_s / len(one.successes)


def compare(steps: int, rounds: int, run: Callable[[str, int, str, int], tuple[Measurements, str]]) -> None:
    """Run both sides in turn on one task, and report."""
    found: dict[str, list[Measurements]] = {"Proctor": [], "LeRobot": []}
    busy = dict.fromkeys(found, "")
    for number in range(rounds):
        for side in list(found)[:: -1 if number % 2 else 1]:
            one, busy[side] = run(side, steps, "reach-v3", OURS if side == "Proctor" else THEIRS)
            found[side].append(one)
    ours, theirs = found.values()
    assert all(one.digests == ours[0].digests for one in ours), "Proctor's episodes differ from run to run"
    own, peer = (statistics.median(map(an_episode, side)) for side in (ours, theirs))
    report(
        f"seconds an episode on the GPU against lerobot-eval, n_action_steps={steps}",
        [an_episode(theirs_) / an_episode(one) for one, theirs_ in zip(ours, theirs, strict=True)],
        goal=AIMS.get(steps),
        absolute=f"{own:.2f} against {peer:.2f} s; GPU in use {busy['Proctor']} against {busy['LeRobot']}",
    )


def whole_suite(rounds: int, run: Callable[[str, int, str, int], tuple[Measurements, str]]) -> None:
    """Run MT50 x 10, and report."""
    found, busy = [], ""
    for _ in range(rounds):
        one, busy = run("Proctor", 50, "mt50", 10)
        found.append(one)
    assert all(one.digests == found[0].digests for one in found), "Proctor's episodes differ from run to run"
    what = "MT50 x 10 on the GPU, n_action_steps=50"
    use = f"GPU in use {busy}"
    report(f"{what}, the evaluation", [one.eval_s for one in found], "s", EVALUATION_AIM, use)
    report(f"{what}, the command", [one.wall for one in found], "s", COMMAND_AIM)


def main() -> None:
    """Measure and print."""
    from proctor.benchmarks.rendering import find_renderer

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", default="1,50", help="values of n_action_steps, with commas [1,50]")
    given = parser.parse_args()
    os.environ.update(find_renderer().env)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        save_checkpoint(scratch / "checkpoint")

        def run(side: str, steps: int, task: str, episodes: int) -> tuple[Measurements, str]:
            place = Path(tempfile.mkdtemp(dir=scratch)) / "run"
            wanted = command(side, scratch / "checkpoint", steps, task, episodes, place)
            with Utilisation() as use:
                one = measure(wanted, place, scratch, counts=False, variables=variables_of(side))
            return one, use.median()

        for steps in map(int, given.steps.split(",")):
            compare(steps, given.rounds, run)
        whole_suite(given.rounds, run)


if __name__ == "__main__":
    main()
