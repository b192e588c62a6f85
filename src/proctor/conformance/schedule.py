"""What is played: which episode, in which process, after what, looked at when, with which actions.

A check compares two plays of one episode that differ in one thing only. The plays of one process follow each
other in one worker's life: reused simulators, other episodes and other tasks in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from proctor.types import BenchmarkSpec, Episode, Task

FIRST = "first"
AGAIN = "again"
NEXT = "next"
REUSED = "reused"
FILMED = "filmed"
ONE_KEY = "one key"
TO_THE_END = "to the end"
AFTER_END = "after the end"
SUCCESS = "success"
AFTER_SUCCESS = "after success"
REBUILT = "rebuilt"
LOOKED_AT = "looked at"
IN_TURN = "in turn"
IN_TURN_AGAIN = "in turn again"
BEYOND = "beyond the bounds"
CLIPPED = "clipped"

ALL = "all"

LONGEST = 1000
"""Steps after which an episode that is played to its end is given up."""

Looks = Literal["some", "many", "none", "one key"]
Actions = Literal["valid", "beyond", "clipped"]


@dataclass(frozen=True)
class Extent:
    """How much is played: which tasks (by name, `ALL`, or a few of them), how many episodes of how many steps."""

    tasks: Sequence[str] = ()
    episodes: int = 2
    steps: int = 20
    rounds: int = 10
    seed: int = 1000


@dataclass(frozen=True)
class Play:
    """One episode, played once.

    Attributes:
        name: what it is compared as.
        task: the number of its task among those that were chosen.
        index: the episode's index; its seed is the suite's seed plus that.
        steps: after how many it stops, if it does not end before.
        looks: at which steps it looks: three, half of them in a row, none, or that half at one key at a time.
        rebuild: close the simulator first and build another.
        film: ask for frames, too.
        by_policy: let a policy act that can do the task; a few episodes are tried until one succeeds.
        actions: within the bounds, beyond them, or those beyond as the benchmark says that they are executed.
    """

    name: str
    task: int
    index: int
    steps: int
    looks: Looks = "some"
    rebuild: bool = False
    film: bool = False
    by_policy: bool = False
    actions: Actions = "valid"

    def looks_at(self, step: int) -> bool:
        """Whether the observation after `step` steps is looked at."""
        if self.looks == "some":
            return step in (0, self.steps // 2, self.steps)
        # Looking at the other half as well would take as long again and tell hardly more.
        return self.looks != "none" and (step <= self.steps // 2 or step == self.steps)

    def films(self, step: int) -> bool:
        """Whether a frame is asked for after `step` steps: with a look, and without one."""
        return self.film and step in (0, min(2, self.steps), self.steps)


@dataclass(frozen=True)
class Programme:
    """The plays of one process, or how often it builds and closes a simulator (`rounds`)."""

    plays: tuple[Play, ...] = ()
    rounds: int = 0


def compose(tasks: int, extent: Extent, *, by_policy: bool, film: bool, clips: bool) -> list[Programme]:
    """Return what is to be played of so many tasks, with a policy that can succeed if there is one."""
    episodes, steps = extent.episodes, extent.steps
    programmes = [Programme(rounds=extent.rounds)]
    for task in range(tasks):
        reusing = [play for play in _reusing(task, episodes, steps, by_policy) if film or not play.film]
        if clips:
            reusing.append(Play(BEYOND, task, 0, steps, actions="beyond"))
            reusing.append(Play(CLIPPED, task, 0, steps, actions="clipped"))
        programmes += [Programme(tuple(reusing)), Programme(tuple(_rebuilding(task, episodes, steps)))]
    if tasks > 1:
        turn = [Play(IN_TURN, task, 0, steps) for task in range(tasks)]
        again = [Play(IN_TURN_AGAIN, task, 0, steps) for task in range(tasks)]
        programmes.append(Programme((*turn, *again)))
    return programmes


def _reusing(task: int, episodes: int, steps: int, by_policy: bool) -> Sequence[Play]:
    """One simulator all the way; every other play is of episode 0, after something else has happened."""
    plays = [Play(FIRST, task, 0, steps)]
    plays += [Play(f"{NEXT} {index}", task, index, steps) for index in range(1, episodes)]
    plays += [
        Play(REUSED, task, 0, steps),
        Play(FILMED, task, 0, steps, film=True),
        Play(ONE_KEY, task, 0, steps, looks="one key"),
        Play(TO_THE_END, task, episodes, LONGEST, looks="none"),
        Play(AFTER_END, task, 0, steps),
    ]
    if by_policy:
        plays += [
            Play(SUCCESS, task, episodes, LONGEST, looks="none", by_policy=True),
            Play(AFTER_SUCCESS, task, 0, steps),
        ]
    return plays


def _rebuilding(task: int, episodes: int, steps: int) -> Sequence[Play]:
    """A new simulator for every play."""
    return [
        Play(AGAIN, task, 0, steps),
        *(Play(f"{REBUILT} {index}", task, index, steps, rebuild=True) for index in range(1, episodes)),
        Play(f"{REBUILT} 0", task, 0, steps, rebuild=True),
        Play(LOOKED_AT, task, 0, steps, looks="many", rebuild=True),
    ]


def episode_of(play: Play, task: Task, seed: int) -> Episode:
    """Return the episode of a play, numbered as a run numbers it."""
    return Episode(task, play.index, seed + play.index)


_ENDLESS = 1e30
"""A bound beyond it is none: nobody means to reach the largest float."""


def actions(spec: BenchmarkSpec, key: tuple[int, int]) -> Iterator[NDArray[Any]]:
    """Yield valid actions without end, the same ones for the same key."""
    low, high = (_bound(side, spec.action_size) for side in (spec.action_low, spec.action_high))
    yield low.copy()
    yield high.copy()
    generator = np.random.default_rng(key)
    while True:
        action = generator.uniform(low, high)
        yield (np.rint(action) if spec.action_integers else action).astype(np.float32)


def wild_actions(spec: BenchmarkSpec, key: tuple[int, int]) -> Iterator[NDArray[Any]]:
    """Yield actions without end that reach three times as far from the middle as the bounds do."""
    low, high = (_bound(side, spec.action_size).astype(np.float64) for side in (spec.action_low, spec.action_high))
    generator = np.random.default_rng(key)
    while True:
        yield (low + high) / 2 + 1.5 * (high - low) * generator.uniform(-1, 1, spec.action_size)


def _bound(side: Any, size: int) -> NDArray[np.float32]:
    bound = np.broadcast_to(np.asarray(side, np.float64), (size,))
    # Where a space has no bound, the unit is as good as any.
    return np.where(np.abs(bound) < _ENDLESS, bound, np.sign(bound)).astype(np.float32)
