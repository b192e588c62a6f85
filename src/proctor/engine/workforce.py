"""How many workers, and where the policy runs: in one host for all, or in every worker, with the same bits.

A host pays for import and weights once, and an ask crosses a process boundary. A copy in every worker crosses
nothing and never waits for a lane, but every worker pays for import and weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from proctor.policies.protocol import Cost

CROSSING = 1e-4
"""Seconds that a question to the host and its answer take, measured with small observations."""

Placement = Literal["central", "worker"]

_WORKER_BYTES = 400 << 20
"""What a worker that draws takes, measured."""

_WORKER_FILES, _OTHER_FILES = 8, 64
"""Descriptors of a worker, with some for the one that may take its place, and of everything else."""

MOST_PER_CORE = 4
"""Workers per core beyond which more have never been of use."""


def choose_placement(cost: Cost | None, asks: float, workers: int, cores: int, free_memory: int) -> Placement:
    """Return the placement with the shorter policy time, by what the policy was measured to cost.

    Args:
        cost: measured at the policy's start; `None`: unknown, or on a device, where one copy serves best.
        asks: how often the policy will be asked, over all episodes.
        workers: how many workers there will be.
        cores: how many of them can run at once.
        free_memory: bytes that copies may take.

    >>> small = Cost(load=0.1, act=0.001, side_by_side=1.0, memory=0)
    >>> choose_placement(small, asks=10_000, workers=8, cores=8, free_memory=0)
    'worker'
    >>> choose_placement(small._replace(load=60.0), asks=10_000, workers=8, cores=8, free_memory=0)
    'central'
    """
    if cost is None or cost.memory * workers > free_memory:
        return "central"
    central = asks * cost.act / cost.side_by_side + asks * CROSSING / workers
    # Loads share the cores too.
    copies = cost.load * workers / min(workers, cores) + asks * cost.act / min(workers, cores)
    return "worker" if copies < central else "central"


class WorkerRange(NamedTuple):
    """How many workers a run begins with, and how many it may come to have."""

    start: int
    most: int


def worker_range(
    asked: int, episodes: int, cores: int, memory: int, files: int, on_gpu: bool = False
) -> WorkerRange:
    """Return the number that was asked for, or what the machine makes sensible; never more than episodes.

    Args:
        asked: the user's number; 0: by itself.
        episodes: how many there are to run.
        cores: how many workers can run at once.
        memory: bytes that workers may take.
        files: descriptors that this process may have open.
        on_gpu: whether a GPU draws or holds the policy: workers then wait for it, and more of them keep it busy.

    >>> worker_range(0, episodes=100, cores=8, memory=64 << 30, files=1024)
    WorkerRange(start=8, most=32)
    >>> worker_range(0, episodes=100, cores=8, memory=64 << 30, files=1024, on_gpu=True)
    WorkerRange(start=12, most=32)
    >>> worker_range(50, episodes=20, cores=8, memory=64 << 30, files=1024)
    WorkerRange(start=20, most=20)
    """
    if asked:
        return WorkerRange(*[max(1, min(asked, episodes))] * 2)
    room = max(1, min(episodes, memory // _WORKER_BYTES, (files - _OTHER_FILES) // _WORKER_FILES))
    start = cores + cores // 2 if on_gpu else cores
    return WorkerRange(min(start, room), min(MOST_PER_CORE * cores, room))


WINDOW = 8.0
"""Seconds over which steps are counted before a decision."""

_GROWTH = 1.5
_WORTH_IT = 1.05
"""More workers stay only if steps come at least that much quicker."""

_SPARE = 0.85
"""The share of the cores in use below which there is room for more workers."""

_LONG_ENOUGH = 5
"""Windows that a run must have before it, at its pace, for a trial of more workers to pay."""


@dataclass(frozen=True)
class WorkerLoad:
    """How busy a run is at some time.

    Attributes:
        time: seconds, by any clock.
        steps: steps so far, of all workers.
        core_seconds: what all children have used of the cores so far.
        working: workers that have got to their first step.
        waiting: episodes that nobody has begun.
    """

    time: float
    steps: int
    core_seconds: float
    working: int
    waiting: int


class WorkerAutoscaler:
    """Decides how many workers there should be.

    Nobody can say beforehand how many simulators keep a GPU or a far-away policy busy. So where no number was
    asked for, the run finds out: when cores have time to spare it takes more workers, looks whether steps come
    quicker, and goes back if they do not. That changes when an episode runs and never what it yields.

    Args:
        start: how many at first.
        most: how many at most.
        cores: how many can run at once.
        on_gpu: whether workers wait for a GPU that draws. Drivers may spin while they wait, which looks like work.
    """

    def __init__(self, start: int, most: int, cores: int, on_gpu: bool = False) -> None:
        self.target = start
        self._most, self._cores, self._on_gpu = max(start, most), cores, on_gpu
        self.settled = start >= self._most
        """Whether the number will not change any more, so that nobody has to look."""
        self._best: tuple[float, int] | None = None
        self._begun: WorkerLoad | None = None

    def be_content(self, workers: int) -> None:
        """Stay with that many: there cannot be more."""
        self.target, self.settled = workers, True

    def look(self, now: WorkerLoad) -> None:
        """Take a look at the run, a few times a second or less; `target` may change."""
        if self.settled or now.working < self.target:
            self._begun = None  # it takes all of them to judge
            return
        if self._begun is None:
            self._begun = now
        passed = now.time - self._begun.time
        if passed < WINDOW:
            return
        rate = (now.steps - self._begun.steps) / passed
        left = now.waiting * passed / max(1, self._begun.waiting - now.waiting)
        spare = (now.core_seconds - self._begun.core_seconds) / passed < _SPARE * self._cores
        self._begun = None
        if self._best is not None and rate < _WORTH_IT * self._best[0]:
            self.target, self.settled = self._best[1], True
            return
        self._best = (rate, self.target)
        wanted = min(self._most, max(self.target + 1, round(_GROWTH * self.target)))
        # Near the end new workers would start for nothing.
        near_the_end = now.waiting < 2 * wanted or left < _LONG_ENOUGH * WINDOW
        if wanted == self.target or not (spare or self._on_gpu) or near_the_end:
            self.settled = True
        else:
            self.target = wanted
