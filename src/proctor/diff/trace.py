"""What another harness did in an episode, kept whole, so that our side can go through it afterwards.

The two sides are not stepped at once: two simulators that draw in one process draw into each other's buffers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from proctor.diff.harness import Act, Arrays, Moment, OtherSide
from proctor.types import Episode

BEFORE = 1
"""Steps of another episode that come first: what a harness leaves behind shows only in its second episode, and
after one step most of a chunk is left."""

_Packed = list[tuple[str, str, tuple[int, ...], bytes]]


class PackedArrays:
    """Arrays by name, compressed: an episode has hundreds of pictures."""

    def __init__(self, arrays: Arrays) -> None:
        self._packed: _Packed = [
            (name, array.dtype.str, array.shape, zlib.compress(np.ascontiguousarray(array).tobytes(), 1))
            for name, array in arrays.items()
        ]

    def unpacked(self, names: Collection[str] | None = None) -> Arrays:
        """Return them, or some of them."""
        return {
            name: np.frombuffer(zlib.decompress(content), np.dtype(kind)).reshape(shape)
            for name, kind, shape, content in self._packed
            if names is None or name in names
        }


@dataclass(frozen=True)
class TraceStep:
    """One step: what was seen before it, what was done, and what came of it."""

    seen: PackedArrays
    action: Any
    prompt: str | None
    policy_input: PackedArrays
    raw_action: Any
    outcome: Moment
    """Without its observation, which the next step has."""

    @property
    def act(self) -> Act:
        """What was done."""
        return Act(self.action, self.prompt, self.policy_input.unpacked(), self.raw_action)


@dataclass
class Trace:
    """An episode of another harness.

    Attributes:
        name: the harness.
        layout: where it began, if the harness says so.
        steps: its steps, in order.
        before: the steps of another episode that the harness played first.
        last: what was seen after the last step.
        succeeded: what the harness counts it as.
        whole: whether it was recorded to its end.
    """

    name: str
    layout: dict[str, float] = field(default_factory=dict)
    steps: list[TraceStep] = field(default_factory=list)
    before: list[TraceStep] = field(default_factory=list)
    last: PackedArrays = field(default_factory=lambda: PackedArrays({}))
    succeeded: bool | None = None
    whole: bool = False

    def observation(self, step: int, names: Collection[str] | None = None) -> Arrays:
        """Return what was seen after so many steps, or some of it."""
        return (self.steps[step].seen if step < len(self.steps) else self.last).unpacked(names)


def record(side: OtherSide, episode: Episode, most: int, tell: Callable[[int], None] = lambda step: None) -> Trace:
    """Let a harness play some steps of another episode, then this one, and return what it did.

    Args:
        side: the harness.
        episode: as our plan has it.
        most: steps to record at most; one more than our step limit shows a harness that knows no such limit.
        tell: is told of every step.
    """
    trace = Trace(side.name)
    _play(
        side, Episode(episode.task, episode.index + 1, episode.seed + 1), BEFORE, trace.before, lambda step: None
    )
    moment = side.begin(episode.task, episode.seed, episode.index)
    trace.layout = side.layout()
    moment = _steps(side, moment, most, trace.steps, tell)
    trace.last = PackedArrays(moment.observation)
    trace.whole = moment.ended
    flags = [step.outcome.success for step in trace.steps]
    trace.succeeded = side.succeeded()
    if trace.succeeded is None and None not in flags:
        trace.succeeded = any(flags)
    return trace


def _play(
    side: OtherSide, episode: Episode, most: int, steps: list[TraceStep], tell: Callable[[int], None]
) -> None:
    _steps(side, side.begin(episode.task, episode.seed, episode.index), most, steps, tell)


def _steps(
    side: OtherSide, moment: Moment, most: int, steps: list[TraceStep], tell: Callable[[int], None]
) -> Moment:
    while len(steps) < most and not moment.ended:
        act = side.act()
        seen = PackedArrays(moment.observation)
        moment = side.step(act.action)
        outcome = Moment({}, moment.reward, moment.terminated, moment.truncated, moment.success)
        packed = PackedArrays(act.policy_input)
        steps.append(TraceStep(seen, act.action, act.prompt, packed, act.raw_action, outcome))
        tell(len(steps))
    return moment
