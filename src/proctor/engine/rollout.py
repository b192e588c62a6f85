"""One episode, from reset to end. The loop knows nothing of processes, batches, stores or videos' format."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.protocol import NO_LOOK, BenchmarkSpec, Episode, Look, Observation, Simulator
from proctor.engine.meter import Meter
from proctor.engine.seat import Seat, all_finite, answer, looked_at
from proctor.engine.transport import Phase
from proctor.engine.windows import Windows
from proctor.errors import SimulatorError
from proctor.policies.protocol import Policy, PolicySpec
from proctor.store.records import EpisodeRecord
from proctor.store.rewards import pack_rewards


class Actor(Protocol):
    """Where a rollout gets its actions from."""

    def begin(self, episode: Episode) -> None:
        """Start an episode."""

    def act(self, window: Sequence[Observation]) -> NDArray[Any]:
        """Return the next chunk."""


class FrameSink(Protocol):
    """Takes the frames of an episode for people to watch."""

    def wants(self, step: int) -> bool:
        """Whether the state after `step` steps should be drawn; the last state always is."""

    def add(self, frame: NDArray[np.uint8]) -> None:
        """Take one frame."""


class LocalActor:
    """A policy in this very process."""

    def __init__(self, policy: Policy, action_size: int) -> None:
        self._policy, self._action_size = policy, action_size

    def begin(self, episode: Episode) -> None:
        """Take a seat for the episode."""
        self._seat = Seat(self._policy, episode)

    def act(self, window: Sequence[Observation]) -> NDArray[Any]:
        """Ask the policy directly."""
        return answer(self._policy, self._action_size, [self._seat], [window])[0]


class Shown(NamedTuple):
    """One observation key as the simulator names it and as the policy does, and what it must look like."""

    source: str
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class View:
    """What the policy looks at, settled once for a run."""

    keys: Look  # by the simulator's own names
    drawn: bool
    shown: tuple[Shown, ...]  # in the order in which they enter the digest
    offsets: tuple[int, ...]
    stride: int | None

    @classmethod
    def of(cls, policy: PolicySpec, benchmark: BenchmarkSpec) -> View:
        """Return the view of a policy on a benchmark."""
        features = {key: benchmark.every[key] for key in looked_at(policy, benchmark)}
        shown = [
            Shown(benchmark.sources.get(key, key), key, feature.shape, np.dtype(feature.dtype))
            for key, feature in features.items()
        ]
        return cls(
            keys=frozenset(one.source for one in shown),
            drawn=any(feature.drawn for feature in features.values()),
            shown=tuple(sorted(shown)),
            offsets=policy.observation_offsets,
            stride=policy.action_steps,
        )


class Digest:
    """A running SHA-256 over arrays. Small ones are gathered first: a call costs more than hashing them."""

    _SMALL, _MANY = 1 << 12, 1 << 16

    def __init__(self) -> None:
        self._hash, self._gathered = hashlib.sha256(), bytearray()

    def add(self, array: NDArray[Any]) -> None:
        """Take an array's bytes."""
        if array.nbytes < self._SMALL:
            self._gathered += array.tobytes()
            if len(self._gathered) > self._MANY:
                self._flush()
        else:
            self._flush()
            self._hash.update(np.ascontiguousarray(array).data)

    def hexdigest(self) -> str:
        """Return the digest of everything taken so far."""
        self._flush()
        return self._hash.hexdigest()

    def _flush(self) -> None:
        self._hash.update(self._gathered)
        self._gathered.clear()


def run_episode(
    simulator: Simulator,
    episode: Episode,
    actor: Actor,
    view: View,
    meter: Meter,
    sink: FrameSink | None = None,
) -> EpisodeRecord:
    """Run one episode to its end and return its record.

    The digest covers every observation the policy saw, every action executed and every reward: equal
    digests mean bit-identical episodes.
    """
    digest = Digest()
    windows = Windows(view.offsets, view.stride)
    rewards: list[float] = []
    metrics: Mapping[str, float] = {}
    success: bool | None = None
    ended = False
    step = 0

    meter.enter(Phase.RESET)
    simulator.reset(episode, view.keys)
    windows.add(0, _observe(simulator, view, meter, digest))
    if sink is not None:
        _film(simulator, sink, meter)
    actor.begin(episode)
    while not ended:
        meter.enter(Phase.WAIT)
        chunk = actor.act(windows.at(step))
        meter.asked()
        asked_at, next_ask = step, step + len(chunk)
        for action in chunk:
            seen = windows.needs(step + 1, next_ask)
            look = view.keys if seen else NO_LOOK
            meter.enter(Phase.STEP)
            outcome = simulator.step(action, look)
            step += 1
            meter.stepped()
            rewards.append(float(outcome.reward))
            metrics = outcome.metrics  # the last step's stand for the episode
            if outcome.success is not None:
                success = bool(success or outcome.success)
            ended = bool(outcome.terminated or outcome.truncated or step >= episode.task.max_steps)
            if seen and not ended:
                windows.add(step, _observe(simulator, view, meter, digest))
            if sink is not None and (ended or sink.wants(step)):
                _film(simulator, sink, meter)
            if ended:
                break
        digest.add(chunk[: step - asked_at])
    per_step = np.asarray(rewards, np.float64)
    digest.add(per_step)
    if success is not None:
        digest.add(np.asarray(success))
    meter.enter(Phase.IDLE)
    return EpisodeRecord(
        task_group=episode.task.group,
        task_id=episode.task.task_id,
        task=episode.task.name,
        episode_index=episode.index,
        seed=episode.seed,
        status="finished",
        success=success,
        sum_reward=math.fsum(rewards),
        max_reward=max(rewards),
        steps=step,
        metrics={name: float(value) for name, value in metrics.items()},
        digest=digest.hexdigest(),
        rewards=pack_rewards(per_step),
        **meter.episode_totals(),
    )


def _observe(simulator: Simulator, view: View, meter: Meter, digest: Digest) -> Observation:
    if not view.keys:
        return {}
    if view.drawn:
        meter.enter(Phase.DRAW)
        meter.drew()
    observation = simulator.observe()
    seen: Observation = {}
    for source, name, shape, dtype in view.shown:
        array: Any = observation.get(source)
        seen[name] = array
        check_array(source, array, shape, dtype)
        digest.add(array)
    return seen


def check_array(key: str, array: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise `SimulatorError` if an observation is not what the benchmark says it is."""
    if not isinstance(array, np.ndarray):
        raise SimulatorError(f"the simulator gave no array for '{key}'")
    if array.shape != shape or array.dtype != dtype:
        raise SimulatorError(
            f"the simulator gave '{key}' as {array.dtype}{array.shape}, its benchmark says {dtype}{shape}"
        )
    if dtype.kind == "f" and not all_finite(array):
        raise SimulatorError(f"the simulator gave NaN or infinity in '{key}'")


def _film(simulator: Simulator, sink: FrameSink, meter: Meter) -> None:
    meter.enter(Phase.DRAW)
    frame = simulator.render()
    meter.enter(Phase.ENCODE)
    sink.add(frame)
