"""One episode, from reset to end. The loop knows nothing of processes, batches, stores or videos' format."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.protocol import Simulator, layout_of
from proctor.engine.digest import EpisodeDigests
from proctor.engine.meter import Meter
from proctor.engine.observation_windows import Windows
from proctor.engine.policy_session import PolicySession, all_finite, answer, looked_at
from proctor.engine.transport import Phase
from proctor.errors import BenchmarkError, SimulatorError
from proctor.policies.protocol import Policy, PolicySpec
from proctor.store.schema import EpisodeRecord, pack_rewards
from proctor.types import (
    NO_LOOK,
    NO_VIDEOS,
    BenchmarkSpec,
    Episode,
    Look,
    Observation,
    Outcome,
    VideoChoice,
    as_flag,
)


class Actor(Protocol):
    """Where a rollout gets its actions from; `phase` is what a worker is in meanwhile."""

    phase: Phase

    def begin(self, episode: Episode) -> None:
        """Start an episode."""

    def act(self, window: Sequence[Observation]) -> NDArray[Any] | list[NDArray[Any]]:
        """Return the next chunk."""


class FrameSink(Protocol):
    """Takes the frames of an episode for people to watch."""

    def wants(self, step: int) -> bool:
        """Whether the state after `step` steps should be drawn; the last state always is."""

    def add(self, frame: NDArray[np.uint8]) -> None:
        """Take one frame."""

    def finish(self) -> None:
        """The episode has ended: keep it."""

    def abandon(self) -> None:
        """The episode came to nothing: drop it."""


class Recorder(Protocol):
    """Takes every step of an episode for a dataset."""

    look: Look
    drawn: bool

    def observe(self, observation: Observation) -> None:
        """Take what is seen before the next action, by the simulator's own names; more may be there."""

    def act(self, action: NDArray[Any], executed: NDArray[Any], outcome: Outcome, done: bool) -> None:
        """Take an action of the policy, what the simulator was given for it, and what came of it."""

    def finish(self, record: EpisodeRecord) -> None:
        """The episode has ended: keep it."""

    def abandon(self) -> None:
        """The episode came to nothing: drop it."""


class Numbers(Protocol):
    """Takes the numbers that can be observed, step by step, for people to look at."""

    look: Look

    def add(self, observation: Observation) -> None:
        """Take what is observed at the beginning, or after a step."""

    def finish(self, steps: int) -> None:
        """The episode has ended after so many steps: keep them."""

    def abandon(self) -> None:
        """The episode came to nothing: drop them."""


@dataclass(frozen=True)
class EpisodeSinks:
    """Who looks on besides the policy. Nothing that they see changes what it sees."""

    film: FrameSink | None = None
    recorder: Recorder | None = None
    films: VideoChoice = NO_VIDEOS
    """Of which episodes the film is kept, once it is known what they came to."""
    numbers: Numbers | None = None

    @property
    def look(self) -> Look:
        """What they look at after every step."""
        looks = [one.look for one in (self.recorder, self.numbers) if one is not None]
        return NO_LOOK.union(*looks)

    def finish(self, record: EpisodeRecord) -> None:
        """Make durable what they have of an episode that has ended."""
        if self.film is not None and self.films.has(record.episode_index, record.success):
            self.film.finish()
        elif self.film is not None:
            self.film.abandon()
        if self.numbers is not None:
            self.numbers.finish(record.steps)
        if self.recorder is not None:
            self.recorder.finish(record)

    def abandon(self) -> None:
        """Drop what they have."""
        if self.film is not None:
            self.film.abandon()
        if self.numbers is not None:
            self.numbers.abandon()
        if self.recorder is not None:
            self.recorder.abandon()


NO_SINKS = EpisodeSinks()


class LocalActor:
    """A policy in this very process.

    Args:
        policy: the policy.
        action_size: numbers in one action of the benchmark.
        prove: called after every answer; raises if the policy may be another than the run began with.
    """

    phase = Phase.ACT

    def __init__(self, policy: Policy, action_size: int, prove: Callable[[], None] = lambda: None) -> None:
        self._policy, self._action_size, self._prove = policy, action_size, prove

    def begin(self, episode: Episode) -> None:
        """Begin a session for the episode."""
        self._session = PolicySession(self._policy, episode)

    def act(self, window: Sequence[Observation]) -> NDArray[Any]:
        """Ask the policy directly. It gets arrays of its own, as in another process: it may write to them."""
        own = [{key: array.copy() for key, array in observation.items()} for observation in window]
        chunk = answer(self._policy, self._action_size, [self._session], [own])[0]
        self._prove()
        return chunk


class ViewedKey(NamedTuple):
    """One observation key as the simulator names it and as the policy does, and what it must look like."""

    source: str
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    drawn: bool


@dataclass(frozen=True)
class PolicyView:
    """What the policy looks at, settled once for a run."""

    keys: Look  # by the simulator's own names
    drawn: bool
    shown: tuple[ViewedKey, ...]  # in the order in which they enter the digests
    offsets: tuple[int, ...]
    stride: int | None
    keeps: bool = False
    """Whether episodes keep their trajectories."""

    @classmethod
    def of(cls, policy: PolicySpec, benchmark: BenchmarkSpec, keeps: bool = False) -> PolicyView:
        """Return the view of a policy on a benchmark."""
        features = {key: benchmark.every[key] for key in looked_at(policy, benchmark)}
        shown = [
            ViewedKey(benchmark.sources.get(key, key), key, feature.shape, np.dtype(feature.dtype), feature.drawn)
            for key, feature in features.items()
        ]
        return cls(
            keys=frozenset(one.source for one in shown),
            drawn=any(feature.drawn for feature in features.values()),
            shown=tuple(sorted(shown)),
            offsets=policy.observation_offsets,
            stride=policy.action_steps,
            keeps=keeps,
        )

    def digests(self) -> EpisodeDigests:
        """Return the digests of an episode that begins."""
        return EpisodeDigests(frozenset(one.source for one in self.shown if one.drawn), self.keeps)


def run_episode(
    simulator: Simulator,
    episode: Episode,
    actor: Actor,
    view: PolicyView,
    meter: Meter,
    sinks: EpisodeSinks = NO_SINKS,
    noise: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
) -> EpisodeRecord:
    """Run one episode to its end and return its record; `noise` says what is executed for what the policy wants.

    Its digests cover every observation the policy saw, every action that the simulator was given, every reward,
    the success and how it ended: an episode whose two digests are equal is the same, to the bit.
    """
    film, recorder, numbers = sinks.film, sinks.recorder, sinks.numbers
    unseen, seen_too = sinks.look, view.keys | sinks.look
    digests = view.digests()
    windows = Windows(view.offsets, view.stride)
    rewards: list[float] = []
    metrics: Mapping[str, float] = {}
    success = False if episode.task.reports_success else None
    succeeded: int | None = None
    ended = limited = False
    step = 0

    meter.enter(Phase.RESET)
    simulator.reset(episode, seen_too)
    layout = layout_of(simulator)
    windows.add(step, _observe(simulator, view, meter, digests, step, recorder))
    if numbers is not None:
        numbers.add(simulator.observe())
    if film is not None:
        _film(simulator, film, meter)
    actor.begin(episode)
    while not ended:
        meter.enter(actor.phase)
        chunk = actor.act(windows.at(step))
        meter.asked()
        digests.asked(len(chunk))
        next_ask = step + len(chunk)
        for wanted in chunk:
            action = wanted if noise is None else noise(wanted)
            seen = windows.needs(step + 1, next_ask)
            meter.enter(Phase.STEP)
            digests.acted(action)
            outcome = simulator.step(action, seen_too if seen else unseen)
            step += 1
            meter.stepped()
            rewards.append(_finite(outcome.reward))
            metrics = outcome.metrics  # the last step's stand for the episode
            if outcome.success is not None:
                success = _reported(as_flag("success", outcome.success), success, episode, step)
                succeeded = step if success and succeeded is None else succeeded
            terminated = as_flag("terminated", outcome.terminated)
            truncated = as_flag("truncated", outcome.truncated)
            limited = step >= episode.task.max_steps
            ended = terminated or truncated or limited
            if recorder is not None:
                recorder.act(wanted, action, outcome, ended)
            if seen and not ended:
                windows.add(step, _observe(simulator, view, meter, digests, step, recorder))
            elif recorder is not None and not ended:
                _record(simulator, recorder, meter)
            if numbers is not None:
                numbers.add(simulator.observe())
            if film is not None and (ended or film.wants(step)):
                _film(simulator, film, meter)
            if ended:
                break
    per_step = np.asarray(rewards, np.float64)
    digests.ended(per_step, success, succeeded, terminated=terminated, truncated=truncated, limited=limited)
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
        layout=layout,
        digest=digests.physics,
        pixel_digest=digests.pixels,
        rewards=pack_rewards(per_step),
        trajectory=digests.trajectory,
        **meter.episode_totals(),
    )


def _finite(reward: Any) -> float:
    number = float(reward)
    if not math.isfinite(number):
        raise SimulatorError(f"the simulator gave a reward of {number}")
    return number


def _reported(told: bool, before: bool | None, episode: Episode, step: int) -> bool:
    """Return whether an episode has succeeded by now; raises `BenchmarkError` where nobody was to say so.

    If such a flag counted, episodes without one would be failures in one run and left out of another.
    """
    if before is None:
        raise BenchmarkError(
            f"{episode} reports success at step {step}, but before the run nothing said that it would, so other "
            "episodes could not count as failures. Say that it does: --env.success_key=is_success (the entry of "
            "info) for a Gymnasium environment, Task(reports_success=True) in a benchmark of your own."
        )
    return bool(before or told)


def _observe(
    simulator: Simulator,
    view: PolicyView,
    meter: Meter,
    digests: EpisodeDigests,
    step: int,
    recorder: Recorder | None,
) -> Observation:
    if view.drawn:
        meter.drew()
    if recorder is not None:
        observation = _record(simulator, recorder, meter, view.drawn)
    elif view.keys:
        if view.drawn:
            meter.enter(Phase.DRAW)
        observation = simulator.observe()
    else:
        return {}
    seen: Observation = {}
    for source, name, shape, dtype, _ in view.shown:
        array: Any = observation.get(source)
        seen[name] = array
        check_array(source, array, shape, dtype)
        digests.saw(step, source, array)
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


def _record(simulator: Simulator, recorder: Recorder, meter: Meter, drawn: bool = False) -> Observation:
    if drawn or recorder.drawn:
        meter.enter(Phase.DRAW)
    observation = simulator.observe()
    meter.enter(Phase.ENCODE)
    recorder.observe(observation)
    return observation


def _film(simulator: Simulator, film: FrameSink, meter: Meter) -> None:
    meter.enter(Phase.DRAW)
    frame = simulator.render()
    meter.enter(Phase.ENCODE)
    film.add(frame)
