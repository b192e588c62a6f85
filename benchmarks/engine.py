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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from figures import report
from trivial import TrivialEnv, decide

from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.benchmarks.rendering import find_renderer
from proctor.config.load import build_settings
from proctor.engine.evaluation import evaluate_settings
from proctor.errors import NoPicturesError
from proctor.events import Progress, Watcher
from proctor.machine.resources import usable_cores
from proctor.policies.baselines import ExpertPolicy
from proctor.store.schema import EpisodeRecord
from proctor.types import Episode

HERE = Path(__file__).parent
ROUNDS = 5


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
    own, peer = (statistics.median(side) for side in zip(*pairs, strict=True))
    report(name, [a / b for a, b in pairs], goal=goal, absolute=f"{own:,.0f} against {peer:,.0f} steps/s")


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


def proctor_pace(workers: int, chunk: int, episodes: int, placement: str) -> float:
    tree = {
        "policy": {
            "path": f"{HERE / 'trivial.py'}:TrivialPolicy",
            "kwargs": {"chunk": chunk},
            "placement": placement,
        },
        "env": {"type": f"{HERE / 'trivial.py'}:Trivial", "task": "trivial"},
        "eval": {"n_episodes": episodes, "batch_size": workers},
    }
    return run_proctor(tree, warm=2 * workers)


PLACES = {"central": "through the policy's host", "auto": "where `auto` puts the policy"}
HOST_ROWS = ((1, "central", 1.0, 120), (1, "auto", 2.0, 300), (10, "central", 3.0, 500))
"""Actions a call, placement, goal, episodes."""


def part_host() -> None:
    print("(a) trivial simulator and policy: Proctor against Gymnasium's AsyncVectorEnv")
    for chunk, placement, goal, episodes in HOST_ROWS:
        for workers in (2, 8):
            compare(
                f"steps {PLACES[placement]}, {chunk} a call, {workers} simulators, against AsyncVectorEnv",
                partial(proctor_pace, workers, chunk, episodes, placement),
                partial(gymnasium_pace, workers, chunk),
                goal,
            )


TASKS = ("door-open-v3",)
SLICES, SLICE_SECONDS = 40, 1.0


def bare_process(share: int, shares: int, steps: Any) -> None:
    """One process of the limit: the same simulator and expert, stepped for ever with nothing around them."""
    benchmark = MetaWorld(MetaWorldSettings(type="metaworld", task=",".join(TASKS), obs_type="state"))
    expert, look = ExpertPolicy(), frozenset({"observation.environment_state"})
    generator = np.random.default_rng(0)
    simulators = [(task, benchmark.make_simulator(task)) for task in benchmark.tasks()]
    for index in range(share, 1_000_000, shares):
        task, simulator = simulators[(index // 50) % len(simulators)]
        simulator.reset(Episode(task, index, 1000 + index), look)
        memory, ended, taken = expert.begin(task), False, 0
        while not ended:
            chunks, _ = expert.act([(simulator.observe(),)], [memory], [generator])
            outcome = simulator.step(chunks[0][0], look)
            taken += 1
            ended = outcome.terminated or outcome.truncated
        with steps.get_lock():
            steps.value += taken


class Count(Watcher):
    """Adds the steps of each durable episode to a shared number."""

    def __init__(self, steps: Any) -> None:
        self._steps = steps

    def episode(self, record: EpisodeRecord) -> None:
        with self._steps.get_lock():
            self._steps.value += record.steps


def proctor_process(workers: int, steps: Any) -> None:
    """A whole evaluation, coordinator and store included."""
    with tempfile.TemporaryDirectory() as directory:
        tree = {
            "policy": {"type": "expert"},
            "env": {"type": "metaworld", "task": ",".join(TASKS), "obs_type": "state"},
            "eval": {"n_episodes": 5000, "batch_size": workers, "stop_grace": 0},
            "output_dir": directory,
            "display": "none",
        }
        evaluate_settings(build_settings(tree), [Count(steps)])


class Side:
    """One side of the comparison: processes that are stopped whenever it is the other side's turn."""

    def __init__(self, targets: list[tuple[Callable[..., None], tuple[Any, ...]]]) -> None:
        context = multiprocessing.get_context("spawn")
        self._steps = context.Value("q", 0)
        self._roots = [context.Process(target=target, args=(*args, self._steps)) for target, args in targets]
        for root in self._roots:
            root.start()

    def _everyone(self) -> list[psutil.Process]:
        roots = [psutil.Process(root.pid) for root in self._roots]
        return [process for root in roots for process in (root, *root.children(recursive=True))]

    def warm_up(self) -> None:
        while self._steps.value < 3000:
            time.sleep(0.1)
        self.pause()

    def pause(self) -> None:
        for process in self._everyone():
            process.suspend()

    def turn(self) -> float:
        """Let it run for a slice; returns its steps a second."""
        before, start = self._steps.value, time.monotonic()
        for process in self._everyone():
            process.resume()
        time.sleep(SLICE_SECONDS)
        self.pause()
        return float((self._steps.value - before) / (time.monotonic() - start))

    def end(self) -> None:
        for process in self._everyone():
            process.kill()
        for root in self._roots:
            root.join()


def part_metaworld() -> None:
    cores = usable_cores()
    print(f"(b) the expert on {TASKS[0]}: Proctor against {cores} bare processes, second by second")
    ours = Side([(proctor_process, (cores,))])
    ours.warm_up()
    theirs = Side([(bare_process, (share, cores)) for share in range(cores)])
    theirs.warm_up()
    # The machine's own speed changes within seconds, so the two take turns by the second.
    pairs = [(ours.turn(), theirs.turn()) for _ in range(SLICES)]
    ours.end()
    theirs.end()
    own, limit = (sum(pair[side] for pair in pairs) / SLICES for side in (0, 1))
    # Spread: the same ratio over random halves of the seconds.
    rng = np.random.default_rng(0)
    halves = [np.array(pairs)[rng.permutation(SLICES)[: SLICES // 2]].sum(axis=0) for _ in range(200)]
    low, high = np.quantile([half[0] / half[1] for half in halves], [0.05, 0.95])
    print(
        f"  steady state: {own:,.0f} against {limit:,.0f} steps/s; share of the limit {own / limit:.2f} "
        f"(90 % of random halves between {low:.2f} and {high:.2f}), goal 0.9",
        flush=True,
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
        cases.append(("pixels", str(HERE.parent / "tests" / "support" / "pixel_policy.py") + ":Pixels", True))
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
