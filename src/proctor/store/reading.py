"""A run's episodes, read from its table in one pass: columns of all, and whole records if they are listed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from proctor.files import as_written_by_proctor
from proctor.plan import Plan
from proctor.store.episodes import EpisodeTable, check_seconds, named_numbers, record_of
from proctor.store.outcomes import TIMES, Outcomes
from proctor.store.schema import EpisodeRecord

MOST_LISTED = 50_000
"""Episodes up to which a run is listed one by one: held in memory as records, and written into `eval_info.json`.
Beyond it single episodes are left to `run.sqlite`, and read from there when somebody wants to see them."""


class StoredRecords(Sequence[EpisodeRecord]):
    """The records of the episodes that have ended, in plan order.

    Args:
        ended: which they are.
        path: the `run.sqlite` that has them.
        held: all of them by their place, if they are few enough to be listed.
    """

    def __init__(self, ended: Outcomes, path: Path, held: dict[int, EpisodeRecord] | None = None) -> None:
        self._ended, self.path, self.held = ended, path, held

    @property
    def listed(self) -> bool:
        """Whether they are few enough to be shown one by one."""
        return self.held is not None

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        return self._ended.at()

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, number: int) -> EpisodeRecord: ...

    @overload
    def __getitem__(self, number: slice) -> list[EpisodeRecord]: ...

    def __getitem__(self, number: int | slice) -> EpisodeRecord | list[EpisodeRecord]:
        if isinstance(number, slice):
            return self.at(self._places[number].tolist())
        return self.at([int(self._places[number])])[0]

    def __iter__(self) -> Iterator[EpisodeRecord]:
        return self._read(self._places.tolist())

    def at(self, places: Iterable[int]) -> list[EpisodeRecord]:
        """Return the records at some places of the plan. Raises `StoreError` if the table can be read no more."""
        return list(self._read(map(int, places)))

    def _read(self, places: Iterable[int]) -> Iterator[EpisodeRecord]:
        if self.held is not None:
            yield from map(self.held.__getitem__, places)
            return
        with EpisodeTable(self.path, read_only=True) as table:
            yield from table.find(self._ended.plan[place].key for place in places)


class Episodes(NamedTuple):
    """What a table holds of a plan."""

    ended: Outcomes
    records: StoredRecords

    def first(self, count: int) -> Episodes:
        """Return the same of the first episodes of the plan."""
        ended = self.ended.first(count)
        return Episodes(ended, StoredRecords(ended, self.records.path, self.records.held))


def read_episodes(table: EpisodeTable, plan: Plan) -> Episodes:
    """Read what a table holds of a plan. Raises `StoreError`."""
    held: dict[int, EpisodeRecord] | None = {} if table.count() <= MOST_LISTED else None
    ended = read_outcomes(table, plan, held)
    return Episodes(ended, StoredRecords(ended, table.path, held))


def read_outcomes(table: EpisodeTable, plan: Plan, held: dict[int, EpisodeRecord] | None = None) -> Outcomes:
    """Read only how the episodes of a plan ended; whole records are put into `held`, if there is one."""
    ended = Outcomes(plan)
    with as_written_by_proctor(table.path):
        for row in table.episodes():
            place = ended.add(row, named_numbers("timing", row.timing), row.ended_at)
            if held is not None and place is not None:
                held[place] = record_of(row)
        for column in TIMES:
            check_seconds(float(np.abs(ended[column]).max(initial=0.0)))
    return ended
