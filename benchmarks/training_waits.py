"""How long does training wait for the evaluations beside it?

The trainer of compact policies, with a clock at every step and every checkpoint, on recorded demonstrations of
Meta-World's expert: once without evaluations and once with them, with the same checkpoints, in pairs. What an
evaluation may cost is a share of the cores, never a wait: printed are the pace with evaluations as a share of the
pace without, over the steps during which one ran, what a checkpoint takes to be written, and the longest time
between two steps where none is written.

    make benchmark-training
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figures import report

TIMES = "times.json"


def train_by_the_clock(settings: str) -> None:
    """Be the trainer, and note when each step ended and how long each checkpoint took."""
    from proctor.training.child import begin

    begin()
    from proctor.training.compact.demonstrations import read_demonstrations
    from proctor.training.compact.settings import TrainerSettings
    from proctor.training.compact.trainer import Trainer

    steps: list[float] = []
    saves: list[tuple[float, float]] = []

    class Clocked(Trainer):
        def _steps(self) -> Iterator[Any]:
            for loss in super()._steps():
                steps.append(time.time())
                yield loss

        def _save(self) -> None:
            began = time.time()
            super()._save()
            saves.append((began, time.time()))

    told = TrainerSettings.read(Path(settings))
    Clocked(told, read_demonstrations(Path(told.dataset_root)), lambda line: None).train()
    (Path(told.output_dir).parent / f"{Path(told.output_dir).name}-{TIMES}").write_text(json.dumps([steps, saves]))


@dataclass(frozen=True)
class Pace:
    """What a training's clock showed."""

    steps: Sequence[float]
    saves: Sequence[tuple[float, float]]

    def gaps(self, since: float = 0.0, until: float = float("inf")) -> list[float]:
        """Return the seconds between two steps in a span of time, but for those with a checkpoint in between."""
        pairs = zip(self.steps, self.steps[1:], strict=False)
        return [
            after - before
            for before, after in pairs
            if since <= before
            and after <= until
            and not any(before <= began and ended <= after for began, ended in self.saves)
        ]

    @property
    def writing(self) -> float:
        """The median time of a checkpoint."""
        return statistics.median(ended - began for began, ended in self.saves)


def run(command: Sequence[str]) -> None:
    """Run `proctor`, which must end well."""
    subprocess.run([sys.executable, "-m", "proctor", *command], check=True, stdout=subprocess.DEVNULL)


def train(folder: Path, name: str, flags: Sequence[str]) -> Pace:
    """Train, and return what the clock showed."""
    run(["train", *flags, f"--output_dir={folder / name}", "--display=none"])
    steps, saves = json.loads((folder / f"{name}-{TIMES}").read_text())
    return Pace(steps, [(began, ended) for began, ended in saves])


def evaluated_since(folder: Path) -> float:
    """Return when the first evaluation of a training began."""
    return min(file.stat().st_mtime for file in folder.glob("eval/*/config.yaml"))


def measure(folder: Path, flags: Sequence[str], every: int, number: int) -> tuple[float, Pace, Pace]:
    """Train without and with evaluations; returns the ratio of their paces, and both."""
    alone = train(folder, f"alone-{number}", [*flags, "--eval_freq=0"])
    beside = train(folder, f"beside-{number}", [*flags, f"--eval_freq={every}"])
    busy = beside.gaps(evaluated_since(folder / f"beside-{number}"))
    return statistics.mean(alone.gaps()) / statistics.mean(busy), alone, beside


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["-P"]:  # called as an interpreter, by `proctor train`
        train_by_the_clock(sys.argv[-1])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--width", type=int, default=128, help="of the network")
    arguments = parser.parse_args()
    every = arguments.steps // 6
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        program = folder / "clocked-python"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).absolute()} "$@"\n')
        program.chmod(0o755)
        env = ["--env.type=metaworld", "--env.task=reach-v3", "--env.obs_type=state"]
        run(
            ["record", "--demonstrations=10", "--policy.type=expert", *env,
             f"--output_dir={folder / 'demonstrations'}", "--display=none"]
        )  # fmt: skip
        flags = [
            "--policy.type=compact", f"--policy.python={program}", f"--policy.width={arguments.width}",
            f"--dataset.root={folder / 'demonstrations'}", *env, "--eval.n_episodes=20",
            f"--steps={arguments.steps}", "--batch_size=128", f"--save_freq={every}",
        ]  # fmt: skip
        ratios = []
        for number in range(arguments.pairs):
            ratio, alone, beside = measure(folder, flags, every, number)
            ratios.append(ratio)
            show(alone, beside)
    report("pace of a training with evaluations beside it against without", ratios)


def show(alone: Pace, beside: Pace) -> None:
    """Print what a pair showed."""
    for name, pace in (("without", alone), ("with", beside)):
        gaps = pace.gaps()
        sys.stdout.write(
            f"  {name:<8} between two steps {1000 * statistics.median(gaps):.1f} ms (median), at most "
            f"{1000 * max(gaps):.0f} ms; a checkpoint {1000 * pace.writing:.0f} ms\n"
        )


if __name__ == "__main__":
    main()
