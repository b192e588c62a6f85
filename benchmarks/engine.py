"""What the engine costs, and how near to the machine's limit it runs.

    python benchmarks/engine.py            all parts
    python benchmarks/engine.py host       (a) central host against Gymnasium's AsyncVectorEnv
    python benchmarks/engine.py metaworld  (b) experts on Meta-World against bare processes
    python benchmarks/engine.py workers    (c) start-up and memory of workers

Both sides run in the same minute, taking turns, and what is printed is their ratio with its spread: the
absolute figures depend on the machine and on what else it does.
"""

from __future__ import annotations

import multiprocessing
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from trivial import TrivialEnv, decide

from proctor.benchmarks.gl import find_renderer
from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.benchmarks.protocol import Episode
from proctor.config.load import build_settings
from proctor.engine.cores import usable_cores
from proctor.engine.evaluation import evaluate_settings
from proctor.engine.events import Progress, Watcher
from proctor.errors import NoPicturesError
from proctor.policies.expert import ExpertPolicy

HERE = Path(__file__).parent
ROUNDS = 7


class Pace(Watcher):
    """Steps a second between the moment when every worker has finished something and the last tick."""

    def __init__(self, warm: int) -> None:
        self._warm = warm
        self._ticks: list[tuple[float, int]] = []

    def progress(self, progress: Progress) -> None:
        if progress.ended >= self._warm and progress.ended < progress.total:
            self._ticks.append((time.monotonic(), progress.steps))

    def steps_per_second(self) -> float:
        (start, first), (end, last) = self._ticks[0], self._ticks[-1]
        return (last - first) / (end - start)


def run_proctor(tree: dict[str, Any], warm: int) -> float:
    with tempfile.TemporaryDirectory() as directory:
        pace = Pace(warm)
        settings = build_settings({**tree, "output_dir": directory, "display": "none"})
        evaluation = evaluate_settings(settings, [pace])
        assert evaluation.error is None
        assert len(evaluation.records) == len(evaluation.plan)
        return pace.steps_per_second()


def compare(name: str, ours: Callable[[], float], theirs: Callable[[], float], goal: float) -> None:
    """Run both in turn, who goes first changing, and print the ratio of each round's pair."""
    pairs = []
    for number in range(ROUNDS):
        if number % 2:
            peer = theirs()
            pairs.append((ours(), peer))
        else:
            own = ours()
            pairs.append((own, theirs()))
    ratios = sorted(a / b for a, b in pairs)
    quartiles = statistics.quantiles(ratios, n=4)
    print(
        f"  {name}: {statistics.median(a for a, _ in pairs):,.0f} against "
        f"{statistics.median(b for _, b in pairs):,.0f} steps/s; ratio {statistics.median(ratios):.2f} "
        f"(quartiles {quartiles[0]:.2f} to {quartiles[2]:.2f}, range {ratios[0]:.2f} to {ratios[-1]:.2f}, "
        f"{ROUNDS} rounds), goal {goal:g}",
        flush=True,
    )


def gymnasium_pace(n_envs: int, chunk: int, seconds: float = 4.0) -> float:
    """Steps a second of AsyncVectorEnv with shared memory, the policy asked once per `chunk` steps."""
    from gymnasium.vector import AsyncVectorEnv

    envs = AsyncVectorEnv([TrivialEnv] * n_envs, shared_memory=True)
    observations, _ = envs.reset(seed=0)
    steps, warm_until = 0, time.monotonic() + 0.5
    start = stop = 0.0
    while not stop:
        actions = decide(observations)
        for _ in range(chunk):
            observations, *_ = envs.step(actions)
        moment = time.monotonic()
        if moment < warm_until:
            continue
        if not start:
            start = moment
            continue
        steps += chunk * n_envs
        if moment - start > seconds:
            stop = moment
    envs.close()
    return steps / (stop - start)


def proctor_pace(workers: int, chunk: int, episodes: int) -> float:
    tree = {
        "policy": {
            "path": f"{HERE / 'trivial.py'}:TrivialPolicy",
            "kwargs": {"chunk": chunk},
            "placement": "central",
        },
        "env": {"type": f"{HERE / 'trivial.py'}:Trivial", "task": "trivial"},
        "eval": {"n_episodes": episodes, "batch_size": workers},
    }
    return run_proctor(tree, warm=2 * workers)


def part_host() -> None:
    print("(a) trivial simulator and policy: Proctor's central host against Gymnasium's AsyncVectorEnv")
    for workers in (2, 8):
        for chunk, goal, episodes in ((1, 1.0, 120), (10, 3.0, 500)):
            compare(
                f"{workers} simulators, chunks of {chunk}",
                lambda w=workers, c=chunk, e=episodes: proctor_pace(w, c, e),  # type: ignore[misc]
                lambda w=workers, c=chunk: gymnasium_pace(w, c),  # type: ignore[misc]
                goal,
            )


TASKS = ("reach-v3", "door-open-v3", "drawer-close-v3", "window-open-v3")


def bare_process(share: int, shares: int, n_episodes: int, ready: Any, results: Any) -> None:
    """One process of the limit: the same simulator and expert, stepped with nothing around them."""
    benchmark = MetaWorld(MetaWorldSettings(type="metaworld", task=",".join(TASKS), obs_type="state"))
    expert, look = ExpertPolicy(), frozenset({"observation.environment_state"})
    generator, steps = np.random.default_rng(0), 0
    simulators = [(task, benchmark.make_simulator(task)) for task in benchmark.tasks()]
    ready.wait()
    start = time.monotonic()
    for task, simulator in simulators:
        for index in range(share, n_episodes, shares):
            simulator.reset(Episode(task, index, 1000 + index), look)
            memory, ended = expert.begin(task), False
            taken = 0
            while not ended:
                chunks, _ = expert.act([(simulator.observe(),)], [memory], [generator])
                outcome = simulator.step(chunks[0][0], look)
                taken += 1
                ended = outcome.terminated or outcome.truncated
            steps += taken
    results.put((steps, start, time.monotonic()))


def bare_pace(processes: int, n_episodes: int) -> float:
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(processes), context.Queue()
    crew = [
        context.Process(target=bare_process, args=(share, processes, n_episodes, ready, results))
        for share in range(processes)
    ]
    for process in crew:
        process.start()
    found = [results.get() for _ in crew]
    for process in crew:
        process.join()
    # Each process's own pace: the last one alone, while the others are done, is no limit of the machine.
    return float(sum(steps / (end - start) for steps, start, end in found))


def part_metaworld() -> None:
    cores = usable_cores()
    print(f"(b) experts on Meta-World, {len(TASKS)} tasks: Proctor against {cores} bare processes")
    episodes = 80
    tree = {
        "policy": {"type": "expert"},
        "env": {"type": "metaworld", "task": ",".join(TASKS), "obs_type": "state"},
        "eval": {"n_episodes": episodes, "batch_size": cores},
    }
    compare(
        "steady state",
        lambda: run_proctor(tree, warm=2 * cores),
        lambda: bare_pace(cores, episodes),
        0.9,
    )


class Weigh(Watcher):
    """The largest memory that a worker of its own took, shared pages counted in part."""

    def __init__(self) -> None:
        self.megabytes = 0.0

    def progress(self, progress: Progress) -> None:
        for child in psutil.Process().children():
            try:
                if "proctor.engine.child" in child.cmdline():
                    self.megabytes = max(self.megabytes, child.memory_full_info().pss / 2**20)
            except psutil.Error:
                continue


def part_workers() -> None:
    print("(c) a worker: from its start to its first order, and to the end of its first build; its memory")
    cases = [("state", "expert", False)]
    try:
        find_renderer()
        cases.append(("pixels", str(HERE.parent / "tests" / "pixel_policy.py") + ":Pixels", True))
    except NoPicturesError as error:
        print(f"  no pictures: {error}")
    for obs_type, policy, draws in cases:
        kind = {"path": policy, "placement": "worker"} if ":" in policy else {"type": policy}
        starts, builds, weigh = [], [], Weigh()
        for _ in range(ROUNDS if not draws else 2):
            directory = tempfile.mkdtemp()
            tree = {
                "policy": kind,
                "env": {"type": "metaworld", "task": "reach-v3", "obs_type": obs_type, "episode_length": 100},
                "eval": {"n_episodes": 3, "batch_size": 1},
                "output_dir": directory,
                "display": "none",
            }
            evaluation = evaluate_settings(build_settings(tree), [weigh])
            starts.append(evaluation.info["timing"]["startup_s"])
            builds.append(evaluation.info["timing"]["build_s"])
            shutil.rmtree(directory)
        print(
            f"  {'drawing' if draws else 'state only'}: ready after {statistics.median(starts):.2f} s, "
            f"build with its imports {statistics.median(builds):.2f} s, {weigh.megabytes:.0f} MB",
            flush=True,
        )


PARTS = {"host": part_host, "metaworld": part_metaworld, "workers": part_workers}

if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
