"""Meta-World's environments: the quick ones against Meta-World's own, and against MuJoCo with nothing around it.

    python benchmarks/metaworld_step.py                    all fifty tasks, and builds
    python benchmarks/metaworld_step.py reach-v3 push-v3   these tasks
    python benchmarks/metaworld_step.py builds             builds only
    python benchmarks/metaworld_step.py pictures           pictures only, against Gymnasium's viewer

CPU time, so that other processes disturb little; of pictures that a GPU draws, seconds. Per task all three
take turns, round by round, on the same actions from the same layout; who goes first changes. MuJoCo alone moves
the hand in the same way, with no observation and no reward. Observations, rewards and pictures of both
environments must be equal, to the bit.

A build is a simulator and its first reset, in a fresh process, after imports: the first, then another task in the
same process. Where it draws, the first picture belongs to it, less what a second reset and picture take: what is
left beside the build is the GL context.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import mujoco
import numpy as np
from figures import report
from numpy.typing import NDArray

from proctor.benchmarks.metaworld.benchmark import MetaWorld, MetaWorldSettings
from proctor.benchmarks.metaworld.tasks import MT50
from proctor.benchmarks.rendering import NO_GL, find_renderer
from proctor.errors import NoPicturesError
from proctor.types import IMAGE, NO_LOOK, Episode, Look, Task

ROUNDS, STEPS = 7, 100
GOAL = 1.7


def simulator(name: str, stock: bool, obs_type: Any = "state") -> tuple[Any, Task]:
    benchmark = MetaWorld(MetaWorldSettings(type="metaworld", task=name, obs_type=obs_type, stock=stock))
    (task,) = benchmark.tasks()
    return benchmark.make_simulator(task), task


def spent(work: Callable[[], None], clock: Callable[[], float] = time.process_time) -> float:
    """Seconds of CPU, or by another clock."""
    start = clock()
    work()
    return clock() - start


@dataclass(frozen=True)
class Costs:
    """Microseconds of a step, and milliseconds of a reset: medians over rounds."""

    stock: float
    quick: float
    limit: float
    stock_reset: float
    quick_reset: float


def measure(name: str) -> Costs:
    (stock, task), (quick, _), (bare, _) = simulator(name, True), simulator(name, False), simulator(name, False)
    steps: dict[str, list[float]] = {"stock": [], "quick": [], "limit": []}
    resets: dict[str, list[float]] = {"stock": [], "quick": [], "limit": []}
    for number in range(-1, ROUNDS):  # the first warms up
        actions = np.random.default_rng(number + 1).uniform(-1, 1, (STEPS, 4)).astype(np.float32)
        episode, seen = Episode(task, 0, number + 1), {}
        turns = [("stock", stock), ("quick", quick), ("limit", bare)]
        for side, one in turns if number % 2 else reversed(turns):
            reset = spent(partial(one.reset, episode, NO_LOOK))
            if side == "limit":
                taken = only_mujoco(one._env, actions)
            else:
                taken, seen[side] = all_of_it(one._env, actions)
            if number >= 0:
                resets[side].append(reset * 1e3)
                steps[side].append(taken / STEPS * 1e6)
        assert seen["stock"] == seen["quick"], f"{name}: the quick environment went another way"
    for one in (stock, quick, bare):
        one.close()
    medians = [statistics.median(steps[side]) for side in ("stock", "quick", "limit")]
    return Costs(*medians, *(statistics.median(resets[side]) for side in ("stock", "quick")))


def all_of_it(env: Any, actions: NDArray[Any]) -> tuple[float, bytes]:
    """Return the time that steps took, and all that was seen and rewarded."""
    found = []

    def run() -> None:
        for action in actions:
            found.append(env.step(action))

    taken = spent(run)
    return taken, b"".join(seen.tobytes() + struct.pack("d", reward) for seen, reward, *_ in found)


def only_mujoco(env: Any, actions: NDArray[Any]) -> float:
    total = 0.0
    for action in actions:
        env.set_xyz_action(action[:3])
        env.data.ctrl[:] = action[3], -action[3]
        total += spent(lambda: mujoco.mj_step(env.model, env.data, nstep=env.frame_skip))
    return total


def part_steps(names: list[str]) -> None:
    print(f"CPU per step in microseconds, per reset in milliseconds; {ROUNDS} rounds of {STEPS} random actions")
    print(f"  {'task':30}{'stock':>7}{'quick':>7}{'mj_step':>9}{'ratio':>8}{'reset':>8}{'quick':>7}")
    found = []
    for name in names:
        costs = measure(name)
        found.append(costs)
        print(
            f"  {name:30}{costs.stock:7.0f}{costs.quick:7.0f}{costs.limit:9.0f}{costs.stock / costs.quick:8.2f}"
            f"{costs.stock_reset:8.1f}{costs.quick_reset:7.1f}",
            flush=True,
        )
    stock, quick, limit = (
        statistics.median(getattr(one, side) for one in found) for side in ("stock", "quick", "limit")
    )
    # Each task has a ratio of its own; their median is not the ratio of the median times.
    own = "ratios of the tasks, against its own environments"
    report(
        f"Meta-World's steps per CPU-second, {own}",
        [one.stock / one.quick for one in found],
        goal=GOAL,
        absolute=f"medians of the times {stock:.0f} and {quick:.0f} µs; all steps equal",
    )
    report(
        "`mj_step` alone against Meta-World's own step, ratios of the tasks: the most that is possible",
        [one.stock / one.limit for one in found],
        absolute=f"median {limit:.0f} µs",
    )
    before, after = (statistics.median(getattr(one, side) for one in found) for side in RESETS)
    report(
        f"Meta-World's resets, {own}",
        [one.stock_reset / one.quick_reset for one in found],
        absolute=f"medians of the times {before:.1f} and {after:.1f} ms",
    )


RESETS = ("stock_reset", "quick_reset")
BUILD_ROUNDS, DRAWN_ROUNDS = 5, 3
SOME = MT50[::10]
"""Tasks that are switched to with drawing, where pictures take most of the time."""
FIRST_GOAL, SWITCH_GOAL = 200.0, 50.0
"""Milliseconds of CPU."""


def part_builds() -> None:
    """Builds in fresh processes, in turn: with no model kept yet, with kept ones, and Meta-World's own."""
    try:
        drawing = find_renderer().env
    except NoPicturesError as error:
        print(f"no builds with drawing: {error}")
        drawing = {}
    for environment in filter(None, (NO_GL, drawing)):
        draws = environment is not NO_GL
        what = "with drawing" if draws else "without drawing"
        found: dict[str, list[list[float]]] = {"nothing kept": [], "models kept": [], "stock": []}
        limits: list[float] = []
        for number in range(DRAWN_ROUNDS if draws else BUILD_ROUNDS):
            pictures = set()
            with tempfile.TemporaryDirectory() as cache:
                # What keeps models comes before what finds them.
                sides = ["nothing kept", "models kept"]
                for side in ["stock", *sides] if number % 2 else [*sides, "stock"]:
                    times, alone, seen = build_apart(side, draws, {**environment, "XDG_CACHE_HOME": cache})
                    found[side].append(times)
                    limits += alone
                    pictures.add(seen)
            assert len(pictures) == 1, "the quick environments were drawn differently"
        report_builds(found, what)
        if draws:
            report(
                "`MjrContext` alone, what MuJoCo takes for another model before it can draw it",
                limits,
                "ms",
                absolute="CPU",
            )


def build_apart(side: str, draws: bool, environment: dict[str, str]) -> tuple[list[float], list[float], str]:
    """Build all tasks in a process of its own.

    Returns milliseconds of each, those of MuJoCo's context alone where it draws, and a digest of what was drawn.
    """
    command = [sys.executable, __file__, "build", "stock" if side == "stock" else "quick", "x" if draws else ""]
    done = subprocess.run(
        command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True
    )
    *lines, digest = done.stdout.splitlines()
    times, alone = zip(*(map(float, line.split()) for line in lines), strict=True)
    return list(times), list(alone), digest


def report_builds(found: dict[str, list[list[float]]], what: str) -> None:
    """Report first builds by round, and switches by task: each the median of the rounds."""
    firsts = {side: [times[0] for times in rounds] for side, rounds in found.items()}
    switches = {
        side: [statistics.median(times) for times in list(zip(*rounds, strict=True))[1:]]
        for side, rounds in found.items()
    }
    for name, times, goal in (
        ("Meta-World's first build after imports", firsts, FIRST_GOAL),
        ("another task of Meta-World in the same process, a build each", switches, SWITCH_GOAL),
    ):
        nothing, stock = (statistics.median(times[side]) for side in ("nothing kept", "stock"))
        report(
            f"{name}, {what}, models kept",
            times["models kept"],
            "ms",
            goal,
            f"CPU; {nothing:.0f} ms with nothing kept, Meta-World's own {stock:.0f} ms",
        )


PICTURES = 25
"""Of each size and side, in turn; the first two of each are left out: contexts, and a trial of drawing in part."""


def part_pictures() -> None:
    """Pictures of one state after the other, by Gymnasium's viewer and by ours, in a process of its own."""
    try:
        drawing = find_renderer()
    except NoPicturesError as error:
        print(f"no pictures: {error}")
        return
    for side in (480, 96):
        # A process each: Gymnasium's viewers leave none of them a context when one of them is freed.
        command = [sys.executable, __file__, "draw", str(side), "CPU" if drawing.software else "wall"]
        environment = {**os.environ, **drawing.env}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        theirs, ours = ([float(time) for time in line.split()] for line in done.stdout.splitlines())
        report(
            f"a picture of {side} px, against Gymnasium's viewer",
            [before / after for before, after in zip(theirs, ours, strict=True)],
            absolute=f"{statistics.median(ours):.3g} against {statistics.median(theirs):.3g} ms"
            f"{' of CPU' if drawing.software else ''}, {drawing.name}; all pixels equal",
        )


def draw(side: int, clock: Callable[[], float]) -> None:
    """Print what pictures take: a line of theirs, and one of ours."""
    settings = MetaWorldSettings(
        type="metaworld", task="reach-v3", stock=True, observation_height=side, observation_width=side
    )
    (task,) = (benchmark := MetaWorld(settings)).tasks()
    one: Any = benchmark.make_simulator(task)
    one.reset(Episode(task, 0, 1000), look := frozenset({IMAGE}))
    viewer = one._env.mujoco_renderer._get_viewer("rgb_array")
    viewer.viewport.width = viewer.viewport.height = side
    seen: dict[str, NDArray[Any]] = {}
    ways: dict[str, Callable[[], None]] = {
        "theirs": lambda: seen.update(theirs=one._env.render()[::-1, ::-1]),
        "ours": lambda: seen.update(ours=one.observe()[IMAGE]),
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(PICTURES + 2):
        one.step(np.random.default_rng(number).uniform(-1, 1, 4).astype(np.float32), look)
        for way in list(ways)[:: -1 if number % 2 else 1]:
            times[way].append(spent(ways[way], clock) * 1e3)
        assert np.array_equal(seen["theirs"], seen["ours"])
    one.close()
    for way in ways:
        print(*times[way][2:])


def begin(one: Any, task: Task, look: Look, digest: Any) -> None:
    one.reset(Episode(task, 0, 1000), look)
    for seen in one.observe().values():
        digest.update(seen.tobytes())


def build(stock: bool, draws: bool) -> None:
    """Print what builds of all tasks take in this process, and a digest of their first pictures."""
    for module in ("metaworld.env_dict", "scipy.spatial.transform", "proctor.benchmarks.metaworld.simulator"):
        importlib.import_module(module)
    look, digest = (frozenset({IMAGE}) if draws else NO_LOOK), hashlib.sha256()
    for name in ("reach-v3", *(SOME if draws else MT50)):
        ready: list[Any] = []

        def start(name: str = name, ready: list[Any] = ready) -> None:
            ready.extend(simulator(name, stock, "pixels" if draws else "state"))
            begin(ready[0], ready[1], look, digest)

        taken = spent(start)
        alone = 0.0
        if draws:
            taken -= spent(partial(begin, ready[0], ready[1], look, digest))
            alone = context_alone(ready[0])
        ready[0].close()
        print(taken * 1e3, alone * 1e3)
    print(digest.hexdigest())


def context_alone(one: Any) -> float:
    """Return what MuJoCo takes to make its context for a model once more."""
    made: list[Any] = []
    one._cameras._drawing._gl.make_current()
    taken = spent(lambda: made.append(mujoco.MjrContext(one._env.model, mujoco.mjtFontScale.mjFONTSCALE_150)))
    made[0].free()
    return taken


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["build", side, draws]:
            build(side == "stock", bool(draws))
        case ["draw", side, clock]:
            draw(int(side), time.process_time if clock == "CPU" else time.perf_counter)
        case ["builds"]:
            part_builds()
        case ["pictures"]:
            part_pictures()
        case names:
            part_steps(names or list(MT50))
            if not names:
                part_builds()
                part_pictures()
