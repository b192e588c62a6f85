"""On a GPU: how near to the limit of drawing Proctor runs LeRobot's ACT on Meta-World.

    python benchmarks/gpu.py [episodes]

The limit is measured in the same run, before and after: as many bare processes as there are workers, each stepping
and drawing as fast as it can, with no policy. The policy draws once a chunk (its camera, 480 px), so drawings a
second are questions a second. Printed are the shares of the limit, how full the batches were, the device's
utilisation, and whether digests are equal for 4 and 16 workers, and for two hosts.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from against_lerobot import save_checkpoint
from figures import report

from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.benchmarks.rendering import find_renderer
from proctor.config.load import build_settings
from proctor.engine.evaluation import evaluate_settings
from proctor.events import Progress, Watcher
from proctor.machine.resources import usable_cores
from proctor.results import Evaluation
from proctor.types import IMAGE, NO_LOOK, Episode

TASKS = "reach-v3,push-v3"
CHUNK = 10
LIMIT_SECONDS = 12


def draw_alone(barrier: Any, counts: Any, place: int) -> None:
    """What a worker does without a policy: ten steps, one drawing."""
    benchmark = MetaWorld(MetaWorldSettings(type="metaworld", task="reach-v3"))
    (task,) = benchmark.tasks()
    simulator = benchmark.make_simulator(task)
    look = frozenset({IMAGE})
    simulator.reset(Episode(task, 0, place), look)
    simulator.observe()
    barrier.wait()
    end = time.monotonic() + LIMIT_SECONDS
    frames = steps = 0
    action = np.zeros(4)
    while time.monotonic() < end:
        for step in range(CHUNK):
            simulator.step(action, look if step == CHUNK - 1 else NO_LOOK)
        simulator.observe()
        frames += 1
        steps += CHUNK
        if steps + CHUNK > task.max_steps:
            simulator.reset(Episode(task, 0, place), look)
            steps = 0
    counts[place] = frames


def drawing_limit(processes: int) -> float:
    context = multiprocessing.get_context("spawn")
    barrier, counts = context.Barrier(processes), context.Array("i", processes)
    workers = [context.Process(target=draw_alone, args=(barrier, counts, place)) for place in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return float(sum(counts[:])) / LIMIT_SECONDS


class SteadyPace(Watcher):
    """Steps a second while every worker has finished something and has something left to do."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._ticks: list[tuple[float, int]] = []

    def progress(self, progress: Progress) -> None:
        if self._workers <= progress.ended <= progress.total - self._workers:
            self._ticks.append((time.monotonic(), progress.steps))

    def steps_per_second(self) -> float:
        (start, first), (end, last) = self._ticks[0], self._ticks[-1]
        return (last - first) / (end - start)


class Utilisation:
    """The device's own figure, sampled while it lasts."""

    def __enter__(self) -> Utilisation:
        self.samples: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        query = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
        while not self._over.wait(1.0):
            try:
                self.samples.append(float(subprocess.check_output(query, text=True).split()[0]))
            except (OSError, ValueError, subprocess.CalledProcessError):
                return

    def median(self) -> str:
        return f"{statistics.median(self.samples):.0f} %" if self.samples else "unknown"


def run(place: Path, checkpoint: Path, workers: int, episodes: int, **policy: Any) -> tuple[Evaluation, float]:
    pace = SteadyPace(workers)
    tree = {
        "policy": {"path": str(checkpoint), "device": "cuda", "n_action_steps": CHUNK, **policy},
        "env": {"type": "metaworld", "task": TASKS},
        "eval": {"n_episodes": episodes // 2, "batch_size": workers},
        "output_dir": str(place),
    }
    evaluation = evaluate_settings(build_settings(tree), [pace])
    if evaluation.error is not None:
        raise evaluation.error
    return evaluation, pace.steps_per_second() / CHUNK


def report_pace(
    name: str, place: Path, evaluation: Evaluation, rate: float, limits: list[float], use: str
) -> None:
    """Report drawings a second as a share of the limit, as it was just before and just after."""
    log = "".join(file.read_text() for file in (place / "logs").glob("host*.log"))
    found = re.findall(r"answered (\d+) questions in (\d+)", log)
    questions, calls = sum(int(pair[0]) for pair in found), sum(int(pair[1]) for pair in found)
    timing = evaluation.info["timing"]
    spans = {name: timing[f"{name}_s"] for name in ("simulate", "draw", "wait", "reset", "build")}
    total = sum(spans.values())
    shares = ", ".join(f"{name} {100 * value / total:.0f} %" for name, value in spans.items())
    rows, batch = questions / max(1, calls), evaluation.info["run"]["identity"]["policy"]["batch"]
    report(
        f"drawings a second on the GPU, {name}, against bare processes that draw",
        [rate / limit for limit in limits],
        absolute=f"{rate:.0f} against {statistics.fmean(limits):.0f}, {rate * CHUNK / 500:.2f} episodes/s; "
        f"{rows:.1f} rows a pass of {batch}; GPU in use {use}; workers: {shares}",
    )


def digests(evaluation: Evaluation) -> dict[Any, tuple[str | None, str | None]]:
    return {record.key: record.digests for record in evaluation.records}


def main() -> None:
    os.environ.update(find_renderer().env)
    episodes = int(sys.argv[1]) if len(sys.argv) > 1 else 192
    cores = usable_cores()
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint = Path(scratch) / "checkpoint"
        save_checkpoint(checkpoint)
        limits = [drawing_limit(cores)]
        print(f"limit: {limits[0]:.0f} drawings/s by {cores} processes without a policy", flush=True)
        for workers, batch in ((cores, 16), (2 * cores, 16), (4 * cores, 32)):
            place = Path(scratch) / f"{workers}-{batch}"
            with Utilisation() as use:
                evaluation, rate = run(place, checkpoint, workers, max(episodes, 4 * workers), batch_size=batch)
            limits.append(drawing_limit(cores))
            what = f"{workers} workers, batch {batch}"
            report_pace(what, place, evaluation, rate, limits[-2:], use.median())
        few, many, hosts = (
            run(Path(scratch) / name, checkpoint, workers, 32, device=device)[0]
            for name, workers, device in (("4", 4, "cuda"), ("16", 16, "cuda"), ("two", 16, "cuda:0,cuda:0"))
        )
        same = digests(few) == digests(many) == digests(hosts)
        assert same, "digests differ for 4 workers, 16 workers and two hosts"
        distinct = len(set(digests(few).values()))
        print(f"digests equal at 4 and 16 workers and with two hosts; {distinct} of 32 distinct")


if __name__ == "__main__":
    main()
