"""Success against steps: how many episodes had succeeded by step s."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from math import ceil

from proctor.stats.intervals import CONFIDENCE, Rate, success_rate


@dataclass(frozen=True)
class StepCurve:
    """How many of `episodes` had succeeded by each step at which one did. It rises to the success rate.

    A failed episode never succeeds: it stays in the denominator at every step and is later than any quantile.
    So a curve does not depend on where the step limit lies, as long as the limit lies further right.
    """

    steps: tuple[int, ...]
    successes: tuple[int, ...]
    episodes: int

    def by(self, step: int, confidence: float = CONFIDENCE) -> Rate:
        """Return the rate of episodes that had succeeded by `step`: what a step limit there would have given."""
        place = bisect_right(self.steps, step)
        return success_rate(self.successes[place - 1] if place else 0, self.episodes, confidence)

    def quantile(self, share: float) -> int | None:
        """Return the step by which that share of all episodes had succeeded; `None` if they never did."""
        if not 0 < share <= 1:
            raise ValueError(f"a share lies above 0 and up to 1, got {share}")
        # Rounding must not ask for one episode more: 0.7 of 10 is 7.
        return self._reached(max(1, ceil(share * self.episodes - 1e-9)))

    def median_of_successes(self) -> int | None:
        """Return the median steps of the episodes that succeeded (the lower of two); `None` without one."""
        return self._reached((self.successes[-1] + 1) // 2) if self.successes else None

    def _reached(self, count: int) -> int | None:
        return next((step for step, so_far in self.points() if so_far >= count), None)

    def points(self) -> list[tuple[int, int]]:
        """Return (step, successes so far) for every step at which an episode succeeded, for drawing a stair."""
        return list(zip(self.steps, self.successes, strict=True))


def curve_of_successes(steps: Iterable[int], episodes: int) -> StepCurve:
    """Return the curve of so many finished episodes, of which those that succeeded took so many steps each."""
    at = Counter(steps)
    known = tuple(sorted(at))
    return StepCurve(known, tuple(accumulate(at[step] for step in known)), episodes)
