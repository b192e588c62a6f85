"""Is `proctor autotune` right? Its advice against other settings, and its prediction against the run.

    python benchmarks/autotune.py CHECKPOINT [--device=cuda] [--rounds=2] [--episodes=96] [--chunk=10] [--scaling]

CHECKPOINT is a LeRobot checkpoint, or `expert` or `random`. After autotune, the recommended settings and at least
four others run in turn, round by round, so that a machine whose speed changes treats all alike. Printed: steps a
second once all workers are at work, as a share of the best; the prediction over what the recommended run did.
With --scaling: the same for 1, 2, 4, ... workers, as a share of ideal scaling from one.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from figures import report

from proctor.config.load import build_settings
from proctor.config.registry import POLICIES
from proctor.engine.evaluation import evaluate_settings
from proctor.engine.interrupts import Interrupts
from proctor.events import Progress, Watcher
from proctor.machine.resources import usable_cores
from proctor.report.console import PatientConsole
from proctor.tuning.advice import Advice, make_advice
from proctor.tuning.report import print_advice

TASKS = "reach-v3,push-v3"
EPISODE_STEPS = 250

Setting = tuple[int, int, str]
"""Workers, rows in a forward pass, placement."""


class SteadyPace(Watcher):
    """Steps a second from when every worker has finished something to when the first has nothing left to do."""

    def __init__(self) -> None:
        self._ticks: list[tuple[float, int]] = []
        self.workers: list[int] = []

    def progress(self, progress: Progress) -> None:
        self.workers.append(progress.workers)
        if progress.workers <= progress.ended <= progress.total - progress.workers:
            self._ticks.append((time.monotonic(), progress.steps))

    def steps_per_second(self) -> float:
        if len(self._ticks) < 2:
            sys.exit("it was over before all workers were at work for a while: use more --episodes")
        (start, first), (end, last) = self._ticks[0], self._ticks[-1]
        return (last - first) / (end - start)


def tree(args: argparse.Namespace, episodes: int, setting: Setting) -> dict[str, Any]:
    workers, rows, placement = setting
    policy: dict[str, Any] = {"type": args.checkpoint, "placement": placement}
    if args.checkpoint not in POLICIES:
        policy = {
            "path": args.checkpoint,
            "n_action_steps": args.chunk,
            "device": args.device,
            "placement": placement,
        }
        policy |= {"batch_size": rows}
    return {
        "policy": policy,
        "env": {"type": "metaworld", "task": TASKS, "episode_length": args.steps},
        "eval": {"n_episodes": max(1, episodes // 2), "batch_size": workers},
        "display": "none",
    }


def run(args: argparse.Namespace, setting: Setting, episodes: int = 0) -> tuple[float, SteadyPace]:
    # Enough for a stretch in which all are at work.
    episodes = max(episodes or args.episodes, 4 * setting[0])
    pace = SteadyPace()
    with tempfile.TemporaryDirectory() as scratch:
        wanted = tree(args, episodes, setting) | {"output_dir": f"{scratch}/run"}
        evaluation = evaluate_settings(build_settings(wanted), [pace])
        if evaluation.error is not None:
            raise evaluation.error
    return pace.steps_per_second(), pace


def advise(args: argparse.Namespace) -> tuple[Advice, float]:
    begun = time.monotonic()
    with ExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        interrupts = stack.enter_context(Interrupts())
        settings = build_settings(tree(args, 10_000, (0, 0, "auto")))
        advice = make_advice(settings, logs, stack, interrupts, lambda what: None)
    return advice, time.monotonic() - begun


def others(advice: Advice, cores: int) -> list[Setting]:
    """Return settings that a user might have guessed."""
    rows = advice.best.choice.rows
    default = advice.measured.policy.spec.batch
    place = advice.best.choice.placement
    if advice.measured.policy.spec.on_gpu:
        return [
            (cores, default, place),
            (cores // 2, default, place),
            (2 * cores, default, place),
            (2 * cores, 2 * default, place),
            (4 * cores, 2 * default, place),
        ]
    other = "worker" if place == "central" else "central"
    return [
        (1, rows, place),
        (cores, rows, place),
        (cores, rows, other),
        (cores + 1, rows, place),
        (2 * cores, rows, place),
        (4 * cores, rows, place),
    ]


def compare(args: argparse.Namespace) -> None:
    advice, seconds = advise(args)
    print_advice(PatientConsole(width=110), advice, "")
    print(f"autotune took {seconds:.0f} s", flush=True)
    choice = advice.best.choice
    best: Setting = (choice.workers, choice.rows, choice.placement)
    settings = list(dict.fromkeys([best, *others(advice, usable_cores())]))
    rates: dict[Setting, list[float]] = {setting: [] for setting in settings}
    for round_ in range(args.rounds):
        for setting in settings[round_ % len(settings) :] + settings[: round_ % len(settings)]:
            rates[setting].append(run(args, setting)[0])
            print(f"  {describe(setting)}: {rates[setting][-1]:.1f} steps/s", flush=True)
    medians = {setting: statistics.median(found) for setting, found in rates.items()}
    top = max(medians.values())
    for setting, rate in sorted(medians.items(), key=lambda item: -item[1]):
        mark = "  <- recommended" if setting == best else ""
        spread = f"{min(rates[setting]):.1f} to {max(rates[setting]):.1f}"
        print(f"{describe(setting)}: {rate:.1f} steps/s ({spread}), {rate / top:.2f} of the best{mark}")
    what = f"of autotune, {args.checkpoint}, {usable_cores()} cores"
    others_best = max(settings, key=lambda setting: medians[setting])
    report(
        f"the recommended settings {what}, against the best of {len(settings)}",
        [own / peer for own, peer in zip(rates[best], rates[others_best], strict=True)],
        goal=0.9,
        absolute=f"{describe(best)}: {medians[best]:,.0f} steps/s; {describe(others_best)}: {top:,.0f}",
    )
    report(
        f"the prediction {what}, over the run",
        [advice.best.steps_per_second / rate for rate in rates[best]],
        absolute=f"the model alone {advice.modelled / medians[best]:.2f}; autotune took {seconds:.0f} s",
    )
    rate, pace = run(args, (0, choice.rows, "auto"))
    print(f"batch_size=0: {rate:.1f} steps/s, workers {pace.workers[0]} -> {pace.workers[-1]}", flush=True)


def scale(args: argparse.Namespace) -> None:
    cores = usable_cores()
    counts = sorted({1, *[2**power for power in range(1, 8) if 2**power <= cores], cores, 2 * cores})
    rates: dict[int, list[float]] = {workers: [] for workers in counts}
    for _ in range(args.rounds):
        for workers, found in rates.items():
            found.append(run(args, (workers, 0, "auto"), max(8, args.episodes * workers // (2 * cores)))[0])
    medians = {workers: statistics.median(found) for workers, found in rates.items()}
    for workers, rate in medians.items():
        ideal = medians[1] * min(workers, cores)
        report(
            f"{args.checkpoint} on Meta-World, {workers} workers on {cores} cores, against ideal scaling",
            [found / (one * min(workers, cores)) for found, one in zip(rates[workers], rates[1], strict=True)],
            absolute=f"{rate:,.0f} against {ideal:,.0f} steps/s",
        )


def describe(setting: Setting) -> str:
    return f"{setting[0]} workers, batch {setting[1]}, {setting[2]}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=0, help="[96; of a built-in policy, 48 per core]")
    parser.add_argument("--chunk", type=int, default=10)
    parser.add_argument("--steps", type=int, default=EPISODE_STEPS)
    parser.add_argument("--scaling", action="store_true")
    args = parser.parse_args()
    args.episodes = args.episodes or (48 * usable_cores() if args.checkpoint in POLICIES else 96)
    (scale if args.scaling else compare)(args)


if __name__ == "__main__":
    main()
