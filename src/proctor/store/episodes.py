"""The episode table: one SQLite file per run, one writer, durable the moment an episode ends."""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.config.settings import MOST_EPISODES
from proctor.errors import StoreError
from proctor.files import as_written_by_proctor, clip, parse_json
from proctor.store.checksums import ChecksumTables, Row
from proctor.store.filesystem import OpenFile, is_network
from proctor.store.meta_values import fault_in
from proctor.store.schema import (
    EPISODE_KEY,
    JSON_COLUMNS,
    PACKED,
    SCHEMA_VERSION,
    TABLES,
    Attempt,
    EpisodeRecord,
    Ledger,
    Note,
    RewardCurve,
    RunningEpisode,
    RunSession,
    unpack_rewards,
)
from proctor.store.sqlite_file import ReadingBudget, connect, damaged, holds_anything, opening, reading, writing
from proctor.store.trajectories import Trajectory, unpack_trajectory
from proctor.store.videos import check_place, video_place
from proctor.types import EpisodeKey

NO_END = "the process that ran it was killed, or still runs"
"""The ending of a session that has noted none."""


def _row_type(columns: Iterable[str]) -> Any:
    return namedtuple("StoredEpisode", tuple(columns))


StoredEpisode = _row_type((*TABLES["episodes"].columns, "checksum"))
"""A row of the table `episodes` as it lies there: `success` is a number, `metrics` and `timing` are JSON."""

_MOST_BYTES = 16 << 20
"""Of one value in a table."""

_MOST_WORDS = 4000
"""Of the reason why a session ended."""

_MOST_ROWS = 4 * MOST_EPISODES
"""Of one table: attempts and notes may be more than there are episodes."""

_DECODER = json.JSONDecoder()
_NUMBERS = {int, float}

_MOST_SECONDS = 1e12
"""Of a moment or a stretch of time, in a table that may be anybody's."""


class EpisodeTable(Ledger):
    """Reads and writes `run.sqlite`. Opening an existing file checks its schema version.

    Args:
        path: the file.
        read_only: for looking at a run, also while another process writes it.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._file: OpenFile | None = None
        self._db = connect(path, read_only=read_only)
        self._tables = ChecksumTables(self._db, path, TABLES, _MOST_ROWS)
        try:
            self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
            self._db.set_progress_handler(ReadingBudget(path).spend, ReadingBudget.STEP)
            if not read_only:
                with opening(path):
                    self._prepare()
            self._check_version()
            self._tables.check_schema()
            if not read_only:
                self._db.set_progress_handler(None, 0)  # its tables are ours, and it may write for days
                self._file = OpenFile(path)
        except StoreError:
            self._db.close()
            raise

    def _prepare(self) -> None:
        # WAL needs shared memory between processes, which network file systems do not give.
        self._db.execute(f"PRAGMA journal_mode={'TRUNCATE' if is_network(self.path) else 'WAL'}")
        self._db.execute("PRAGMA synchronous=FULL")
        if not holds_anything(self._db):
            with self._tables.transaction():
                self._tables.create()
                self._put_meta("schema_version", SCHEMA_VERSION)

    def _check_version(self) -> None:
        """Refuse a file of another schema version: its tables may look different."""
        with reading(self.path):
            row = self._db.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
        if row is None:
            raise damaged(self.path, "it does not say its schema version")
        if row[0] != json.dumps(SCHEMA_VERSION):
            raise StoreError(
                f"{self.path} has schema version {ascii(row[0])[1:-1]}, this Proctor reads {SCHEMA_VERSION}. "
                "Use the Proctor version that wrote it, or a new --output_dir."
            )

    def __enter__(self) -> EpisodeTable:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()

    def meta(self, key: str) -> Any:
        """Return a stored value, or `None`."""
        # All are read, because a damaged key is found by nobody who looks for it.
        stored = {row["key"]: row["value"] for row in self._tables.rows("meta")}
        if key not in stored:
            return None
        try:
            value = parse_json(stored[key])
        except (ValueError, TypeError) as error:
            raise StoreError(f"{self.path}: '{clip(key)}' cannot be read: {clip(str(error))}.") from None
        fault = fault_in(key, value)
        if fault is not None:
            raise StoreError(f"{self.path}: '{key}' is {clip(value, 40)}; it {fault}. It is not read.")
        return value

    def set_meta(self, key: str, value: Any) -> None:
        """Store a JSON value under `key`."""
        with writing(self.path), self._tables.transaction():
            self._put_meta(key, value)

    def _put_meta(self, key: str, value: Any) -> None:
        self._put("meta", (key,), {"key": key, "value": json.dumps(value, sort_keys=True)})

    def _put(self, table: str, key: Sequence[Any], row: Mapping[str, Any]) -> None:
        before = self._tables.find(table, key)
        if before is None:
            self._tables.insert(table, row)
        else:
            self._tables.replace(table, before, row)

    def write(
        self,
        records: Iterable[EpisodeRecord],
        attempts: Iterable[Attempt] = (),
        running: Iterable[RunningEpisode] = (),
    ) -> None:
        """Commit results. An episode with a record is no longer in flight."""
        self.check()
        now = time.time()
        with writing(self.path), self._tables.transaction():
            for key, steps in running:
                self._note_running(key, steps)
            for record in records:
                self._keep(_row(record, now), record.trajectory)
                self._land(record.key)
            for attempt in attempts:
                names = (*EPISODE_KEY, "number", "reason", "worker", "ended_at")
                values = (*attempt.key, attempt.number, attempt.reason, attempt.worker, now)
                self._tables.insert("attempts", dict(zip(names, values, strict=True)))

    def check(self) -> None:
        """Raise `RunGoneError` if the file that is written to no longer lies where it did."""
        if self._file is not None:
            self._file.check()

    def _keep(self, row: Row, trajectory: bytes) -> None:
        """Take a result. An error may be tried again by a later session; a finished episode stays what it is."""
        key = {name: row[name] for name in EPISODE_KEY}
        before = self._tables.find("episodes", tuple(key.values()))
        if before is None:
            self._tables.insert("episodes", row)
        elif before["status"] == "error":
            self._tables.replace("episodes", before, row)
        else:
            return
        if trajectory:
            self._tables.insert("trajectories", {**key, "trajectory": trajectory})

    def add_videos(self, keys: Iterable[EpisodeKey]) -> None:
        """Note that episodes which have ended have videos now, in their places."""
        with writing(self.path), self._tables.transaction():
            for key in keys:
                before = self._tables.find("episodes", key)
                if before is not None:
                    self._tables.replace("episodes", before, {**before, "video_path": video_place(key)})

    def _note_running(self, key: EpisodeKey, steps: int) -> None:
        """Note how far an episode has come. One that was restarted keeps the most steps it was seen to make."""
        row = dict(zip((*EPISODE_KEY, "steps"), (*key, steps), strict=True))
        before = self._tables.find("in_flight", key)
        if before is None:
            self._tables.insert("in_flight", row)
        elif before["steps"] < steps:
            self._tables.replace("in_flight", before, row)

    def _land(self, key: EpisodeKey) -> None:
        """Forget that an episode was in flight: it has ended."""
        before = self._tables.find("in_flight", key)
        if before is not None:
            self._tables.delete("in_flight", before)

    def running(self) -> list[RunningEpisode]:
        """Return the episodes that were started and have not ended: in flight at the last commit, or cut short."""
        return [RunningEpisode(_row_key(row), row["steps"]) for row in self._tables.rows("in_flight")]

    def count(self) -> int:
        """Return how many episodes have ended by the table's checksum, which only reading the rows verifies."""
        with reading(self.path):
            return self._tables.total("episodes").rows

    def episodes(self) -> Iterator[Any]:
        """Iterate over ended episodes, by task and index. Raises `StoreError`, at the latest after the last."""
        make = StoredEpisode._make
        for values in self._tables.each("episodes"):
            row = make(values)
            if row.video_path is not None:
                check_place(self.path, _key(row), row.video_path)
            yield row

    def records(self) -> Iterator[EpisodeRecord]:
        """Iterate over the same episodes as records."""
        with as_written_by_proctor(self.path):
            yield from map(record_of, self.episodes())

    def find(self, keys: Iterable[EpisodeKey]) -> Iterator[EpisodeRecord]:
        """Go through the records of single episodes that are known to have ended, in the order of `keys`."""
        with as_written_by_proctor(self.path):
            for row in map(self._row, keys):
                check_place(self.path, _key(row), row.video_path)
                yield record_of(row)

    def reward_curves(self, keys: Iterable[EpisodeKey]) -> dict[EpisodeKey, RewardCurve]:
        """Return the rewards of such episodes, of those that have any."""
        rows = map(self._row, keys)
        return {_key(row): unpack_rewards(row.rewards, row.steps) for row in rows if row.rewards}

    def trajectory(self, key: EpisodeKey) -> Trajectory | None:
        """Return what an episode did, step by step; `None` if that was not kept."""
        packed = self.packed_trajectory(key)
        if not packed:
            return None
        try:
            return unpack_trajectory(packed)
        except ValueError as error:
            raise StoreError(
                f"{self.path} has {clip(str(error))} for {clip(key.group, 60)} episode {key.episode_index}. "
                "It is not as Proctor writes it."
            ) from None

    def keeps_trajectory(self, key: EpisodeKey) -> bool:
        """Whether the actions of an episode that has ended were kept."""
        return bool(self._row(key).trajectory_bytes)

    def packed_trajectory(self, key: EpisodeKey) -> bytes:
        """Return a trajectory as it is stored; empty if it was not kept."""
        size = self._row(key).trajectory_bytes
        if not size:
            return b""
        with reading(self.path):
            row = self._tables.find("trajectories", key)
        if row is None or len(row["trajectory"]) != size:
            raise damaged(self.path, f"the actions of {clip(key.group, 60)} episode {key.episode_index} are lost")
        return bytes(row["trajectory"])

    def _row(self, key: EpisodeKey) -> Any:
        with reading(self.path):
            row = self._tables.find("episodes", key)
        if row is None:
            raise damaged(self.path, f"{clip(key.group, 60)} episode {key.episode_index} is there no more")
        return StoredEpisode(**row, checksum=0)

    def attempts(self) -> list[Attempt]:
        """Return every failed attempt, in the order in which they ended."""
        rows = sorted(self._tables.rows("attempts"), key=itemgetter("ended_at"))
        return [Attempt(_row_key(row), row["number"], row["reason"], row["worker"]) for row in rows]

    def add_note(self, message: str) -> None:
        """Keep something that the user was told: a retry, a restart, a stop."""
        with writing(self.path), self._tables.transaction():
            self._tables.insert("notes", Note(time.time(), message)._asdict())

    def notes(self) -> list[Note]:
        """Return what the user was told, oldest first."""
        notes = sorted((Note(**row) for row in self._tables.rows("notes")), key=attrgetter("told_at"))
        with as_written_by_proctor(self.path):
            for note in notes:
                check_seconds(note.told_at)
        return notes

    def begin_session(self, workers: int) -> int:
        """Note that a process starts working on this run; returns the session's id."""
        with writing(self.path), self._tables.transaction():
            return self._add_session(time.time(), None, workers, 0.0, None)

    def _add_session(
        self, started_at: float, ended_at: float | None, workers: int, startup: float, ending: str | None
    ) -> int:
        number = 1 + max((row["id"] for row in self._tables.rows("sessions")), default=0)
        values = (number, started_at, ended_at, workers, startup, ending)
        self._tables.insert("sessions", dict(zip(TABLES["sessions"].columns, values, strict=True)))
        return number

    def end_session(self, session: int, startup: float, ending: str | None = None) -> None:
        """Note the end, the seconds that its children took to start, and why it ended before the plan did."""
        told = None if ending is None else clip(ending, _MOST_WORDS)
        with writing(self.path), self._tables.transaction():
            before = self._tables.find("sessions", (session,))
            if before is not None:
                self._tables.replace(
                    "sessions", before, {**before, "ended_at": time.time(), "startup": startup, "ending": told}
                )

    def sessions(self, ends: NDArray[np.float64] | None = None) -> list[RunSession]:
        """Return every session in the order of their beginnings.

        One that was killed counts until the last episode that it finished.

        Args:
            ends: when the episodes ended, from whoever has read them already.
        """
        rows = sorted(self._tables.rows("sessions"), key=itemgetter("started_at", "id"))
        if ends is None and any(row["ended_at"] is None for row in rows):
            ends = np.array([episode.ended_at for episode in self.episodes()])
        found = []
        with as_written_by_proctor(self.path):
            for row in rows:
                for seconds in (row["started_at"], row["ended_at"], row["startup"]):
                    check_seconds(seconds)
        for place, row in enumerate(rows):
            start, last = row["started_at"], row["ended_at"]
            ending = row["ending"] if last is not None else NO_END
            if last is None:
                following = min((later["started_at"] for later in rows[place + 1 :]), default=math.inf)
                own = () if ends is None else ends[(start <= ends) & (ends < following)]
                last = float(max(own, default=start))
            found.append(RunSession(start, last or start, row["workers"], row["startup"], ending))
        return found

    def absorb(self, source: EpisodeTable) -> None:
        """Take over what another run of the same plan holds, all or nothing. What is here already stays.

        Doing it again changes nothing. The caller has checked that the two do not contradict each other.
        """
        sessions = source.sessions()
        with writing(self.path), self._tables.transaction():
            for episode in source.episodes():
                row = episode._asdict()
                if row["status"] == "finished" or self._tables.find("episodes", _key(episode)) is None:
                    self._keep(row, source.packed_trajectory(_key(episode)))
            for key, steps in source.running():
                self._note_running(key, steps)
            for key, _ in self.running():
                ended = self._tables.find("episodes", key)
                if ended is not None and ended["status"] == "finished":
                    self._land(key)
            for table in ("attempts", "notes"):
                here = {tuple(row.values()) for row in self._tables.rows(table)}
                for row in source._tables.rows(table):
                    if tuple(row.values()) not in here:
                        self._tables.insert(table, row)
            known = {(row["started_at"], row["workers"]): row for row in self._tables.rows("sessions")}
            for session in sessions:
                before = known.get((session.started_at, session.workers))
                if before is None:
                    self._add_session(*session)
                else:  # one that was still going on when it was taken over before has gone on since
                    self._tables.replace("sessions", before, {**before, **session._asdict()})


def _row(record: EpisodeRecord, ended_at: float) -> Row:
    wire = record.to_wire()
    texts = {column: json.dumps(wire[column], sort_keys=True) for column in JSON_COLUMNS}
    return {**wire, **texts, "ended_at": ended_at, "trajectory_bytes": len(record.trajectory)}


def record_of(row: Any) -> EpisodeRecord:
    """Return a row as a record. Raises `ValueError` if it is not as a record is written."""
    values = row._asdict()
    del values["ended_at"], values["trajectory_bytes"], values["checksum"]
    values |= {column: named_numbers(column, values[column]) for column in JSON_COLUMNS}
    values |= {"success": None if row.success is None else bool(row.success), **dict.fromkeys(PACKED, b"")}
    return EpisodeRecord(**values)


def named_numbers(column: str, text: str) -> dict[str, float]:
    """Return the content of a JSON column. Raises `ValueError` if it is something else."""
    if text == "{}":
        return {}
    try:
        value, end = _DECODER.raw_decode(text)  # a third of what json.loads takes, and there are millions
    except RecursionError:
        raise ValueError(f"{column} are nested too deeply") from None
    if not isinstance(value, dict) or end < len(text) or not {*map(type, value.values())} <= _NUMBERS:
        raise ValueError(f"{column} are {clip(text, 40)}")
    return value


def check_seconds(seconds: float | None) -> None:
    """Raise `ValueError` for a time that no clock could show: a sum of such times overflows."""
    if seconds is not None and not -_MOST_SECONDS < seconds < _MOST_SECONDS:
        raise ValueError(f"a time is {seconds:g} s")


def _key(row: Any) -> EpisodeKey:
    return EpisodeKey(row.task_group, row.task_id, row.episode_index)


def _row_key(row: Row) -> EpisodeKey:
    return EpisodeKey(row["task_group"], row["task_id"], row["episode_index"])
