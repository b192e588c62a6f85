"""Which episodes a report shows of many: enough to see, few enough to open at once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from proctor.store.outcomes import ERROR, FAILURE, KINDS, SUCCESS, UNKNOWN, Kind, Outcomes, state_of
from proctor.store.schema import EpisodeRecord

CURVE_TASKS = 60
CURVES_PER_OUTCOME = 3
MOST_CARDS = 60
MOST_ROWS = 2000
"""Of one table: more rows no browser shows in good time."""


def outcome(record: EpisodeRecord) -> Kind:
    """Return how an episode ended; unknown: its simulator does not tell success."""
    return KINDS[state_of(record.status, record.success)]


def episodes_for_curves(ended: Outcomes) -> list[int]:
    """Return, of each task, where the episodes with the lowest, the median and the highest sum of rewards are: of
    those that failed, of those that succeeded, and of those of which it is unknown."""
    chosen: list[int] = []
    tasks = (places for number in range(len(ended.plan.all_tasks)) if len(places := ended.of_task(number)))
    for places in itertools.islice(tasks, CURVE_TASKS):
        for state in (FAILURE, UNKNOWN, SUCCESS):
            alike = places[ended["state"][places] == state]
            rewards = ended["sum_reward"][alike]
            order = np.argsort(rewards, kind="stable")[: int((~np.isnan(rewards)).sum())]
            chosen += spread(alike[order].tolist(), CURVES_PER_OUTCOME)
    return chosen


def spread(ordered: Sequence[int], count: int) -> list[int]:
    """Return `count` members from the first to the last, evenly apart."""
    if len(ordered) <= count:
        return list(ordered)
    return [ordered[round(place * (len(ordered) - 1) / (count - 1))] for place in range(count)]


def worst_first(ended: Outcomes, places: Sequence[int]) -> list[int]:
    """Return episodes with failures first, in plan order otherwise."""
    rank = {FAILURE: 0, ERROR: 1, UNKNOWN: 2, SUCCESS: 3}
    return sorted(places, key=lambda place: rank[int(ended["state"][place])])
