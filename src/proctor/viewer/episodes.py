"""Single episodes of a run: which one a request names, which come before and after it, and what failed before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from proctor.results import ScoredRun
from proctor.store.outcomes import FAILURE
from proctor.store.schema import Attempt, EpisodeRecord
from proctor.types import EpisodeKey
from proctor.viewer.addresses import episode_address

_MOST_DIGITS = 18


class Neighbour(NamedTuple):
    """Another episode: what it is to this one, the key that goes there, and where its page is if there is one."""

    words: str
    key: str
    link: str | None


def place_asked_for(run: ScoredRun, query: Mapping[str, str]) -> int | None:
    """Return the place of the episode that a query names; `None` if there is none, or it has not ended."""
    numbers = [query.get(name, "") for name in ("task", "episode")]
    if not all(text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS for text in numbers):
        return None
    place = run.plan.place_of(EpisodeKey(query.get("group", ""), *map(int, numbers)))
    return place if place is not None and run.ended["state"][place] else None


def neighbours(run: ScoredRun, place: int, path: str) -> list[Neighbour]:
    """Return the failures and the episodes before and after one, in the order of the plan."""
    found = []
    for words, keys, places in (
        ("failure", ("ArrowLeft", "ArrowRight"), run.ended.at(FAILURE)),
        ("episode", ("", ""), run.ended.at()),
    ):
        before = int(np.searchsorted(places, place)) - 1
        after = int(np.searchsorted(places, place, side="right"))
        for which, number, key in (("previous", before, keys[0]), ("next", after, keys[1])):
            there = 0 <= number < len(places)
            link = episode_address(run.plan[int(places[number])].key, path) if there else None
            found.append(Neighbour(f"{which} {words}", key, link))
    return found


def attempts_at(run: ScoredRun, record: EpisodeRecord) -> list[Attempt]:
    """Return what was tried at an episode and failed."""
    if record.attempts == 1 and record.status != "error":
        return []
    with run.table() as table:
        return [attempt for attempt in table.attempts() if attempt.key == record.key]
