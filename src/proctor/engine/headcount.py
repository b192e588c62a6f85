"""How many workers are at work: one or two per core at first, more while more make the run faster.

Nobody can say beforehand how many simulators keep a GPU or a far-away policy busy. So with `--eval.batch_size=0`
the run finds out: when cores have time to spare it takes more workers, looks whether steps come quicker, and goes
back if they do not. That changes when an episode runs and never what it yields.
"""

from __future__ import annotations

from dataclasses import dataclass

WINDOW = 8.0
"""Seconds over which steps are counted before a decision."""

_GROWTH = 1.5
_WORTH_IT = 1.05
"""More workers stay only if steps come at least that much quicker."""

_SPARE = 0.85
"""The share of the cores in use below which there is room for more workers."""


@dataclass(frozen=True)
class Moment:
    """A run at some time.

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


class Headcount:
    """Decides how many workers there should be.

    Args:
        start: how many at first.
        most: how many at most.
        cores: how many can run at once.
        on_gpu: whether workers wait for a GPU that draws. Drivers may spin while they wait, which looks like work.
    """

    def __init__(self, start: int, most: int, cores: int, on_gpu: bool = False) -> None:
        self.target = start
        self._most, self._cores, self._on_gpu = max(start, most), cores, on_gpu
        self._settled = start >= self._most
        self._best: tuple[float, int] | None = None
        self._begun: Moment | None = None

    @property
    def settled(self) -> bool:
        """Whether the number will not change any more, so that nobody has to look."""
        return self._settled

    def be_content(self, workers: int) -> None:
        """Stay with that many: there cannot be more."""
        self.target, self._settled = workers, True

    def look(self, now: Moment) -> None:
        """Take a look at the run, a few times a second or less; `target` may change."""
        if self._settled or now.working < self.target:
            self._begun = None  # it takes all of them to judge
            return
        if self._begun is None:
            self._begun = now
        passed = now.time - self._begun.time
        if passed < WINDOW:
            return
        rate = (now.steps - self._begun.steps) / passed
        spare = (now.core_seconds - self._begun.core_seconds) / passed < _SPARE * self._cores
        self._begun = None
        if self._best is not None and rate < _WORTH_IT * self._best[0]:
            self.target, self._settled = self._best[1], True
            return
        self._best = (rate, self.target)
        wanted = min(self._most, max(self.target + 1, round(_GROWTH * self.target)))
        # Near the end new workers would start for nothing.
        if wanted == self.target or not (spare or self._on_gpu) or now.waiting < 2 * wanted:
            self._settled = True
        else:
            self.target = wanted
