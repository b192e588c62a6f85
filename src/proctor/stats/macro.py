"""The average over tasks, each counting alike, and two questions about it.

*How would these tasks come out with other episodes?* `stratified`: episodes are resampled inside each task.
*How would other tasks of this kind come out?* `clustered`: the tasks themselves are the sample. It is wider.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist, fmean, variance

import numpy as np

from proctor.stats.intervals import CONFIDENCE, Estimate, check_counts
from proctor.stats.student import quantile

_RESAMPLES = 4_000

Counts = tuple[int, int]
"""Successes and episodes of one task."""


def stratified(tasks: Sequence[Counts], confidence: float = CONFIDENCE) -> Estimate | None:
    """Return the average of the tasks' rates with a stratified-bootstrap interval; `None` without tasks.

    Resampling 20 successes of 20 gives 20 again, every time, as if the task could not fail. So z² episodes in
    all, half of them successes, are added before resampling and spread over the tasks: for one task that is
    Agresti and Coull's interval. The generator is keyed by the counts: the same counts give the same interval,
    in any order of the tasks.
    """
    counts = _checked(tasks)
    if not counts:
        return None
    value = fmean(successes / episodes for successes, episodes in counts)
    episodes = np.array([episodes for _, episodes in counts])
    key = hashlib.sha256(repr((counts, confidence)).encode()).digest()
    draws = np.random.Generator(np.random.Philox(int.from_bytes(key[:16], "big"))).binomial(
        episodes, _smoothed(counts, confidence), (_RESAMPLES, len(counts))
    )
    tail = (1 - confidence) / 2
    low, high = np.quantile((draws / episodes).mean(axis=1), [tail, 1 - tail])
    return Estimate(value, min(value, float(low)), max(value, float(high)))


def clustered(tasks: Sequence[Counts], confidence: float = CONFIDENCE) -> Estimate | None:
    """Return the average of the tasks' rates with an interval for tasks that were not run; `None` for one task.

    Student's interval over the tasks' rates, whose scatter holds both the tasks' own differences and the luck of
    their episodes. Tasks that happen to agree do not make it narrower than `stratified`.
    """
    counts = _checked(tasks)
    within = stratified(tasks, confidence)
    if within is None or len(counts) < 2:
        return None
    rates = [successes / episodes for successes, episodes in counts]
    across = _student(rates, confidence, 0.0)
    return Estimate(within.value, min(within.low, across.low), max(within.high, across.high))


def clustered_difference(differences: Sequence[float], confidence: float = CONFIDENCE) -> Estimate | None:
    """Return the average of differences between two policies, one per task, for tasks that were not run.

    `None` for a single task, and where all tasks agree: their scatter then says nothing.
    """
    if len(differences) < 2 or not variance(differences):
        return None
    return _student(differences, confidence, -1.0)


def _student(values: Sequence[float], confidence: float, least: float) -> Estimate:
    value = fmean(values)
    reach = quantile(0.5 + confidence / 2, len(values) - 1) * sqrt(variance(values) / len(values))
    return Estimate(value, max(least, value - reach), min(1.0, value + reach))


def _checked(tasks: Sequence[Counts]) -> list[Counts]:
    for counts in tasks:
        check_counts(*counts)
    # Tasks without an episode say nothing; sorted, because their order must not matter.
    return sorted((successes, episodes) for successes, episodes in tasks if episodes)


def _smoothed(counts: Sequence[Counts], confidence: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    added = NormalDist().inv_cdf(0.5 + confidence / 2) ** 2 / len(counts)
    return np.array([(successes + added / 2) / (episodes + added) for successes, episodes in counts])
