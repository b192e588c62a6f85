"""Which episodes a report shows of many: enough to see, few enough to open at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from proctor.benchmarks.protocol import EpisodeKey
from proctor.store.records import EpisodeRecord

Outcome = Literal["success", "failure", "unknown", "error"]

CURVE_TASKS = 60
CURVES_PER_OUTCOME = 3
MOST_CARDS = 60
MOST_ROWS = 2000


def outcome(record: EpisodeRecord) -> Outcome:
    """Return how an episode ended; unknown: its simulator does not tell success."""
    if record.status == "error":
        return "error"
    if record.success is None:
        return "unknown"
    return "success" if record.success else "failure"


def episodes_for_curves(records: Sequence[EpisodeRecord]) -> list[EpisodeRecord]:
    """Return, of each task, the episodes with the lowest, the median and the highest sum of rewards: of those that
    failed, of those that succeeded, and of those of which it is unknown."""
    chosen: list[EpisodeRecord] = []
    tasks: dict[tuple[str, int], list[EpisodeRecord]] = {}
    for record in records:
        tasks.setdefault(record.key[:2], []).append(record)
    for members in list(tasks.values())[:CURVE_TASKS]:
        for kind in ("failure", "unknown", "success"):
            alike = [r for r in members if outcome(r) == kind and r.sum_reward is not None]
            chosen += spread(sorted(alike, key=lambda record: record.sum_reward or 0.0), CURVES_PER_OUTCOME)
    return chosen


def spread(ordered: Sequence[EpisodeRecord], count: int) -> list[EpisodeRecord]:
    """Return `count` members from the first to the last, evenly apart."""
    if len(ordered) <= count:
        return list(ordered)
    return [ordered[round(place * (len(ordered) - 1) / (count - 1))] for place in range(count)]


def worst_first(records: Iterable[EpisodeRecord], has_video: Callable[[EpisodeKey], bool]) -> list[EpisodeRecord]:
    """Return the episodes that somebody can watch, failures first, in plan order otherwise."""
    rank = {"failure": 0, "error": 1, "unknown": 2, "success": 3}
    return sorted((r for r in records if has_video(r.key)), key=lambda record: rank[outcome(record)])
