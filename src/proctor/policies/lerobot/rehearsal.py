"""Before the first episode: find out, on made-up observations, how a policy may be asked.

Nothing is believed from a policy's type. LeRobot's own loop (preprocess, `select_action`, postprocess, at every
step) is run on a copy for a little more than a chunk; the quickest way whose actions are bit for bit the same is
taken. So are the largest batch whose rows do not influence each other, and lanes that do not either.
"""

from __future__ import annotations

import dataclasses
import resource
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from proctor.benchmarks.protocol import BenchmarkSpec, Observation
from proctor.machine.cores import usable_cores
from proctor.policies.lerobot.checkpoint import Loaded
from proctor.policies.lerobot.forward import Forward, Kits, Row
from proctor.policies.lerobot.kit import Kit
from proctor.policies.lerobot.randomness import CannotSplit, DrawFinder, EpisodeRandomness, torchs_own
from proctor.policies.lerobot.ways import Chunk, Ensemble, OwnCopy, Way, copy_with_shared_weights
from proctor.policies.protocol import Cost, Pass, Window

_SEED = 7
_LONGEST_CHUNK = 400
_GPU_BATCH = 16
_GPU_LANES = 2
_TIMED_PASSES = 7
_PROMPTS = ("pick", "push the puck to the goal", "open the drawer, then put the green cube into it")


@dataclass
class Found:
    """What the rehearsal came to."""

    forward: Forward
    lanes: int
    cost: Cost | None
    make_up: MadeUp
    notes: list[str] = field(default_factory=list)


def rehearse(
    loaded: Loaded,
    environment: tuple[Any, Any],
    benchmark: BenchmarkSpec,
    keys: Sequence[str],
    batch_size: int,
    started: float,
) -> Found:
    """Find way, randomness, batch and lanes.

    Args:
        loaded: the policy and its processors.
        environment: LeRobot's processors between environment and policy.
        benchmark: what observations look like.
        keys: the observations that the policy looks at.
        batch_size: rows wanted in a forward pass; 0: by the device.
        started: when loading began, for the cost.
    """
    make_up = MadeUp(benchmark, keys)
    use_amp = bool(getattr(loaded.policy.config, "use_amp", False))
    kits = Kits(lambda: Kit(loaded, environment, use_amp))
    truth, steps = own_loop(loaded, kits, make_up)
    forward, notes = _choose_way(loaded, kits, make_up, truth, steps)
    on_gpu = loaded.device.type == "cuda"
    notes += _choose_rows(forward, make_up, batch_size or (_GPU_BATCH if on_gpu else 1))
    if on_gpu:
        forward = _recorded_if_equal(forward, make_up)
    lanes, act, side_by_side = _choose_lanes(forward, make_up, on_gpu)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    cost = None if on_gpu else Cost(time.monotonic() - started, act, side_by_side, memory)
    return Found(forward, lanes, cost, make_up, notes)


class MadeUp:
    """Observations of the right shapes and nothing else."""

    def __init__(self, benchmark: BenchmarkSpec, keys: Sequence[str]) -> None:
        self._features = {key: benchmark.every[key] for key in keys}

    def at(self, step: int, episode: int = 0) -> Observation:
        """Return the observation of a step; the same one each time."""
        generator = np.random.default_rng((episode, step))
        observation: Observation = {"task": _PROMPTS[episode % len(_PROMPTS)]}
        for key, feature in self._features.items():
            if feature.dtype == "uint8":
                observation[key] = generator.integers(0, 256, feature.shape, dtype=np.uint8)
            else:
                observation[key] = generator.uniform(-1, 1, feature.shape).astype(feature.dtype)
        return observation

    def window(self, step: int, offsets: Sequence[int], episode: int = 0) -> Window:
        """Return the window at a step."""
        return tuple(self.at(max(0, step + offset), episode) for offset in offsets)


def own_loop(loaded: Loaded, kits: Kits, make_up: MadeUp) -> tuple[list[NDArray[Any]], int | None]:
    """Run LeRobot's own loop on a copy until its second forward pass.

    Returns the actions, and how many of them one forward pass gave; `None` if that never came to an end.
    """
    own = copy_with_shared_weights(loaded.policy)
    own.reset()
    passes = 0

    def count(module: Any, inputs: Any) -> None:
        nonlocal passes
        passes += 1

    actions: list[NDArray[Any]] = []
    hook = torch.nn.modules.module.register_module_forward_pre_hook(count)
    try:
        with kits.one() as kit, kit.inference(), torchs_own(EpisodeRandomness(_SEED), loaded.device):
            for step in range(_LONGEST_CHUNK):
                batch = kit.batch([make_up.at(step)], rows=1)
                before, passes = passes, 0
                actions.append(kit.actions(own.select_action(batch))[0])
                if step and passes:
                    return actions, step
                passes += before
    finally:
        hook.remove()
    return actions, None


def _choose_way(
    loaded: Loaded, kits: Kits, make_up: MadeUp, truth: list[NDArray[Any]], steps: int | None
) -> tuple[Forward, list[str]]:
    candidates: list[Way] = []
    if getattr(loaded.policy.config, "temporal_ensemble_coeff", None) is not None:
        candidates.append(Ensemble(loaded.policy))
    elif steps is not None:
        candidates.append(Chunk(loaded.policy, steps))
    reason = "one forward pass never used up its actions"
    for way in candidates:
        try:
            forward = _with_draws(Forward(kits, loaded.device, way), make_up)
            if _equal_to_truth(forward, make_up, truth):
                return _with_whole_chunks(forward, make_up), []
            reason = "it keeps more in mind between steps than the observations of its window"
        except Exception as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    forward = _with_draws(Forward(kits, loaded.device, OwnCopy(loaded.policy)), make_up)
    note = (
        f"{loaded.policy.config.type}: every episode gets a copy of the policy with shared weights and is drawn "
        f"at every step, one episode per forward pass, which is slower ({reason})"
    )
    return forward, [note]


def _rehearsed(forward: Forward, seed: int = _SEED) -> Row:
    return Row(forward.way.begin(), EpisodeRandomness(seed))


def _with_draws(forward: Forward, make_up: MadeUp) -> Forward:
    """Find out whether the policy draws random numbers, and whether each row can draw its own."""
    by_rows = dataclasses.replace(forward, draws="rows")
    finder = DrawFinder()
    try:
        with finder:
            by_rows([make_up.window(0, forward.way.offsets)], [_rehearsed(forward)])
    except CannotSplit:
        return dataclasses.replace(forward, draws="torch")
    if not finder.draws:
        return dataclasses.replace(forward, draws="none")
    return dataclasses.replace(forward, draws="torch" if finder.without_generator else "rows")


def _equal_to_truth(forward: Forward, make_up: MadeUp, truth: list[NDArray[Any]]) -> bool:
    row, way = _rehearsed(forward), forward.way
    for ask in range(0, len(truth), way.steps):
        (chunk,) = forward([make_up.window(ask, way.offsets)], [row])
        expected = np.stack(truth[ask : ask + way.steps])
        if chunk[: len(expected)].tobytes() != expected.tobytes():
            return False
    return True


def _with_whole_chunks(forward: Forward, make_up: MadeUp) -> Forward:
    """Post-process whole chunks where that gives the bits of one step at a time."""
    whole = dataclasses.replace(forward, whole_chunks=True)
    window = [make_up.window(0, forward.way.offsets)]
    try:
        same = (
            whole(window, [_rehearsed(whole)])[0].tobytes() == forward(window, [_rehearsed(forward)])[0].tobytes()
        )
    except Exception:
        same = False  # a step of the postprocessor takes one action at a time only
    return whole if same else forward


def _choose_rows(forward: Forward, make_up: MadeUp, wanted: int) -> list[str]:
    """Set the largest batch, up to `wanted`, in which no row depends on its neighbours or its place."""
    if isinstance(forward.way, OwnCopy) or forward.draws == "torch":
        return []
    rows = wanted
    while rows > 1:
        forward.rows = rows
        try:
            if _rows_are_independent(forward, make_up, rows):
                break
        except (CannotSplit, torch.OutOfMemoryError):
            pass
        rows //= 2
    forward.rows = rows
    if rows == wanted:
        return []
    return [f"batches of {rows} instead of {wanted}: in larger ones a row's actions depend on the others"]


def _rows_are_independent(forward: Forward, make_up: MadeUp, rows: int) -> bool:
    def ask(order: Sequence[int]) -> list[bytes]:
        windows = [make_up.window(0, forward.way.offsets, episode) for episode in order]
        return [chunk.tobytes() for chunk in forward(windows, [_rehearsed(forward, seed) for seed in order])]

    first = list(range(rows))
    expected = ask(first)
    shuffled = [*first[1:], first[0]]
    others = [0, *range(rows, 2 * rows - 1)]
    return (
        ask(first[::-1]) == expected[::-1]
        and ask(shuffled) == [*expected[1:], expected[0]]
        and ask(others)[0] == expected[0]
        and ask([0]) == expected[:1]
    )


def _recorded_if_equal(forward: Forward, make_up: MadeUp) -> Forward:
    """Replay recorded passes where that works at all and gives the same bits, on every lane's kit."""
    if not isinstance(forward.way, Chunk) or forward.draws != "none":
        return forward
    recorded = dataclasses.replace(forward, recorded=True)
    episodes = range(2 * forward.rows)

    def ask(one: Forward, first: int) -> list[bytes]:
        order = [episodes[first + place] for place in range(forward.rows)]
        windows = [make_up.window(first, one.way.offsets, episode) for episode in order]
        return [chunk.tobytes() for chunk in one(windows, [_rehearsed(one, seed) for seed in order])]

    expected = [ask(forward, first) for first in (0, 1, forward.rows)]
    with forward.kits.several(_GPU_LANES) as kits:
        for kit in kits:
            alone = dataclasses.replace(recorded, kits=Kits(lambda kit=kit: kit))  # type: ignore[misc]
            try:
                same = [ask(alone, first) for first in (0, 1, forward.rows)] == expected
            except Exception:
                same = False  # it does what cannot be recorded: waits for the device, draws, branches on values
            if not same:
                for each in kits:
                    each.forget_recording()
                return forward
    return recorded


def _choose_lanes(forward: Forward, make_up: MadeUp, on_gpu: bool) -> tuple[int, float, float]:
    """Return how many calls may run side by side, what one costs, and how much work all get done meanwhile."""

    def ask(episode: int) -> bytes:
        window = make_up.window(0, forward.way.offsets, episode)
        return forward([window], [_rehearsed(forward, episode)])[0].tobytes()

    expected, begun = [ask(0)], time.monotonic()
    expected.append(ask(1))
    single = time.monotonic() - begun
    if on_gpu:
        # What an episode remembers lies on the device; only one stream may use it.
        lanes = _GPU_LANES if isinstance(forward.way, Chunk) and forward.draws != "torch" else 1
    else:
        lanes = 1 if forward.draws == "torch" else usable_cores()
    if lanes == 1:
        return 1, single, 1.0
    expected += [ask(episode) for episode in range(2, lanes)]
    with ThreadPoolExecutor(lanes) as pool:
        try:
            list(pool.map(ask, range(lanes)))  # each thread's first pass makes its kit
            begun = time.monotonic()
            same = list(pool.map(ask, range(lanes))) == expected
        except Exception:
            same = False  # two passes at once break something in the policy: one at a time then
        together = time.monotonic() - begun
    return (lanes, single, max(1.0, lanes * single / together)) if same else (1, single, 1.0)


def measure_passes(found: Found, sizes: Sequence[int]) -> list[Pass]:
    """Return what full batches take, of the sizes whose rows are independent; the rehearsed one always is."""
    on_gpu = found.forward.device.type == "cuda"
    one_at_a_time = isinstance(found.forward.way, OwnCopy) or found.forward.draws == "torch"
    wanted = sorted({*sizes, found.forward.rows}) if on_gpu and not one_at_a_time else [found.forward.rows]
    passes = []
    for rows in wanted:
        # Other kits: recordings and staging memory have the shape of their batch.
        forward = dataclasses.replace(found.forward, rows=rows, recorded=False, kits=found.forward.kits.more())
        try:
            if rows > 1 and not _rows_are_independent(forward, found.make_up, rows):
                continue
            if on_gpu:
                forward = _recorded_if_equal(forward, found.make_up)
            passes.append(_timed(forward, found.make_up, found.lanes))
        except (CannotSplit, torch.OutOfMemoryError):
            break
    return passes


def _timed(forward: Forward, make_up: MadeUp, lanes: int) -> Pass:
    windows = [make_up.window(0, forward.way.offsets, episode) for episode in range(forward.rows)]

    def ask(_: int) -> float:
        begun = time.monotonic()
        forward(windows, [_rehearsed(forward, seed) for seed in range(forward.rows)])
        return time.monotonic() - begun

    ask(0)
    alone = sorted(ask(turn) for turn in range(_TIMED_PASSES))[_TIMED_PASSES // 2]
    with ThreadPoolExecutor(lanes) as pool:
        list(pool.map(ask, range(lanes)))  # each thread's first pass makes its kit
        begun = time.monotonic()
        list(pool.map(ask, range(_TIMED_PASSES * lanes)))
        busy = (time.monotonic() - begun) / (_TIMED_PASSES * lanes)
    return Pass(forward.rows, alone, busy)
