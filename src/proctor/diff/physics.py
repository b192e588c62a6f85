"""Why another simulator goes another way on the same actions: what was done otherwise is tried in ours.

A hypothesis holds if our simulator, played so, gives their rewards and their numbers at every step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proctor.diff.harness import Arrays
from proctor.diff.numbers import equal
from proctor.diff.ours import AS_PLANNED, Circumstances, Execute, OurSimulators
from proctor.diff.trace import Trace
from proctor.types import STATE, Episode

_TRIED = 40
"""Steps on which a hypothesis is tried."""

_NEAR = 1e-6
"""Of a reward's size, at least 1: what rounding of actions makes of it."""

_SETTLING = 20
_REPEATS = 5
_NEIGHBOURS = 20


class Mismatch(NamedTuple):
    """The first thing in which two simulators part."""

    step: int
    field: str
    ours: Any
    theirs: Any


@dataclass(frozen=True)
class Agreement:
    """How far a play of ours agrees with their trace."""

    outcomes: Mismatch | None
    """The first beginning or reward that differs."""
    numbers: Mismatch | None
    """The first observed number that differs."""

    @property
    def whole(self) -> bool:
        """Whether nothing differs."""
        return self.outcomes is None and self.numbers is None


@dataclass(frozen=True)
class Physics:
    """What physics came to.

    Attributes:
        mismatch: where the simulators part on the same actions; `None`: nowhere.
        explanations: what explains it.
        circumstances: how ours is played so that it goes their way.
    """

    mismatch: Mismatch | None
    explanations: tuple[str, ...] = ()
    circumstances: Circumstances = AS_PLANNED

    @property
    def same(self) -> bool:
        """Whether ours goes their way, as it is or as it was explained."""
        return self.mismatch is None or bool(self.explanations)


def compare_physics(
    simulators: OurSimulators, episode: Episode, trace: Trace, look: frozenset[str], seeds: Sequence[int]
) -> Physics:
    """Play their actions in our simulator, and say where and why it goes another way.

    Args:
        simulators: ours.
        episode: the episode.
        trace: theirs.
        look: the observed numbers that both have; pictures are looked at elsewhere.
        seeds: those of other episodes, which a harness may have taken.
    """
    plain = _agreement(simulators, episode, trace, look, AS_PLANNED, None)
    if plain.whole:
        return Physics(None)
    words: dict[str, Circumstances] = {}
    partly: dict[str, Circumstances] = {}
    for text, how in _hypotheses(episode, trace, look, seeds):
        found = _agreement(simulators, episode, trace, look, how, _TRIED)
        if found.whole:
            words[text] = how
        elif found.outcomes is None and plain.outcomes is not None and _telling(trace):
            partly[text] = how
    fitting = words or partly
    if plain.outcomes is None and not words:
        return Physics(None)  # rewards agree, and numbers are not those of another play: they are shown otherwise
    parted = [one for one in (plain.outcomes, plain.numbers) if one is not None]
    mismatch = min(parted, key=lambda one: one.step)
    if not fitting:
        rewards = _reward_words(simulators, episode, trace, look)
        return Physics(mismatch, (rewards,)) if rewards else Physics(mismatch)
    return Physics(mismatch, tuple(fitting), next(iter(fitting.values())))


def _telling(trace: Trace) -> bool:
    """Whether rewards tell one play from another: constant ones do not."""
    return len({step.outcome.reward for step in trace.steps}) > 1


def _agreement(
    simulators: OurSimulators,
    episode: Episode,
    trace: Trace,
    look: frozenset[str],
    how: Circumstances,
    most: int | None,
) -> Agreement:
    outcomes: Mismatch | None = None
    numbers: Mismatch | None = None
    steps = trace.steps[:most]
    actions = [step.action for step in steps]
    for place, (moment, layout) in enumerate(simulators.play(episode, actions, look, how)):
        if place == 0:
            outcomes = _layout_mismatch(layout, trace.layout)
        elif not _same_reward(moment.reward, steps[place - 1].outcome.reward) and outcomes is None:
            outcomes = Mismatch(place, "reward", moment.reward, steps[place - 1].outcome.reward)
        if numbers is None:
            numbers = _numbers_mismatch(place, moment.observation, trace.observation(place, look), look)
        if outcomes is not None and (numbers is not None or most is not None):
            break
    return Agreement(outcomes, numbers)


def _layout_mismatch(ours: dict[str, float], theirs: dict[str, float]) -> Mismatch | None:
    for name in sorted(ours.keys() & theirs.keys()):
        if ours[name] != theirs[name]:
            return Mismatch(0, f"layout.{name}", ours[name], theirs[name])
    return None


def _same_reward(ours: float, theirs: float) -> bool:
    return abs(ours - theirs) <= _NEAR * max(1.0, abs(ours))


def _numbers_mismatch(step: int, ours: Arrays, theirs: Arrays, look: frozenset[str]) -> Mismatch | None:
    for key in sorted(look & ours.keys() & theirs.keys()):
        if not equal(ours[key], theirs[key]):
            return Mismatch(step, key, ours[key], theirs[key])
    return None


def _hypotheses(
    episode: Episode, trace: Trace, look: frozenset[str], seeds: Sequence[int]
) -> Iterator[tuple[str, Circumstances]]:
    near = [episode.seed + offset for n in range(1, _NEIGHBOURS + 1) for offset in (n, -n)]
    for seed in dict.fromkeys([*seeds, 0, 1, 7, 42, episode.index, 1000, *near]):
        if seed != episode.seed and seed >= 0:
            yield f"it begins as seed {seed} does, and ours has seed {episode.seed}", Circumstances(seed=seed)
    size = trace.steps[0].action.size
    still = np.zeros(size, trace.steps[0].action.dtype)
    open_, closed = still.copy(), still.copy()
    open_[-1], closed[-1] = -1, 1
    for words, action in (
        ("nothing", still),
        ("-1 for the last number", open_),
        ("1 for the last number", closed),
    ):
        for count in range(1, _SETTLING + 1):
            text = f"{count} steps with {words} are executed before the episode begins"
            yield text, Circumstances(settling=(action, count))
    for repeats in range(2, _REPEATS + 1):
        for sums in (False, True):
            rewards = "their rewards added up" if sums else "the last reward counted"
            yield (
                f"every action is executed {repeats} times, with {rewards}",
                Circumstances(repeats=repeats, sums=sums),
            )
    for text, execute in _executions(look, size):
        yield text, Circumstances(execute=execute)


def _executions(look: frozenset[str], size: int) -> Iterator[tuple[str, Execute]]:
    """Go through what a simulator may execute in place of the action that it is given."""

    def last(change: Any) -> Execute:
        def execute(action: NDArray[Any], seen: Arrays) -> NDArray[Any]:
            changed = action.copy()
            changed[-1] = change(action[-1])
            return changed

        return execute

    def shifted(sign: float, count: int) -> Execute:
        def execute(action: NDArray[Any], seen: Arrays) -> NDArray[Any]:
            changed = action.copy()
            state = seen[STATE][:count]
            changed[: len(state)] += (sign * state).astype(action.dtype)
            return changed

        return execute

    yield (
        "actions are executed with the other sign of their last number, as of a gripper the wrong way round",
        last(lambda value: -value),
    )
    yield (
        "actions are executed with the last number made 1 or -1, as of a gripper with a threshold",
        last(lambda value: 1 if value > 0 else -1),
    )
    yield "actions are executed with a last number of 0", last(lambda value: 0)
    yield "actions are executed with the other sign", lambda action, seen: -action
    for factor in (0.1, 0.5, 2.0, 10.0):
        yield f"actions are executed times {factor:g}", lambda action, seen, factor=factor: factor * action  # type: ignore[misc]
    if STATE in look:
        for count in counts_of_positions(size):
            yield (
                f"actions are executed less the state ({count} numbers): absolute where ours are relative",
                shifted(-1.0, count),
            )
            yield (
                f"actions are executed plus the state ({count} numbers): relative where ours are absolute",
                shifted(1.0, count),
            )


def counts_of_positions(size: int) -> list[int]:
    """Return how many numbers of an action may be a position: three, all but a gripper's, or all."""
    return [count for count in dict.fromkeys((3, size - 1, size)) if 0 < count <= size]


def _reward_words(simulators: OurSimulators, episode: Episode, trace: Trace, look: frozenset[str]) -> str | None:
    """Say how their rewards come of ours where all that is observed agrees."""
    played = [moment for moment, _ in simulators.play(episode, [step.action for step in trace.steps], look)]
    theirs = [step.outcome.reward for step in trace.steps][: len(played) - 1]
    ours = [moment.reward for moment in played[1:]]
    agree = all(
        _numbers_mismatch(place, moment.observation, trace.observation(place, look), look) is None
        for place, moment in enumerate(played)
    )
    if not agree or not look or not theirs:
        return None
    if all(reward == float(bool(moment.success)) for reward, moment in zip(theirs, played[1:], strict=True)):
        return "rewards are 1 for success and 0 otherwise"
    factor = next((mine and other / mine for mine, other in zip(ours, theirs, strict=True) if mine), 0.0)
    if (
        factor
        and len(ours) > 1
        and all(
            abs(factor * mine - other) <= _NEAR * max(1, abs(other))
            for mine, other in zip(ours, theirs, strict=True)
        )
    ):
        return f"rewards are ours times {factor:.6g}"
    return None
