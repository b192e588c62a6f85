"""Before the first episode: find out, on made-up observations, how a policy may be asked.

Nothing is believed from a policy's type. LeRobot's own loop (preprocess, `select_action`, postprocess, at every
step) is run for two episodes, each on a copy of its own, over several forward passes. The quickest
strategy is taken that, asked for both in turns, acts the same bit for bit and leaves everything in the same state
(`proof`). So are the largest batch whose rows do not influence each other, and lanes that do not either.
"""

from __future__ import annotations

import dataclasses
import resource
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from proctor.machine.resources import usable_cores
from proctor.policies.lerobot.checkpoint import LoadedCheckpoint
from proctor.policies.lerobot.equivalence import ReferenceEpisode, SyntheticInputs, prove, reference_episode
from proctor.policies.lerobot.lane_resources import LanePool, LaneResources
from proctor.policies.lerobot.randomness import InseparableDraw
from proctor.policies.lerobot.state import shared_part, weights_of
from proctor.policies.lerobot.strategies import Chunk, Ensemble, Forward, OwnCopy, Recorded, Strategy
from proctor.policies.protocol import Cost, Pass
from proctor.types import BenchmarkSpec

_PASSES = (4, 2)
"""Of each episode: enough for one of them to come after itself and after the other, early and late."""

_GPU_BATCH = 16
_GPU_LANES = 2
_TIMED_PASSES = 7
_MOST_THREADS = 8
"""With which a pass of one row still gets quicker."""


class WeightWrite(Exception):
    """The policy changed parameters while it acted: what was loaded is not what was saved any more."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__(", ".join(sorted(names)))
        self.names = frozenset(names)


@dataclass
class PolicyTrial:
    """What was found out of a policy before its first episode: of its code and config, not of its weights."""

    forward: Forward
    lanes: int
    cost: Cost | None
    synthetic: SyntheticInputs
    reproducible: bool
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Conclusions:
    """What a trial has found, without the policy that it was made with."""

    strategy: type[Chunk | Ensemble]
    steps: int
    forward: Mapping[str, Any]
    trial: Mapping[str, Any]

    @classmethod
    def of(cls, found: PolicyTrial) -> Conclusions | None:
        """Return what holds for other weights of the same network; nothing of one that was not proved."""
        forward, strategy = found.forward, found.forward.strategy
        if isinstance(strategy, OwnCopy) or not found.reproducible:
            return None
        return cls(
            type(strategy),
            strategy.steps,
            {name: getattr(forward, name) for name in ("draws", "rows", "whole_chunks", "recorded")},
            {name: getattr(found, name) for name in ("lanes", "cost", "synthetic", "reproducible", "notes")},
        )

    def for_weights(self, loaded: LoadedCheckpoint, environment: tuple[Any, Any]) -> PolicyTrial:
        """Return the same for a policy that has just been loaded."""
        policy = loaded.policy
        strategy = Ensemble(policy) if self.strategy is Ensemble else Chunk(policy.config, self.steps)
        pool = LanePool(lambda: LaneResources(loaded, environment, ()))
        return PolicyTrial(Forward(pool, loaded.device, strategy, **self.forward), **self.trial)


def run_trial(
    loaded: LoadedCheckpoint,
    environment: tuple[Any, Any],
    benchmark: BenchmarkSpec,
    keys: Sequence[str],
    batch_size: int,
    started: float,
    written: Collection[str] = (),
) -> PolicyTrial:
    """Find strategy, randomness, batch and lanes.

    Args:
        loaded: the policy and its processors.
        environment: LeRobot's processors between environment and policy.
        benchmark: what observations look like.
        keys: the observations that the policy looks at.
        batch_size: rows wanted in a forward pass; 0: by the device.
        started: when loading began, for the cost.
        written: parameters that the policy is known to write to.

    Raises:
        WeightWrite: it writes to others; it has to be loaded again.
    """
    synthetic = SyntheticInputs(benchmark, keys)
    pool = LanePool(lambda: LaneResources(loaded, environment, written))
    on_gpu = loaded.device.type == "cuda"
    weights = weights_of(loaded.policy)
    # What is compared is what code does, so on a CPU both sides may use all cores. If they differ, it may be on
    # account of the threads: then it is compared again as a run computes, with one.
    for threads in (1,) if on_gpu else (min(usable_cores(), _MOST_THREADS), 1):
        with _threads(threads):
            loops = [
                reference_episode(pool.new(), loaded.device, synthetic, episode, passes)
                for episode, passes in enumerate(_PASSES)
            ]
            forward, is_proved, notes = _choose_strategy(loaded, pool, synthetic, loops, written)
        after = weights_of(loaded.policy)
        if changed := {name for name, total in weights.items() if after[name] != total}:
            raise WeightWrite(changed)
        if not notes:
            break
    notes += _choose_rows(forward, synthetic, batch_size or (_GPU_BATCH if on_gpu else 1))
    if on_gpu:
        forward = _recorded_if_equal(forward, synthetic)
    lanes, act, side_by_side = _choose_lanes(forward, synthetic, on_gpu)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    cost = None if on_gpu else Cost(time.monotonic() - started, act, side_by_side, memory)
    return PolicyTrial(forward, lanes, cost, synthetic, is_proved, notes)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Compute with so many threads meanwhile."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _choose_strategy(
    loaded: LoadedCheckpoint,
    pool: LanePool,
    synthetic: SyntheticInputs,
    loops: Sequence[ReferenceEpisode],
    written: Collection[str],
) -> tuple[Forward, bool, list[str]]:
    """Return the quickest strategy that is proved to act as LeRobot's loop, whether one was, and what to tell."""
    config = loaded.policy.config
    quick: Strategy | None = None
    reason = "a forward pass does not always give the same number of actions"
    if written:
        reason = f"it writes to its own weights: {min(written)}"
    elif getattr(config, "temporal_ensemble_coeff", None) is not None:
        quick = Ensemble(loaded.policy)
    elif loops[0].steps is not None:
        quick = Chunk(config, loops[0].steps)
    if quick is not None:
        for whole_chunks in (True, False):  # a postprocessor may take one action at a time only
            asked = Forward(pool, loaded.device, quick, whole_chunks=whole_chunks)
            forward, reason = prove(asked, synthetic, loops)
            if forward is not None:
                return forward, True, []
    slow = Forward(pool, loaded.device, OwnCopy())
    note = (
        f"{config.type}: every episode gets a copy of the policy of its own and is drawn at every step, one "
        f"episode per forward pass, which is slower ({reason})"
    )
    forward, doubt = prove(slow, synthetic, loops)
    if forward is not None:
        return forward, True, [note]
    doubt_note = (
        f"{config.type}: not reproducible: with the same observations and seeds it does not act as it did before "
        f"({doubt}), so what it does depends on more than its episode"
    )
    return slow, False, [note, doubt_note]


def _actions(forward: Forward, synthetic: SyntheticInputs, episodes: Sequence[int], step: int = 0) -> list[bytes]:
    """Return the bits of what one pass answers to episodes that begin with this step."""
    windows = [synthetic.window(step, forward.strategy.offsets, episode) for episode in episodes]
    return [chunk.tobytes() for chunk in forward(windows, [forward.begin(episode) for episode in episodes])]


def _choose_rows(forward: Forward, synthetic: SyntheticInputs, wanted: int) -> list[str]:
    """Set the largest batch, up to `wanted`, in which no row depends on its neighbours or its place."""
    if isinstance(forward.strategy, OwnCopy) or forward.draws == "process":
        return []
    rows = wanted
    while rows > 1:
        forward.rows = rows
        try:
            if _rows_are_independent(forward, synthetic, rows):
                break
        except (InseparableDraw, torch.OutOfMemoryError):
            pass
        rows //= 2
    forward.rows = rows
    if rows == wanted:
        return []
    return [f"batches of {rows} instead of {wanted}: in larger ones a row's actions depend on the others"]


def _rows_are_independent(forward: Forward, synthetic: SyntheticInputs, rows: int) -> bool:
    ask = partial(_actions, forward, synthetic)
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


def _recorded_if_equal(forward: Forward, synthetic: SyntheticInputs) -> Forward:
    """Replay recorded passes where that works at all and gives the same bits, on every lane."""
    if not isinstance(forward.strategy, Chunk) or forward.draws == "process":
        return forward

    def ask(one: Forward) -> list[list[bytes]]:
        return [_actions(one, synthetic, range(first, first + one.rows), first) for first in (0, 1, one.rows)]

    def gives(expected: list[list[bytes]], recorded: Forward, lane: LaneResources) -> bool:
        try:
            return ask(dataclasses.replace(recorded, pool=LanePool(lambda: lane))) == expected
        except Exception:
            return False  # it does what cannot be recorded: waits for the device, or branches on values

    expected = ask(forward)
    # One that draws is recorded by its script only: a graph has no generators of episodes.
    ways: tuple[Recorded, ...] = ("as it is", "by its script") if forward.draws == "none" else ("by its script",)
    with forward.pool.several(_GPU_LANES) as lanes:
        for way in ways:
            recorded = dataclasses.replace(forward, recorded=way)
            if all(gives(expected, recorded, lane) for lane in lanes):
                return recorded
            for lane in lanes:
                lane.forget_recording()
    return forward


def _choose_lanes(forward: Forward, synthetic: SyntheticInputs, on_gpu: bool) -> tuple[int, float, float]:
    """Return how many calls may run side by side, what one costs, and how much work all get done meanwhile."""

    def ask(episode: int) -> bytes:
        return _actions(forward, synthetic, [episode])[0]

    begun = time.monotonic()
    expected = [ask(0)]
    single = time.monotonic() - begun
    if on_gpu:
        # What an episode remembers lies on the device; only one stream may use it.
        lanes = _GPU_LANES if isinstance(forward.strategy, Chunk) and forward.draws != "process" else 1
    else:
        lanes = 1 if forward.draws == "process" else usable_cores()
    if lanes == 1 or _lanes_meet(forward.pool):
        return 1, single, 1.0
    expected.append(ask(1))
    episodes = [lane % 2 for lane in range(lanes)]  # a neighbour's answer would be another one
    with forward.pool.several(lanes):
        pass  # made here, and not while the time is taken
    with ThreadPoolExecutor(lanes) as pool:
        try:
            begun = time.monotonic()
            same = list(pool.map(ask, episodes)) == [expected[episode] for episode in episodes]
        except Exception:
            same = False  # two passes at once break something in the policy: one at a time then
        together = time.monotonic() - begun
    return (lanes, single, max(1.0, lanes * single / together)) if same else (1, single, 1.0)


def _lanes_meet(pool: LanePool) -> bool:
    """Whether two lanes hold something that both could change: then one pass at a time."""
    with pool.several(2) as (one, other):
        return shared_part((one.policy, one.processors), (other.policy, other.processors)) is not None


def measure_passes(found: PolicyTrial, sizes: Sequence[int]) -> list[Pass]:
    """Return what full batches take, of the sizes whose rows are independent; the one of the trial always is."""
    on_gpu = found.forward.device.type == "cuda"
    one_at_a_time = isinstance(found.forward.strategy, OwnCopy) or found.forward.draws == "process"
    wanted = sorted({*sizes, found.forward.rows}) if on_gpu and not one_at_a_time else [found.forward.rows]
    passes = []
    for rows in wanted:
        # Another pool: recordings and staging memory have the shape of their batch.
        forward = dataclasses.replace(found.forward, rows=rows, recorded="no", pool=found.forward.pool.more())
        try:
            if rows > 1 and not _rows_are_independent(forward, found.synthetic, rows):
                continue
            if on_gpu:
                forward = _recorded_if_equal(forward, found.synthetic)
            passes.append(_timed(forward, found.synthetic, found.lanes))
        except (InseparableDraw, torch.OutOfMemoryError):
            break
    return passes


def _timed(forward: Forward, synthetic: SyntheticInputs, lanes: int) -> Pass:
    windows = [synthetic.window(0, forward.strategy.offsets, episode) for episode in range(forward.rows)]

    def ask(_: int) -> float:
        begun = time.monotonic()
        forward(windows, [forward.begin(seed) for seed in range(forward.rows)])
        return time.monotonic() - begun

    ask(0)
    alone = sorted(ask(turn) for turn in range(_TIMED_PASSES))[_TIMED_PASSES // 2]
    with ThreadPoolExecutor(lanes) as pool:
        list(pool.map(ask, range(lanes)))  # each thread's first pass makes its resources
        begun = time.monotonic()
        list(pool.map(ask, range(_TIMED_PASSES * lanes)))
        busy = (time.monotonic() - begun) / (_TIMED_PASSES * lanes)
    return Pass(forward.rows, alone, busy)
