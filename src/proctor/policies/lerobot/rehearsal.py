"""Before the first episode: find out, on made-up observations, how a policy may be asked.

Nothing is believed from a policy's type. LeRobot's own loop (preprocess, `select_action`, postprocess, at every
step) is run for two episodes, each on a copy of its own, over several forward passes. The quickest way is taken
that, asked for both in turns, acts the same bit for bit and leaves everything in the same state (`proof`). So are
the largest batch whose rows do not influence each other, and lanes that do not either.
"""

from __future__ import annotations

import dataclasses
import resource
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch

from proctor.machine.resources import usable_cores
from proctor.policies.lerobot.checkpoint import Loaded
from proctor.policies.lerobot.forward import Forward, Kits
from proctor.policies.lerobot.kit import Kit
from proctor.policies.lerobot.proof import MadeUp, OwnLoop, own_loop, proved
from proctor.policies.lerobot.randomness import CannotSplit
from proctor.policies.lerobot.state import shared_part, weights_of
from proctor.policies.lerobot.ways import Chunk, Ensemble, OwnCopy, Way
from proctor.policies.protocol import Cost, Pass
from proctor.types import BenchmarkSpec

_EPISODES = 2
_GPU_BATCH = 16
_GPU_LANES = 2
_TIMED_PASSES = 7


class WritesWeights(Exception):
    """The policy changed parameters while it acted: what was loaded is not what was saved any more."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__(", ".join(sorted(names)))
        self.names = frozenset(names)


@dataclass
class Rehearsal:
    """What the rehearsal came to."""

    forward: Forward
    lanes: int
    cost: Cost | None
    make_up: MadeUp
    reproducible: bool
    notes: list[str] = field(default_factory=list)


def rehearse(
    loaded: Loaded,
    environment: tuple[Any, Any],
    benchmark: BenchmarkSpec,
    keys: Sequence[str],
    batch_size: int,
    started: float,
    written: Collection[str] = (),
) -> Rehearsal:
    """Find way, randomness, batch and lanes.

    Args:
        loaded: the policy and its processors.
        environment: LeRobot's processors between environment and policy.
        benchmark: what observations look like.
        keys: the observations that the policy looks at.
        batch_size: rows wanted in a forward pass; 0: by the device.
        started: when loading began, for the cost.
        written: parameters that the policy is known to write to.

    Raises:
        WritesWeights: it writes to others; it has to be loaded again.
    """
    make_up = MadeUp(benchmark, keys)
    kits = Kits(lambda: Kit(loaded, environment, written))
    weights = weights_of(loaded.policy)
    loops = [own_loop(kits.new(), loaded.device, make_up, episode) for episode in range(_EPISODES)]
    forward, is_proved, notes = _choose_way(loaded, kits, make_up, loops, written)
    after = weights_of(loaded.policy)
    if changed := {name for name, total in weights.items() if after[name] != total}:
        raise WritesWeights(changed)
    on_gpu = loaded.device.type == "cuda"
    notes += _choose_rows(forward, make_up, batch_size or (_GPU_BATCH if on_gpu else 1))
    if on_gpu:
        forward = _recorded_if_equal(forward, make_up)
    lanes, act, side_by_side = _choose_lanes(forward, make_up, on_gpu)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    cost = None if on_gpu else Cost(time.monotonic() - started, act, side_by_side, memory)
    return Rehearsal(forward, lanes, cost, make_up, is_proved, notes)


def _choose_way(
    loaded: Loaded, kits: Kits, make_up: MadeUp, loops: Sequence[OwnLoop], written: Collection[str]
) -> tuple[Forward, bool, list[str]]:
    """Return the quickest way that is proved to act as LeRobot's loop, whether one was, and what to tell."""
    config = loaded.policy.config
    candidates: list[Way] = []
    reason = "a forward pass does not always give the same number of actions"
    if written:
        reason = f"it writes to its own weights: {min(written)}"
    elif getattr(config, "temporal_ensemble_coeff", None) is not None:
        candidates.append(Ensemble(loaded.policy))
    elif loops[0].steps is not None:
        candidates.append(Chunk(config, loops[0].steps))
    for way in candidates:
        forward, reason = proved(Forward(kits, loaded.device, way), make_up, loops)
        if forward is not None:
            return _with_whole_chunks(forward, make_up), True, []
    slow = Forward(kits, loaded.device, OwnCopy())
    note = (
        f"{config.type}: every episode gets a copy of the policy of its own and is drawn at every step, one "
        f"episode per forward pass, which is slower ({reason})"
    )
    forward, doubt = proved(slow, make_up, loops)
    if forward is not None:
        return forward, True, [note]
    doubt_note = (
        f"{config.type}: not reproducible: with the same observations and seeds it does not act as it did before "
        f"({doubt}), so what it does depends on more than its episode"
    )
    return slow, False, [note, doubt_note]


def _with_whole_chunks(forward: Forward, make_up: MadeUp) -> Forward:
    """Post-process whole chunks where that gives the bits of one step at a time."""
    whole = dataclasses.replace(forward, whole_chunks=True)
    window = [make_up.window(0, forward.way.offsets)]
    try:
        same = (
            whole(window, [whole.begin(_EPISODES)])[0].tobytes()
            == forward(window, [forward.begin(_EPISODES)])[0].tobytes()
        )
    except Exception:
        same = False  # a step of the postprocessor takes one action at a time only
    return whole if same else forward


def _choose_rows(forward: Forward, make_up: MadeUp, wanted: int) -> list[str]:
    """Set the largest batch, up to `wanted`, in which no row depends on its neighbours or its place."""
    if isinstance(forward.way, OwnCopy) or forward.draws == "process":
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
        return [chunk.tobytes() for chunk in forward(windows, [forward.begin(seed) for seed in order])]

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
        return [chunk.tobytes() for chunk in one(windows, [one.begin(seed) for seed in order])]

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
        return forward([window], [forward.begin(episode)])[0].tobytes()

    expected, begun = [ask(0)], time.monotonic()
    expected.append(ask(1))
    single = time.monotonic() - begun
    if on_gpu:
        # What an episode remembers lies on the device; only one stream may use it.
        lanes = _GPU_LANES if isinstance(forward.way, Chunk) and forward.draws != "process" else 1
    else:
        lanes = 1 if forward.draws == "process" else usable_cores()
    if lanes == 1 or _lanes_meet(forward.kits):
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


def _lanes_meet(kits: Kits) -> bool:
    """Whether two lanes hold something that both could change: then one pass at a time."""
    with kits.several(2) as (one, other):
        return shared_part((one.policy, one.processors), (other.policy, other.processors)) is not None


def measure_passes(found: Rehearsal, sizes: Sequence[int]) -> list[Pass]:
    """Return what full batches take, of the sizes whose rows are independent; the rehearsed one always is."""
    on_gpu = found.forward.device.type == "cuda"
    one_at_a_time = isinstance(found.forward.way, OwnCopy) or found.forward.draws == "process"
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
        forward(windows, [forward.begin(seed) for seed in range(forward.rows)])
        return time.monotonic() - begun

    ask(0)
    alone = sorted(ask(turn) for turn in range(_TIMED_PASSES))[_TIMED_PASSES // 2]
    with ThreadPoolExecutor(lanes) as pool:
        list(pool.map(ask, range(lanes)))  # each thread's first pass makes its kit
        begun = time.monotonic()
        list(pool.map(ask, range(_TIMED_PASSES * lanes)))
        busy = (time.monotonic() - begun) / (_TIMED_PASSES * lanes)
    return Pass(forward.rows, alone, busy)
