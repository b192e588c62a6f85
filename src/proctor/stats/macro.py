"""The average over tasks, each counting alike, and two questions about it.

*How would these tasks come out with other episodes?* `stratified`: only the episodes are a sample.
*How would other tasks of this kind come out?* `clustered`: the tasks themselves are the sample. It is wider.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist, fmean, variance

from proctor.stats.intervals import CONFIDENCE, Estimate, check_counts, score_interval
from proctor.stats.student import quantile

_POOLED_FREEDOM = 2
_MOST_UNEQUAL = 3

Counts = tuple[int, int]
"""Successes and episodes of one task."""


def stratified(tasks: Sequence[Counts], confidence: float = CONFIDENCE) -> Estimate | None:
    """Return the average of the tasks' rates, with an interval for new episodes of them; `None` without tasks.

    Wilson's interval with a continuity correction, for the number of episodes that the average is worth: as many
    of one and the same rate as would have its variance. Tasks that differ make it worth more than they have,
    because which task an episode belongs to is no matter of luck.
    """
    counts = _checked(tasks)
    if not counts:
        return None
    value = fmean(successes / episodes for successes, episodes in counts)
    fewest = min(episodes for _, episodes in counts)
    low, high = score_interval(value, _worth(counts, value, confidence), confidence, 0.5 / (len(counts) * fewest))
    return Estimate(value, min(value, low), max(value, high))


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


def _worth(counts: Sequence[Counts], value: float, confidence: float) -> float:
    """Return how many episodes of one rate would have the variance of the tasks' average.

    A task's own episodes tell its variance only if there are many: one says nothing, and a few that agree look as
    if the task could not come out otherwise. So each variance is smoothed twice. z² episodes in all, half of them
    successes, are spread over the tasks. And the variance of the pooled rate, which is never too small as long as
    tasks have equally many episodes, counts like two more degrees of freedom in each task.

    Of a task with fewer episodes than others the pooled rate says little, and its own episodes no more. So the
    pooled variance is taken as if all had as few, and what others have beyond three times as many is not used.
    The constants are those with which the interval covers (docs/statistics.md).
    """
    fewest = min(episodes for _, episodes in counts)
    least = float(len(counts) * fewest)
    pooled = value * (1 - value)
    if not pooled:
        return least
    added = NormalDist().inv_cdf(0.5 + confidence / 2) ** 2 / len(counts)
    total = 0.0
    for successes, episodes in counts:
        used = min(episodes, _MOST_UNEQUAL * fewest)
        own = (successes + added / 2) * (episodes - successes + added / 2) / (episodes + added)
        own /= max(1.0, episodes - 1 + added)
        total += ((used - 1) * own / used + _POOLED_FREEDOM * pooled / fewest) / (used - 1 + _POOLED_FREEDOM)
    return max(least, pooled * len(counts) ** 2 / total)
