"""When one process that answers for the policy is not enough: copies of it, by what its real calls take.

Nobody can say beforehand what a call of somebody's Python class costs, and made-up observations may be such as it
never meets. So a run begins with one host and looks how long that takes over the questions of the run itself. If
everybody waits for it, or if the way to it is longer than the call, every worker loads a copy of its own. Where it
cannot be loaded there, or memory has no room for so many, there are several hosts. That changes when an answer
comes and never what it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from proctor.engine.workforce import CROSSING

WINDOW = 0.5
"""Seconds over which calls are measured before a decision."""

_FEWEST = 8
"""Questions in a window that can say anything."""

_SATURATED = 0.85
"""The share of a host's time in calls above which it is what everybody waits for."""

_WORTH_IT = 0.8
"""Copies are made only if they are expected to take at most this share of the time without them."""


class HostLoad(NamedTuple):
    """What a host has done at some time.

    Attributes:
        time: seconds, by any clock.
        answers: questions answered so far.
        busy: seconds spent in calls of the policy so far.
        steps: steps of all workers so far.
    """

    time: float
    answers: int
    busy: float
    steps: int


@dataclass(frozen=True)
class CallCost:
    """What calls of the policy were seen to cost.

    Attributes:
        act: seconds of a call, for one question.
        saturated: whether everybody waits for the one host.
        per_step: questions for each step of a simulator.
    """

    act: float
    saturated: bool
    per_step: float


class CallMeter:
    """Watches a host at work. Times are in seconds, by any one clock."""

    def __init__(self) -> None:
        self._begun: HostLoad | None = None

    def look(self, now: HostLoad) -> CallCost | None:
        """Return what calls cost, once a window has passed in which there were enough to tell."""
        if self._begun is None:
            # The first call may import and compile; what it took says nothing of the next.
            self._begun = now if now.answers else None
            return None
        answers, passed = now.answers - self._begun.answers, now.time - self._begun.time
        steps = now.steps - self._begun.steps
        if passed < WINDOW or answers < _FEWEST or steps <= 0:
            return None
        busy = now.busy - self._begun.busy
        self._begun = now
        return CallCost(busy / answers, busy > _SATURATED * passed, answers / steps)


@dataclass(frozen=True)
class Room:
    """What there is for copies.

    Attributes:
        workers: how many ask.
        cores: how many processes can run at once.
        load: seconds that loading one takes.
        copies: how many fit into memory.
        in_workers: whether a worker can load the policy, whose packages may be elsewhere.
    """

    workers: int
    cores: int
    load: float
    copies: int
    in_workers: bool


def choose_copies(cost: CallCost, steps_left: int, room: Room) -> int:
    """Return how many copies finish the run first: 1: the one host; as many as workers: each has its own.

    A number between is one of hosts. So is that of all workers, if they cannot load the policy.

    >>> busy = CallCost(act=0.005, saturated=True, per_step=1.0)
    >>> room = Room(workers=16, cores=16, load=1.0, copies=100, in_workers=True)
    >>> choose_copies(busy, 10_000, room), choose_copies(busy, 100, room)
    (16, 1)
    >>> choose_copies(busy, 10_000, Room(workers=16, cores=16, load=1.0, copies=4, in_workers=True))
    4
    """
    asks = steps_left * cost.per_step
    crossing = asks * (cost.act + CROSSING) / min(room.workers, room.cores)  # it is work, for both sides
    central = max(asks * cost.act if cost.saturated else 0.0, crossing)
    copies = min(room.workers, room.copies)
    if copies < 2:
        return 1
    side_by_side = min(copies, room.cores)
    loads = room.load * copies / side_by_side
    apart = asks * cost.act / side_by_side
    if not room.in_workers or copies < room.workers:
        copies, loads = side_by_side, room.load  # hosts wait for no simulator: more than cores are of no use
        apart = max(apart, crossing)
    return copies if copies > 1 and loads + apart < _WORTH_IT * central else 1
