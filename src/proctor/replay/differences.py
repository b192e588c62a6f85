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


def difference(
    stored: Play, replayed: Play, seen: PolicyView, view: PolicyView, pixels: bool = True
) -> EpisodeDifference | None:
    """Say in what two plays of an episode differ; `None`: in nothing that can be compared.

    Args:
        stored: the run's own.
        replayed: the other.
        seen: what the policy looked at in the run.
        view: what was looked at in the replay: the same, or all of it but pictures.
        pixels: whether pictures are compared, if both have some.
    """
    pixels = pixels and seen.drawn == view.drawn
    found = [
        *_layout(stored.record, replayed.record),
        *_steps(stored.trajectory, replayed.trajectory),
        # What is seen decides what is done, and not before.
        first_other_look(stored.trajectory, replayed.trajectory, seen, view, pixels),
        first_other_action(stored.trajectory, replayed.trajectory),
    ]
    results = [
        ResultDifference(name, _text(mine), _text(theirs))
        for name in (*_RESULT, *(("pixel_digest",) if pixels else ()))
        if (mine := getattr(stored.record, name)) != (theirs := getattr(replayed.record, name))
    ]
    first = min((one for one in found if one is not None), key=lambda one: one.step, default=None)
    if first is None and not results:
        return None
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


def first_other_look(
    stored: Trajectory, replayed: Trajectory, seen: PolicyView, view: PolicyView, pixels: bool = True
) -> StepDifference | None:
    """Return the first thing that looked otherwise, of what was looked at both times."""
    both = [_marks(one, of, pixels and view.drawn) for one, of in ((stored, seen), (replayed, view))]
    for (look, mark), (_, other) in zip(*both, strict=False):
        if mark != other:
            return StepDifference(look.step, look.key, "", "")
    return None


def _marks(trajectory: Trajectory, view: PolicyView, pixels: bool) -> Iterator[tuple[Look, bytes]]:
    """Go through the marks of what was looked at; those of pictures, which say nothing of physics, if wanted."""
    for place, look in enumerate(looks(trajectory, view)):
        if pixels or not look.drawn:
            yield look, trajectory.marks[MARK * place : MARK * (place + 1)]


def first_other_action(stored: Trajectory, replayed: Trajectory) -> StepDifference | None:
    """Return the first action that is another. In a replay none is; a policy that is asked again may differ."""
    rows = [[row for actions in one.actions for row in actions] for one in (stored, replayed)]
    for step, (mine, theirs) in enumerate(zip(*rows, strict=False)):
        if mine.dtype != theirs.dtype or mine.tobytes() != theirs.tobytes():
            return StepDifference(step, "action", _text(mine.tolist()), _text(theirs.tolist()))
    return None


def _ending(trajectory: Trajectory, step: int) -> str:
    if trajectory.steps > step:
        return "it goes on"
    return " and ".join(name for name, ended in zip(_ENDINGS, trajectory.ending, strict=True) if ended) or "no end"


def _text(value: Any) -> str:
    """Return a value in short; of a digest, enough to tell it from any other."""
    text = repr(value) if isinstance(value, float) else str(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}..."
