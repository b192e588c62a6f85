"""Goes through what another harness did, stage by stage, with our side on the same input at each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.diff.findings import Difference, LiveDiff, short
from proctor.diff.harness import Moment
from proctor.diff.numbers import VectorPair, equal, vector_diagnoses
from proctor.diff.ours import OurPolicy, OurSimulators
from proctor.diff.physics import Physics, compare_physics
from proctor.diff.pictures import PicturePair, changed_pixels, picture_diagnoses
from proctor.diff.policy_walk import compare_policy
from proctor.diff.trace import Trace
from proctor.types import BenchmarkSpec, Episode, Feature

_MOST_PAIRS = 6
"""Pictures of a camera on which a cause is tried."""

_ORDER = ("layout", "reward", "observation", "prompt", "policy input", "raw action", "action", "success", "ending")
"""What leads to what inside of a step."""


@dataclass
class Subject:
    """What is compared.

    Attributes:
        simulators: ours.
        policy: ours.
        spec: what the benchmark gives our policy.
        episode: the episode.
        trace: what the other harness did in it.
        seeds: of the run's other episodes.
    """

    simulators: OurSimulators
    policy: OurPolicy
    spec: BenchmarkSpec
    episode: Episode
    trace: Trace
    seeds: Sequence[int] = ()
    notes: list[str] = field(default_factory=list)

    @property
    def features(self) -> dict[str, Feature]:
        """What our simulator can show that theirs shows too, by the simulator's names."""
        ours = {self.spec.sources.get(key, key): feature for key, feature in self.spec.every.items()}
        theirs = self.trace.observation(0)
        return {key: ours[key] for key in sorted(ours) if key in theirs}


def compare(subject: Subject) -> LiveDiff:
    """Compare everything, and return what differs."""
    trace = subject.trace
    numbers = frozenset(key for key, feature in subject.features.items() if not feature.drawn)
    physics = compare_physics(subject.simulators, subject.episode, trace, numbers, subject.seeds)
    found = [*_of_physics(physics)]
    played: list[Moment] = []
    found += _observations(subject, physics, played)
    found += compare_policy(subject.policy, subject.episode, trace, subject.notes)
    if physics.same:
        found += _endings(subject, played)
    unseen = sorted(subject.policy.keys.keys() - trace.observation(0).keys())
    if unseen:
        subject.notes.append(f"not compared, because the other harness does not show it: {', '.join(unseen)}")
    if not any(step.raw_action is not None for step in trace.steps) and subject.policy.stages is not None:
        subject.notes.append("the other harness does not say what its network answered: its stages are one here")
    end = trace.steps[-1].outcome
    how = "terminated" if end.terminated else "truncated" if end.truncated else "cut off here"
    return LiveDiff(
        harness=trace.name,
        task=subject.episode.task.name,
        index=subject.episode.index,
        seed=subject.episode.seed,
        steps=len(trace.steps),
        ended=how,
        differences=sorted(found, key=lambda one: (one.step, _rank(one.field))),
        notes=subject.notes,
        rewards=[step.outcome.reward for step in trace.steps],
    )


def _rank(name: str) -> int:
    return next((place for place, begin in enumerate(_ORDER) if name.startswith(begin)), len(_ORDER))


def _of_physics(physics: Physics) -> Iterator[Difference]:
    if physics.mismatch is not None:
        step, name, ours, theirs = physics.mismatch
        yield Difference(step, name, physics.explanations, short(ours), short(theirs))


def _observations(subject: Subject, physics: Physics, played: list[Moment]) -> Iterator[Difference]:
    """Draw and look in our simulator at what they saw; `played` gets what it came to."""
    trace, features = subject.trace, subject.features
    until = len(trace.steps) + 1
    if not physics.same and physics.mismatch is not None:
        until = physics.mismatch.step  # what comes then follows from that
    pairs: dict[str, list[VectorPair | PicturePair]] = {}
    history: dict[str, dict[int, NDArray[Any]]] = {key: {} for key in features}
    actions = [step.action for step in trace.steps]
    look = frozenset(features)
    for place, (moment, _) in enumerate(
        subject.simulators.play(subject.episode, actions, look, physics.circumstances)
    ):
        played.append(Moment({}, moment.reward, moment.terminated, moment.truncated, moment.success))
        if place >= until:
            continue
        theirs = trace.observation(place)
        for key, feature in features.items():
            ours, other = moment.observation[key], theirs[key]
            if not _same(ours, other):
                of_key = pairs.setdefault(key, [])
                if len(of_key) < _MOST_PAIRS or not feature.drawn:
                    of_key.append((PicturePair if feature.drawn else VectorPair)(place, ours, other))
            if len(pairs.get(key, ())) < _MOST_PAIRS or not feature.drawn:
                history[key][place] = ours
    for key, of_key in pairs.items():
        first = of_key[0]
        causes = _causes(subject, key, features[key], of_key, history, physics)
        yield Difference(first.step, key, tuple(causes), *_values(first, features[key]))


def _values(first: Any, feature: Feature) -> tuple[str, str]:
    changed = changed_pixels(first) if feature.drawn else None
    if changed is None:
        return short(first.ours), short(first.theirs)
    rows, columns = (np.flatnonzero(changed.any(axis)) for axis in (1, 0))
    where = f"rows {rows[0]} to {rows[-1]}, columns {columns[0]} to {columns[-1]}"
    return short(
        first.ours
    ), f"{short(first.theirs)}; {int(changed.sum())} of {changed.size} pixels differ, {where}"


def _same(ours: NDArray[Any], theirs: NDArray[Any]) -> bool:
    if ours.dtype == theirs.dtype == np.uint8:
        return np.array_equal(ours, theirs)
    return equal(ours, theirs)


def _causes(
    subject: Subject,
    key: str,
    feature: Feature,
    pairs: Sequence[Any],
    history: dict[str, dict[int, NDArray[Any]]],
    physics: Physics,
) -> list[str]:
    if not feature.drawn:
        return vector_diagnoses(pairs, before=history[key])
    others = {other: seen for other, seen in history.items() if other != key and subject.features[other].drawn}
    redrawn = _redrawn(subject, key, pairs, physics)
    return redrawn or picture_diagnoses(pairs, same_physics=physics.same, before=history[key], others=others)


def _redrawn(subject: Subject, key: str, pairs: Sequence[PicturePair], physics: Physics) -> list[str]:
    """Draw ours at the size of theirs, where only the size may be another."""
    theirs, ours = pairs[0].theirs, pairs[0].ours
    if theirs.ndim != 3 or theirs.shape[:2] == ours.shape[:2] or len({pair.theirs.shape for pair in pairs}) > 1:
        return []
    settings = subject.simulators.resized(*theirs.shape[:2])
    if settings is None:
        return []
    wanted = {pair.step: pair.theirs for pair in pairs}
    actions = [step.action for step in subject.trace.steps[: max(wanted)]]
    played = subject.simulators.play(subject.episode, actions, frozenset({key}), physics.circumstances, settings)
    redrawn = [
        PicturePair(place, moment.observation[key], wanted[place])
        for place, (moment, _) in enumerate(played)
        if place in wanted
    ]
    apart = [pair for pair in redrawn if not np.array_equal(pair.ours, pair.theirs)]
    sizes = " where ours has ".join(f"{one.shape[0]} x {one.shape[1]} pixels" for one in (theirs, ours))
    if not apart:
        return [f"{sizes}: drawn at that size, ours is the same"]
    others = picture_diagnoses(apart, same_physics=physics.same)
    return [f"{sizes}, and drawn at that size, {cause}" for cause in others]


def _endings(subject: Subject, played: Sequence[Moment]) -> Iterator[Difference]:
    """Compare success at every step, when and how the episode ends, and what it counts as."""
    trace, limit = subject.trace, subject.episode.task.max_steps
    ours, theirs = played[1:], [step.outcome for step in trace.steps]
    both = min(len(ours), len(theirs))
    flags = [
        step
        for step in range(both)
        if None not in (ours[step].success, theirs[step].success) and ours[step].success != theirs[step].success
    ]
    if flags:
        step = flags[0]
        yield Difference(
            step + 1, "success", tuple(_flag_causes(ours, theirs, both)),
            str(ours[step].success), str(theirs[step].success),
        )  # fmt: skip
    ended = next((step + 1 for step, moment in enumerate(ours) if moment.ended), None)
    if trace.whole and ended != len(theirs) and (ended is None or ended > len(theirs)) and not flags:
        how = "a step limit of" if theirs[-1].truncated else "it is terminated at step"
        words = f"{how} {len(theirs)} there, where ours is {limit}" if theirs[-1].truncated else ""
        causes = (words or f"{how} {len(theirs)}, and ours goes on",)
        yield Difference(len(theirs), "ending", causes, "goes on", "over")
    elif ended is not None and len(theirs) > ended:
        succeeded = bool(ours[ended - 1].success)
        words = "it goes on after success" if succeeded else f"its step limit is above ours of {limit}"
        yield Difference(ended, "ending", (words,), "over", "goes on")
    yield from _verdict(trace, ours)


def _flag_causes(ours: Sequence[Moment], theirs: Sequence[Moment], both: int) -> Iterator[str]:
    tried: dict[str, Callable[[int], bool]] = {
        "success is never reported": lambda step: False,
        "success is always reported": lambda step: True,
        "success is reported one step late": lambda step: step > 0 and bool(ours[step - 1].success),
        "success is reported for every step with a reward": lambda step: theirs[step].reward > 0,
    }
    for words, claim in tried.items():
        if all(bool(theirs[step].success) == claim(step) for step in range(both)):
            yield words


def _verdict(trace: Trace, ours: Sequence[Moment]) -> Iterator[Difference]:
    flags = [step.outcome.success for step in trace.steps]
    counted = any(moment.success for moment in ours)
    if trace.succeeded is None or trace.succeeded == counted or not trace.whole:
        return
    causes = []
    if flags and None not in flags and any(flags) != flags[-1] and trace.succeeded == flags[-1]:
        causes.append("success counts at the last step alone, where ours counts it at any")
    if flags and None not in flags and any(flags) == trace.succeeded != counted:
        return  # the flags themselves differ, which is told
    yield Difference(len(flags), "success of the episode", tuple(causes), str(counted), str(trace.succeeded))
