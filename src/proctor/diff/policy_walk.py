"""Compares the stages of a policy: prompt, what its network is given, what that answers, and what is executed.

Each stage of ours is given what the other harness had at that place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.diff.findings import Difference, short
from proctor.diff.harness import Act, Arrays, arrays_of
from proctor.diff.numbers import VectorPair, equal, vector_diagnoses
from proctor.diff.ours import OurPolicy
from proctor.diff.physics import counts_of_positions
from proctor.diff.pictures import PicturePair, picture_diagnoses
from proctor.diff.trace import BEFORE, Trace, TraceStep
from proctor.engine.policy_session import PolicySession
from proctor.types import STATE, Episode

_MOST = 200
"""Steps on which the causes of other actions are tried."""


def compare_policy(ours: OurPolicy, episode: Episode, trace: Trace, notes: list[str]) -> list[Difference]:
    """Compare what both policies make of the other harness's observations."""
    found = [*_prompts(episode, trace)]
    if any(ours.shown(step.seen.unpacked()) is None for step in trace.steps):
        notes.append("the policy was not compared: it cannot be given what the other harness shows")
        return found
    walk = _PolicyWalk(ours, episode, trace)
    return [*found, *walk.inputs(), *walk.actions()]


def _prompts(episode: Episode, trace: Trace) -> Iterator[Difference]:
    ours = episode.task.prompt
    for place, step in enumerate(trace.steps):
        if step.prompt is not None and step.prompt != ours:
            causes = [f"{step.prompt!r} there, {ours!r} here"]
            if step.prompt == episode.task.name:
                causes = [f"the task's name in place of its description: {causes[0]}"]
            elif not step.prompt.strip():
                causes = [f"no prompt is given: {causes[0]}"]
            elif step.prompt.strip().rstrip(".").lower() == ours.strip().rstrip(".").lower():
                causes = [f"the same words in other letters: {causes[0]}"]
            yield Difference(place, "prompt", (causes[0],), repr(ours), repr(step.prompt))
            return


_NOTHING: NDArray[Any] = np.zeros((0, 1))


class _PolicyWalk:
    def __init__(self, ours: OurPolicy, episode: Episode, trace: Trace) -> None:
        self._ours, self._episode, self._trace = ours, episode, trace
        self._chunks: dict[int, NDArray[Any] | None] = {}
        spec = ours.policy.spec
        self._offsets = spec.observation_offsets

    def _batch(self, step: TraceStep) -> tuple[Any, Arrays]:
        """Return our network's input for what they saw, and the observation as our policy takes it."""
        shown = self._ours.shown(step.seen.unpacked())
        assert shown is not None
        prompt = self._episode.task.prompt if step.prompt is None else step.prompt
        return self._ours.stages.batch({**shown, "task": prompt}), shown

    def inputs(self) -> Iterator[Difference]:
        """Compare what the networks are given for the same observation and prompt."""
        if self._ours.stages is None:
            return
        pairs: dict[str, list[tuple[VectorPair, NDArray[Any]]]] = {}
        for place, step in enumerate(self._trace.steps[:_MOST]):
            theirs = step.policy_input.unpacked()
            if not theirs:
                continue
            batch, shown = self._batch(step)
            ours = arrays_of(batch)
            for key in sorted(ours.keys() & theirs.keys()):
                if not equal(ours[key], theirs[key]) and len(pairs.get(key, ())) < 6:
                    raw = shown.get(key, np.zeros(0))
                    pairs.setdefault(key, []).append((VectorPair(place, ours[key], theirs[key]), raw))
        for key, of_key in pairs.items():
            first = of_key[0][0]
            yield Difference(
                first.step,
                f"policy input {key}",
                tuple(_input_causes(of_key)),
                short(first.ours),
                short(first.theirs),
            )

    def actions(self) -> Iterator[Difference]:
        """Compare what the networks answer, and what becomes of it."""
        raw, last = self._answers()
        if raw:
            causes = self._chunk_causes(lambda step: step.raw_action) or vector_diagnoses(raw)
            yield Difference(raw[0].step, "raw action", tuple(causes), short(raw[0].ours), short(raw[0].theirs))
        if last:
            causes = [] if self._says_raw else self._chunk_causes(lambda step: step.action)
            causes = causes or vector_diagnoses(last, known=self._action_causes())
            yield Difference(last[0].step, "action", tuple(causes), short(last[0].ours), short(last[0].theirs))

    @property
    def _says_raw(self) -> bool:
        return self._ours.stages is not None and all(step.raw_action is not None for step in self._trace.steps)

    def _answers(self) -> tuple[list[VectorPair], list[VectorPair]]:
        """Ask our policy for every chunk, and return the network's answers and the actions that differ."""
        ours, steps = self._ours, self._trace.steps
        raw: list[VectorPair] = []
        last: list[VectorPair] = []
        ours.begin(self._episode)
        chunk: NDArray[Any] = _NOTHING
        asked = 0
        for place, step in enumerate(steps[:_MOST]):
            if place == asked + len(chunk) or not len(chunk):
                chunk, asked = self._ask(place), place
            mine, act = chunk[place - asked], step.act
            if ours.stages is not None:
                if self._says_raw and not equal(mine, act.raw_action):
                    raw.append(VectorPair(place, mine, _known(act)))
                mine = ours.stages.actions(_known(act) if self._says_raw else mine)
            if not equal(mine, act.action):
                last.append(VectorPair(place, np.asarray(mine), act.action))
        return raw, last

    def _ask(self, place: int) -> NDArray[Any]:
        window = [self._trace.steps[max(0, place + offset)] for offset in self._offsets]
        if self._ours.stages is None:
            prompt = window[-1].prompt
            shown = [self._ours.shown(step.seen.unpacked()) or {} for step in window]
            return self._ours.ask(shown, self._episode.task.prompt if prompt is None else prompt)
        found: NDArray[Any] = self._ours.stages.ask([self._their_batch(step) for step in window])
        return found

    def _their_batch(self, step: TraceStep) -> Any:
        """Return their network's input, in the form of ours."""
        return self._ours.stages.with_inputs(self._batch(step)[0], step.policy_input.unpacked())

    def _chunk_at(self, place: int, steps: Sequence[TraceStep]) -> NDArray[Any] | None:
        """Return all that our policy answers if it is asked at a step for the first time."""
        policy = self._ours.policy
        if self._ours.stages is not None:
            found: NDArray[Any] | None = self._ours.stages.whole_chunk(self._their_batch(steps[place]))
            return found if found is None or self._says_raw else self._ours.stages.actions(found)
        if policy.spec.stochastic or len(self._offsets) > 1:
            return None
        shown = self._ours.shown(steps[place].seen.unpacked())
        self._ours._session = PolicySession(policy, self._episode)
        return None if shown is None else self._ours.ask([shown], self._episode.task.prompt)

    def _whole(self, place: int) -> NDArray[Any] | None:
        if place not in self._chunks:
            self._chunks[place] = self._chunk_at(place, self._trace.steps)
        return self._chunks[place]

    def _chunk_causes(self, read: Callable[[TraceStep], Any]) -> list[str]:
        """Try other lengths of executed chunks, and what an earlier episode may have left behind."""
        steps = self._trace.steps[:_MOST]
        first = self._whole(0)
        own = self._ours.policy.spec.action_steps
        if first is None or own is None:
            return []

        def fits(length: int, left: NDArray[Any] = _NOTHING) -> bool:
            for place, step in enumerate(steps):
                if place < len(left):
                    mine = left[place]
                else:
                    asked = len(left) + (place - len(left)) // length * length
                    chunk = self._whole(asked)
                    mine = None if chunk is None or place - asked >= len(chunk) else chunk[place - asked]
                if not equal(mine, read(step)):
                    return False
            return True

        found = [
            f"executed chunk length {length} where ours is {own}"
            for length in range(1, len(first) + 1)
            if length != own and fits(length)
        ]
        if found and len(found) > 1:  # too short to tell lengths apart that begin alike
            least = found[0].split()[3]
            found = [f"executed chunk length {least} or more where ours is {own}"]
        left = self._left_behind(own)
        if len(left) and fits(own, left):
            found.append(
                f"stale queue: the first {len(left)} actions are what the episode before has left of its chunk"
            )
        return found

    def _left_behind(self, own: int) -> NDArray[Any]:
        """Return what of its last chunk the episode before did not execute."""
        before = self._trace.before
        if len(before) != BEFORE:
            return _NOTHING
        asked = BEFORE // own * own
        if asked == BEFORE:
            return _NOTHING
        chunk = self._chunk_at(asked, before)
        return _NOTHING if chunk is None else chunk[BEFORE - asked : own]

    def _action_causes(self) -> Mapping[str, Callable[[VectorPair], Any]]:
        """Return what may become of a network's answer on its way to the simulator, by its words."""
        steps = self._trace.steps
        tried: dict[str, Callable[[VectorPair], Any]] = {}
        if self._says_raw:
            tried["not un-normalised: it is the network's own answer"] = lambda pair: steps[pair.step].raw_action
            for words, make in _statistics(self._ours.stages.statistics()):
                text = f"un-normalised with {words}, and not as the checkpoint says"
                tried[text] = lambda pair, make=make: make(steps[pair.step].raw_action)  # type: ignore[misc]
        for sign, words in (
            (1, "plus the state: absolute where ours is relative"),
            (-1, "less the state: relative where ours is absolute"),
        ):
            for count in counts_of_positions(steps[0].action.size):
                tried[f"ours {words} ({count} numbers)"] = (
                    lambda pair, sign=sign, count=count: _shifted(pair, steps[pair.step], sign, count)  # type: ignore[misc]
                )
        return tried


def _known(act: Act) -> NDArray[Any]:
    assert act.raw_action is not None
    return act.raw_action


def _statistics(known: Mapping[str, NDArray[Any]]) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    if {"mean", "std"} <= known.keys():
        yield "mean and standard deviation", lambda raw: raw * known["std"] + known["mean"]
    for words, low, high in (("minimum and maximum", "min", "max"), ("1st and 99th percentile", "q01", "q99")):
        if {low, high} <= known.keys():
            yield words, functools.partial(_between, known[low], known[high])


def _between(low: NDArray[Any], high: NDArray[Any], raw: Any) -> Any:
    return (raw + 1) / 2 * (high - low) + low


def _shifted(pair: VectorPair, step: TraceStep, sign: int, count: int) -> Any:
    state = step.seen.unpacked((STATE,)).get(STATE)
    if state is None or state.ndim != 1 or state.size < count or pair.ours.size < count:
        return None
    changed = pair.ours.astype(np.float64)
    changed[:count] += sign * state[:count]
    return changed


def _input_causes(pairs: Sequence[tuple[VectorPair, NDArray[Any]]]) -> list[str]:
    first = pairs[0][0]
    own = "not normalised: it is the observation itself"
    if first.ours.ndim == 1:
        if all(equal(raw, pair.theirs) for pair, raw in pairs):
            return [own]
        return vector_diagnoses([pair for pair, _ in pairs])
    if first.ours.ndim != 3:
        return []
    if all(raw.ndim == 3 and equal(np.moveaxis(raw, -1, 0) / 255.0, pair.theirs) for pair, raw in pairs):
        return [own]
    if all(raw.ndim == 3 and equal(np.moveaxis(raw, -1, 0), pair.theirs) for pair, raw in pairs):
        return ["neither scaled nor normalised: it is the observation itself, from 0 to 255"]
    if all(equal(255.0 * pair.ours, pair.theirs) for pair, _ in pairs):
        return ["0 to 255 where ours is 0 to 1"]
    drawn = [PicturePair(p.step, np.moveaxis(p.ours, 0, -1), np.moveaxis(p.theirs, 0, -1)) for p, _ in pairs]
    return _affine([pair for pair, _ in pairs]) or picture_diagnoses(drawn)


def _affine(pairs: Sequence[VectorPair]) -> list[str]:
    """Find out whether each channel is a multiple of ours, with something added: normalised with other numbers."""
    if any(pair.ours.shape != pair.theirs.shape for pair in pairs):
        return []
    channels = len(pairs[0].ours)
    sides = [pair.ours for pair in pairs], [pair.theirs for pair in pairs]
    ours, theirs = (np.stack(side).swapaxes(0, 1).reshape(channels, -1) for side in sides)
    slopes = []
    for mine, other in zip(ours.astype(np.float64), theirs.astype(np.float64), strict=True):
        low, high = mine.argmin(), mine.argmax()
        if mine[high] - mine[low] < 1e-6:
            return []
        slope = (other[high] - other[low]) / (mine[high] - mine[low])
        # What was rounded small is rounded still when it is scaled up.
        if np.abs(other[low] + slope * (mine - mine[low]) - other).max() > 1e-5 * max(1.0, np.abs(other).max()):
            return []
        slopes.append(float(slope))
    if np.allclose(slopes, 255.0, rtol=1e-4):
        return ["0 to 255 when it is normalised, where ours is 0 to 1"]
    return ["normalised with other numbers: in each channel it is a multiple of ours, with a constant added"]
