"""Where two plays of an episode part: the first step and field, and what of the result is another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from proctor.engine.observation_windows import Windows
from proctor.engine.rollout import PolicyView
from proctor.store.schema import EpisodeRecord
from proctor.store.trajectories import MARK, Trajectory

_RESULT = ("seed", "success", "steps", "sum_reward", "max_reward", "metrics", "digest")
"""Of a record, what follows from the episode's actions; `layout` and pixels are looked at apart."""

_LONG = 40
"""Characters of a value in a line."""

_ENDINGS = ("terminated", "truncated", "the step limit")


@dataclass(frozen=True)
class Play:
    """One play of an episode: its record and its trajectory."""

    record: EpisodeRecord
    trajectory: Trajectory


class StepDifference(NamedTuple):
    """The first thing that differs, after so many steps. Step 0 is the beginning, before any action."""

    step: int
    field: str
    stored: str
    replayed: str

    def __str__(self) -> str:
        values = f": stored {self.stored}, now {self.replayed}" if self.stored else ""
        return f"step {self.step}, {self.field}{values}"


class ResultDifference(NamedTuple):
    """A value of the stored result that the stored actions do not give."""

    field: str
    stored: str
    replayed: str

    def __str__(self) -> str:
        return f"{self.field}: stored {self.stored}, now {self.replayed}"


@dataclass(frozen=True)
class EpisodeDifference:
    """In what an episode is not what its run says."""

    task: str
    index: int
    first: StepDifference | None
    results: tuple[ResultDifference, ...] = ()

    @property
    def fields(self) -> set[str]:
        """Everything in which they differ."""
        return {one.field for one in self.results} | ({self.first.field} if self.first is not None else set())

    def __str__(self) -> str:
        parts = [*([str(self.first)] if self.first is not None else []), *map(str, self.results)]
        return f"{self.task} episode {self.index}: {'; '.join(parts)}"


class Look(NamedTuple):
    """One array that the policy saw, by the step after which it did."""

    step: int
    key: str
    drawn: bool


def looks(trajectory: Trajectory, view: PolicyView) -> Iterator[Look]:
    """Go through what the policy saw, in the order in which the rollout observes it."""
    windows = Windows(view.offsets, view.stride)
    step = next_ask = 0
    chunks = iter(trajectory.chunks.tolist())
    while step < trajectory.steps:
        if step == 0 or windows.needs(step, next_ask):
            yield from (Look(step, one.source, one.drawn) for one in view.shown)
        if step == next_ask:
            next_ask += next(chunks, 1)
        step += 1


def difference(stored: Play, replayed: Play, seen: PolicyView, view: PolicyView) -> EpisodeDifference | None:
    """Say in what two plays of an episode differ; `None`: in nothing that can be compared.

    Args:
        stored: the run's own.
        replayed: the other.
        seen: what the policy looked at in the run.
        view: what was looked at in the replay: the same, or all of it but pictures.
    """
    found = [
        *_layout(stored.record, replayed.record),
        *_steps(stored.trajectory, replayed.trajectory),
        *_seen(stored.trajectory, replayed.trajectory, seen, view),
        *_actions(stored.trajectory, replayed.trajectory),  # what is seen decides what is done, and not before
    ]
    results = [
        ResultDifference(name, _text(mine), _text(theirs))
        for name in (*_RESULT, *(("pixel_digest",) if seen.drawn == view.drawn else ()))
        if (mine := getattr(stored.record, name)) != (theirs := getattr(replayed.record, name))
    ]
    if not found and not results:
        return None
    first = min(found, key=lambda one: one.step, default=None)
    record = replayed.record
    return EpisodeDifference(record.task, record.episode_index, first, tuple(results))


def _layout(stored: EpisodeRecord, replayed: EpisodeRecord) -> Iterator[StepDifference]:
    for name in sorted(stored.layout.keys() | replayed.layout.keys()):
        mine, theirs = stored.layout.get(name), replayed.layout.get(name)
        if mine != theirs:
            yield StepDifference(0, f"layout.{name}", _text(mine), _text(theirs))
            return


def _steps(stored: Trajectory, replayed: Trajectory) -> Iterator[StepDifference]:
    steps = min(stored.steps, replayed.steps)
    mine, theirs = stored.rewards[:steps], replayed.rewards[:steps]
    # As bits: zero with a minus is another digest.
    other = np.flatnonzero(mine.view(np.int64) != theirs.view(np.int64))
    if len(other):
        step = int(other[0])
        yield StepDifference(step + 1, "reward", _text(float(mine[step])), _text(float(theirs[step])))
    if stored.succeeded != replayed.succeeded:
        step = min(one for one in (stored.succeeded, replayed.succeeded) if one is not None)
        yield StepDifference(step, "success", _text(stored.succeeded == step), _text(replayed.succeeded == step))
    if stored.steps != replayed.steps or stored.ending != replayed.ending:
        yield StepDifference(steps, "ending", _ending(stored, steps), _ending(replayed, steps))


def _seen(
    stored: Trajectory, replayed: Trajectory, seen: PolicyView, view: PolicyView
) -> Iterator[StepDifference]:
    """Compare the marks of what was looked at both times. Those of pictures say nothing of physics."""
    mine = [
        (look, stored.marks[MARK * place : MARK * (place + 1)])
        for place, look in enumerate(looks(stored, seen))
        if not look.drawn or view.drawn
    ]
    theirs = [replayed.marks[start : start + MARK] for start in range(0, len(replayed.marks), MARK)]
    for (look, mark), other in zip(mine, theirs, strict=False):
        if mark != other:
            yield StepDifference(look.step, look.key, "", "")
            return


def _actions(stored: Trajectory, replayed: Trajectory) -> Iterator[StepDifference]:
    """Compare what was done. In a replay it is the same; a policy that is asked again may do otherwise."""
    rows = [[row for actions in one.actions for row in actions] for one in (stored, replayed)]
    for step, (mine, theirs) in enumerate(zip(*rows, strict=False)):
        if mine.dtype != theirs.dtype or mine.tobytes() != theirs.tobytes():
            yield StepDifference(step, "action", _text(mine.tolist()), _text(theirs.tolist()))
            return


def _ending(trajectory: Trajectory, step: int) -> str:
    if trajectory.steps > step:
        return "it goes on"
    return " and ".join(name for name, ended in zip(_ENDINGS, trajectory.ending, strict=True) if ended) or "no end"


def _text(value: Any) -> str:
    """Return a value in short; of a digest, enough to tell it from any other."""
    text = repr(value) if isinstance(value, float) else str(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}..."
