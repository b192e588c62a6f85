"""What the episodes of a plan came to, a hundred bytes each, by their place in the plan.

Everything that counts, averages or draws many episodes works on these columns. A record as a whole is needed only
where one episode is shown, and is then read from the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from operator import itemgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from proctor.files import as_written_by_proctor
from proctor.plan import Plan
from proctor.store.episodes import EpisodeTable, check_seconds, named_numbers, record_of
from proctor.store.schema import SPANS, EpisodeRecord
from proctor.types import EpisodeKey

Kind = Literal["error", "failure", "success", "unknown"]

ERROR, FAILURE, SUCCESS, UNKNOWN = 1, 2, 3, 4
"""How an episode ended; 0: not yet. Unknown: it finished, and its simulator does not report success."""

KINDS: Mapping[int, Kind] = {ERROR: "error", FAILURE: "failure", SUCCESS: "success", UNKNOWN: "unknown"}

_COLUMNS = np.dtype(
    [
        ("state", "u1"), ("retried", "?"), ("filmed", "?"), ("worker", "i4"), ("steps", "i8"),
        ("actions", "i4"),  # bytes, packed; 0: none are kept
        ("sum_reward", "f8"), ("max_reward", "f8"), ("seconds", "f8"), ("started_at", "f8"), ("ended_at", "f8"),
        *((span, "f8") for span in SPANS),
    ]
)  # fmt: skip
_MOST_ACTIONS = 2**31 - 1
"""A table may be anybody's, and say anything."""

TIMES = ("seconds", "started_at", "ended_at", *SPANS)
"""The columns that are seconds."""

_NO_REWARD = float("nan")
_spans = itemgetter(*SPANS)


def state_of(status: str, success: Any) -> int:
    """Return how an episode ended as a small number."""
    if status == "error":
        return ERROR
    return UNKNOWN if success is None else SUCCESS if success else FAILURE


class Outcomes:
    """The columns, for all places of a plan.

    Attributes:
        plan: whose episodes they are.
        columns: a row per place. A reward of which nothing is known is NaN, which no table can hold.
        workers: the names that the column `worker` counts.
    """

    def __init__(self, plan: Plan, columns: NDArray[Any] | None = None, workers: list[str] | None = None) -> None:
        self.plan = plan
        self.columns = np.zeros(len(plan), _COLUMNS) if columns is None else columns
        self.workers: list[str] = [] if workers is None else workers
        self._states = self.columns["state"]
        self._numbers = {name: number for number, name in enumerate(self.workers)}

    @classmethod
    def of(cls, plan: Plan, records: Iterable[EpisodeRecord]) -> Outcomes:
        """Return what records say of a plan's episodes."""
        found = cls(plan)
        for record in records:
            found.add(record, record.timing)
        return found

    def add(self, one: Any, timing: Mapping[str, float], ended_at: float = 0.0, actions: int = 0) -> int | None:
        """Take an ended episode, as a record or a row; returns its place, or `None` if it is not new."""
        place = self.plan.place_of(EpisodeKey(one.task_group, one.task_id, one.episode_index))
        if place is None or self._states[place] > ERROR:
            return None
        worker = self._numbers.get(one.worker)
        if worker is None:
            worker = self._numbers[one.worker] = len(self.workers)
            self.workers.append(one.worker)
        self.columns[place] = (
            state_of(one.status, one.success),
            one.attempts > 1,
            one.video_path is not None,
            worker,
            one.steps,
            min(max(actions, 0), _MOST_ACTIONS),
            _NO_REWARD if one.sum_reward is None else one.sum_reward,
            _NO_REWARD if one.max_reward is None else one.max_reward,
            one.seconds,
            one.started_at,
            ended_at,
            *(_spans(timing) if len(timing) == len(SPANS) else [timing.get(span, 0.0) for span in SPANS]),
        )
        return place

    def take_over(self, other: Outcomes) -> None:
        """Take what has ended of another plan of the same tasks; what has finished here stays."""
        theirs = other.at()
        places = self.plan.places_of(other.plan.at(theirs))
        new = self._states[places] <= ERROR
        places, theirs = places[new], theirs[new]
        rows = other.columns[theirs]
        for name in other.workers:
            if name not in self._numbers:
                self._numbers[name] = len(self.workers)
                self.workers.append(name)
        numbers = np.array([self._numbers[name] for name in other.workers], np.int32)
        rows["worker"] = numbers[rows["worker"]] if len(numbers) else 0
        self.columns[places] = rows

    def __getitem__(self, column: str) -> NDArray[Any]:
        return self.columns[column]

    def first(self, count: int) -> Outcomes:
        """Return the outcomes of the plan's first episodes."""
        return Outcomes(self.plan[:count], self.columns[:count], self.workers)

    def at(self, *states: int) -> NDArray[np.int64]:
        """Return the places of episodes that ended in one of these ways; without any, of all that ended."""
        return np.flatnonzero(np.isin(self._states, states) if states else self._states)

    def state(self, key: EpisodeKey) -> int:
        """Return how an episode ended; 0 if it has not, or is not in the plan."""
        place = self.plan.place_of(key)
        return 0 if place is None else int(self._states[place])

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many episodes are in each state."""
        return np.bincount(self._states, minlength=len(KINDS) + 1)

    @property
    def ended(self) -> int:
        """How many have ended."""
        return len(self.plan) - int(self.counts[0])

    @property
    def errors(self) -> int:
        """How many could not be run."""
        return int(self.counts[ERROR])

    @property
    def finished(self) -> int:
        """How many need not run again; errors are retried."""
        return self.ended - self.errors

    @property
    def pending(self) -> Plan:
        """The episodes that are still to run."""
        return self.plan.at(np.flatnonzero(self._states <= ERROR))

    @property
    def filmed(self) -> list[EpisodeKey]:
        """The episodes that have a video."""
        return [self.plan[int(place)].key for place in np.flatnonzero(self.columns["filmed"])]

    @property
    def missing(self) -> Plan:
        """The episodes that have not ended, not even in an error."""
        return self.plan.at(np.flatnonzero(self._states == 0))

    @property
    def prefix(self) -> int:
        """How many episodes have ended before the first that has not.

        Whole pairs of two runs, and a rule that looks again and again, need episodes that were chosen beforehand;
        those that happen to have ended are the quick ones.
        """
        waiting = self._states == 0
        return int(waiting.argmax()) if waiting.any() else len(self.plan)

    @cached_property
    def _by_task(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        numbers = self.plan.numbers
        counts = np.bincount(numbers, minlength=len(self.plan.all_tasks))
        return np.argsort(numbers, kind="stable"), np.concatenate(([0], np.cumsum(counts)))

    def of_task(self, number: int) -> NDArray[np.int64]:
        """Return the places of the ended episodes of the plan's `number`-th task, in the order of their index."""
        order, ends = self._by_task
        places = order[ends[number] : ends[number + 1]]
        ended: NDArray[np.int64] = places[self._states[places] > 0]
        return ended


def read_outcomes(table: EpisodeTable, plan: Plan, held: dict[int, EpisodeRecord] | None = None) -> Outcomes:
    """Read only how the episodes of a plan ended; whole records are put into `held`, if there is one."""
    ended = Outcomes(plan)
    with as_written_by_proctor(table.path):
        for row in table.episodes():
            place = ended.add(row, named_numbers("timing", row.timing), row.ended_at, row.trajectory_bytes)
            if held is not None and place is not None:
                held[place] = record_of(row)
        for column in TIMES:
            check_seconds(float(np.abs(ended[column]).max(initial=0.0)))
    return ended
