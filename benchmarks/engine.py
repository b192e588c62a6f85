"""What the engine costs, and how near to the machine's limit it runs.

    python benchmarks/engine.py            all parts
    python benchmarks/engine.py host       (a) central host against Gymnasium's AsyncVectorEnv
    python benchmarks/engine.py metaworld  (b) experts on Meta-World against bare processes
    python benchmarks/engine.py workers    (c) start-up and memory of workers

Both sides run in the same minute, taking turns, and what is printed is their ratio with its spread: the
absolute figures depend on the machine and on what else it does.
"""

from __future__ import annotations

import math
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

from proctor.benchmarks.rendering import find_renderer
from proctor.config.load import build_settings
from proctor.engine.evaluation import evaluate_settings
from proctor.errors import NoPicturesError
from proctor.events import Progress, Watcher
from proctor.machine.resources import usable_cores
from proctor.store.schema import EpisodeRecord

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


def in_turn(ours: Callable[[], float], theirs: Callable[[], float], rounds: int) -> list[tuple[float, float]]:
    """Run both so many times, who goes first changing; returns what they gave, pair by pair."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            peer = theirs()
            pairs.append((ours(), peer))
        else:
            own = ours()
            pairs.append((own, theirs()))
    return pairs


def compare(name: str, ours: Callable[[], float], theirs: Callable[[], float], goal: float) -> None:
    """Print the ratio of each round's pair."""
    pairs = in_turn(ours, theirs, ROUNDS)
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


TASK = "door-open-v3"
SLICES, SLICE_SECONDS = 40, 1.0
ROUND_SLICES = 5
"""How many seconds of each side are one value: within a second, how many episodes end is left to chance."""
COMPARED = 100
"""Episodes whose steps and rewards must be equal on all sides."""


class Played:
    """What a side has played: steps in all, and of its first episodes steps and rewards, shared by processes."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._steps = context.Value("q", 0)
        self._lengths = context.Array("q", COMPARED, lock=False)
        self._rewards = context.Array("d", COMPARED, lock=False)

    @property
    def steps(self) -> int:
        return int(self._steps.value)

    def add(self, index: int, steps: int, reward: float) -> None:
        with self._steps.get_lock():
            self._steps.value += steps
        if index < COMPARED:
            self._lengths[index], self._rewards[index] = steps, reward

    def first(self) -> list[tuple[int, float]]:
        """Steps and summed rewards of the first episodes; zero steps of one that has not ended."""
        return list(zip(self._lengths, self._rewards, strict=True))


def bare_process(share: int, shares: int, stock: bool, played: Played) -> None:
    """One bare process: environment and scripted expert, stepped for ever with nothing around them.

    The environment is Meta-World's own, or the quick one that Proctor runs.
    """
    import warnings

    from metaworld.policies import ENV_POLICY_MAP

    from proctor.benchmarks.metaworld.environments import environment_class, stock_class

    warnings.filterwarnings("ignore")
    env = (stock_class if stock else environment_class)(TASK)()
    env._set_task_called, env._partially_observable = True, False
    env.__dict__.pop("sawyer_observation_space", None)
    env._freeze_rand_vec, env.seeded_rand_vec = False, True
    for index in range(share, 1_000_000, shares):
        env.seed(1000 + index)
        seen, _ = env.reset()
        expert, rewards, ended = ENV_POLICY_MAP[TASK](), [], False
        while not ended:
            seen, reward, _, truncated, info = env.step(expert.get_action(seen))
            rewards.append(float(reward))
            ended = bool(info["success"]) or truncated
        played.add(index, len(rewards), math.fsum(rewards))


class Count(Watcher):
    """Adds each durable episode to what was played."""

    def __init__(self, played: Played) -> None:
        self._played = played

    def episode(self, record: EpisodeRecord) -> None:
        assert record.sum_reward is not None
        self._played.add(record.episode_index, record.steps, record.sum_reward)


def proctor_process(workers: int, played: Played) -> None:
    """A whole evaluation, coordinator and store included."""
    with tempfile.TemporaryDirectory() as directory:
        tree = {
            "policy": {"type": "expert"},
            "env": {"type": "metaworld", "task": TASK, "obs_type": "state"},
            "eval": {"n_episodes": 50_000, "batch_size": workers, "stop_grace": 0},
            "output_dir": directory,
            "display": "none",
        }
        evaluate_settings(build_settings(tree), [Count(played)])


class Side:
    """One side of the comparison: processes that are stopped whenever it is another side's turn."""

    def __init__(self, targets: list[tuple[Callable[..., None], tuple[Any, ...]]]) -> None:
        context = multiprocessing.get_context("spawn")
        self.played = Played()
        self._roots = [context.Process(target=target, args=(*args, self.played)) for target, args in targets]
        for root in self._roots:
            root.start()

    def _everyone(self) -> list[psutil.Process]:
        roots = [psutil.Process(root.pid) for root in self._roots]
        return [process for root in roots for process in (root, *root.children(recursive=True))]

    def warm_up(self) -> None:
        while not all(steps for steps, _ in self.played.first()):
            assert all(root.is_alive() for root in self._roots), "a side has ended early"
            time.sleep(0.1)
        self.pause()

    def pause(self) -> None:
        for process in self._everyone():
            process.suspend()

    def turn(self) -> float:
        """Let it run for a slice; returns its steps a second."""
        before, start = self.played.steps, time.monotonic()
        for process in self._everyone():
            process.resume()
        time.sleep(SLICE_SECONDS)
        self.pause()
        return float((self.played.steps - before) / (time.monotonic() - start))

    def end(self) -> None:
        for process in self._everyone():
            process.kill()
        for root in self._roots:
            root.join()


def part_metaworld() -> None:
    cores = usable_cores()
    print(f"(b) the expert on {TASK}: Proctor against {cores} bare processes, second by second")
    wanted: dict[str, list[tuple[Callable[..., None], tuple[Any, ...]]]] = {
        "Proctor": [(proctor_process, (cores,))],
        "stock": [(bare_process, (share, cores, True)) for share in range(cores)],
        "quick": [(bare_process, (share, cores, False)) for share in range(cores)],
    }
    sides = {}
    try:
        for name, targets in wanted.items():
            sides[name] = Side(targets)
            sides[name].warm_up()
        first = {name: side.played.first() for name, side in sides.items()}
        assert first["Proctor"] == first["stock"] == first["quick"], "the sides have played different episodes"
        # The machine's own speed changes within seconds, so they take turns by the second.
        order, paces = list(sides), {name: list[float]() for name in sides}
        for number in range(SLICES):
            for name in order[number % 3 :] + order[: number % 3]:
                paces[name].append(sides[name].turn())
    finally:
        for side in sides.values():
            side.end()
    rounds = {name: np.array(found).reshape(-1, ROUND_SLICES).mean(axis=1) for name, found in paces.items()}
    for name, what, goal in (
        ("stock", "of Meta-World's own environments", 1.0),
        ("quick", "of the quick environments that Proctor runs", 0.9),
    ):
        report(
            f"the expert on {TASK}, coordinator and store included, against {cores} bare processes {what}",
            (rounds["Proctor"] / rounds[name]).tolist(),
            goal=goal,
            absolute=f"{np.median(rounds['Proctor']):,.0f} against {np.median(rounds[name]):,.0f} steps/s; "
            f"rewards of {COMPARED} episodes equal",
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
        for _ in range(ROUNDS):
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
        what = "drawing" if draws else "state only"
        report(f"a worker, until its first order, {what}", starts, "s")
        memory = f"{weigh.megabytes:.0f} MB of memory"
        report(f"its first Meta-World simulator, imports included, {what}", builds, "s", absolute=memory)


PARTS = {"host": part_host, "metaworld": part_metaworld, "workers": part_workers}

if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
