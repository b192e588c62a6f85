"""The episode table: one SQLite file per run, one writer, durable the moment an episode ends."""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from proctor.benchmarks.protocol import EpisodeKey
from proctor.config.settings import MOST_EPISODES
from proctor.errors import StoreError
from proctor.files import as_written_by_proctor, check_regular, clip, parse_json
from proctor.store.checksums import ChecksumTables, Row, damaged, opening, reading, writing
from proctor.store.filesystem import is_network
from proctor.store.meta import fault_in
from proctor.store.records import Attempt, EpisodeRecord, Running
from proctor.store.rewards import RewardCurve, unpack_rewards
from proctor.store.schema import EPISODE_KEY, SCHEMA_VERSION, TABLES
from proctor.store.videos import check_place


class Session(NamedTuple):
    """A stretch of time in which one process worked on a run."""

    started_at: float
    ended_at: float
    workers: int
    startup: float


class Ended(NamedTuple):
    """How an episode ended, after how many steps, and when: all that a list of runs needs of each."""

    key: EpisodeKey
    status: str
    success: bool | None
    steps: int
    ended_at: float


class Note(NamedTuple):
    """Something that the user was told while the run went on."""

    told_at: float
    message: str


_MOST_BYTES = 16 << 20
"""Of one value in a table."""

_MOST_ROWS = 4 * MOST_EPISODES
"""Of one table: attempts and notes may be more than there are episodes."""

_JSON_COLUMNS = ("metrics", "timing")

_MOST_SECONDS = 1e12
"""Of a moment or a stretch of time, in a table that may be anybody's."""


class EpisodeTable:
    """Reads and writes `run.sqlite`. Opening an existing file checks its schema version.

    Args:
        path: the file.
        read_only: for looking at a run, also while another process writes it.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        _check_files(path, follow=read_only)
        with reading(path) if read_only else opening(path):
            # The coordinator is the only writer; a reader that holds the file for a moment is waited for.
            where = f"{path.absolute().as_uri()}?mode={_mode(path) if read_only else 'rwc'}"
            self._db = sqlite3.connect(where, timeout=30, isolation_level=None, uri=True)
        self._tables = ChecksumTables(self._db, path, TABLES, _MOST_ROWS)
        try:
            self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
            self._db.set_progress_handler(_Budget(path).spend, _Budget.STEP)
            if not read_only:
                with opening(path):
                    self._prepare()
            self._check_version()
            self._tables.check_schema()
            if not read_only:
                self._db.set_progress_handler(None, 0)  # its tables are ours, and it may write for days
        except StoreError:
            self._db.close()
            raise

    def _prepare(self) -> None:
        # WAL needs shared memory between processes, which network file systems do not give.
        self._db.execute(f"PRAGMA journal_mode={'TRUNCATE' if is_network(self.path) else 'WAL'}")
        self._db.execute("PRAGMA synchronous=FULL")
        if not _holds_anything(self._db):
            with self._tables.transaction():
                self._tables.create()
                self._put_meta("schema_version", SCHEMA_VERSION)

    def _check_version(self) -> None:
        """Refuse a file of another version, whose tables may be any."""
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
        running: Iterable[Running] = (),
    ) -> None:
        """Make results durable, all of them or none. A finished episode is never overwritten.

        Args:
            records: the episodes that have ended.
            attempts: tries that came to nothing.
            running: the episodes in flight at this moment, and how far they are.
        """
        now = time.time()
        with writing(self.path), self._tables.transaction():
            for key, steps in running:
                self._note_running(key, steps)
            for record in records:
                self._keep(_row(record, now))
                self._land(record.key)
            for attempt in attempts:
                names = (*EPISODE_KEY, "number", "reason", "worker", "ended_at")
                values = (*attempt.key, attempt.number, attempt.reason, attempt.worker, now)
                self._tables.insert("attempts", dict(zip(names, values, strict=True)))

    def _keep(self, row: Row) -> None:
        """Take a result. An error may be tried again by a later session; a finished episode stays what it is."""
        before = self._tables.find("episodes", [row[name] for name in EPISODE_KEY])
        if before is None:
            self._tables.insert("episodes", row)
        elif before["status"] == "error":
            self._tables.replace("episodes", before, row)

    def _note_running(self, key: EpisodeKey, steps: int) -> None:
        """Note how far an episode is. One that starts again comes to where it was: what was seen before holds."""
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

    def running(self) -> list[Running]:
        """Return the episodes that were started and have not ended: in flight at the last commit, or cut short."""
        return [Running(_key(row), row["steps"]) for row in self._tables.rows("in_flight")]

    def records(self) -> list[EpisodeRecord]:
        """Return every episode that ended, in no particular order."""
        rows = self._tables.rows("episodes")
        with as_written_by_proctor(self.path):
            records = [_record(row) for row in rows]
        for record in records:
            check_place(self.path, record.key, record.video_path)
        return records

    def endings(self) -> list[Ended]:
        """Return how every episode ended, in no particular order: less than `records`, and quicker."""
        return [
            Ended(_key(row), row["status"], _success(row), row["steps"], row["ended_at"])
            for row in self._tables.rows("episodes")
        ]

    def reward_curves(self, keys: Iterable[EpisodeKey]) -> dict[EpisodeKey, RewardCurve]:
        """Return the rewards of these episodes, of those that have any."""
        wanted = set(keys)
        return {
            _key(row): unpack_rewards(row["rewards"], row["steps"])
            for row in self._tables.rows("episodes")
            if row["rewards"] and _key(row) in wanted
        }

    def attempts(self) -> list[Attempt]:
        """Return every attempt that came to nothing, in the order in which they ended."""
        rows = sorted(self._tables.rows("attempts"), key=itemgetter("ended_at"))
        return [Attempt(_key(row), row["number"], row["reason"], row["worker"]) for row in rows]

    def add_note(self, message: str) -> None:
        """Keep something that the user was told: a retry, a restart, a stop."""
        with writing(self.path), self._tables.transaction():
            self._tables.insert("notes", Note(time.time(), message)._asdict())

    def notes(self) -> list[Note]:
        """Return what the user was told, oldest first."""
        notes = sorted((Note(**row) for row in self._tables.rows("notes")), key=attrgetter("told_at"))
        with as_written_by_proctor(self.path):
            for note in notes:
                _check_seconds(note.told_at)
        return notes

    def finished_keys(self) -> set[EpisodeKey]:
        """Return the episodes that need not run again: errors are tried anew."""
        return {_key(row) for row in self._tables.rows("episodes") if row["status"] == "finished"}

    def begin_session(self, workers: int) -> int:
        """Note that a process starts working on this run; returns the session's id."""
        with writing(self.path), self._tables.transaction():
            return self._add_session(time.time(), None, workers, 0.0)

    def _add_session(self, started_at: float, ended_at: float | None, workers: int, startup: float) -> int:
        number = 1 + max((row["id"] for row in self._tables.rows("sessions")), default=0)
        values = (number, started_at, ended_at, workers, startup)
        self._tables.insert("sessions", dict(zip(TABLES["sessions"].columns, values, strict=True)))
        return number

    def end_session(self, session: int, startup: float) -> None:
        """Note the end, and the seconds that its child processes took to start."""
        with writing(self.path), self._tables.transaction():
            before = self._tables.find("sessions", (session,))
            if before is not None:
                self._tables.replace("sessions", before, {**before, "ended_at": time.time(), "startup": startup})

    def sessions(self) -> list[Session]:
        """Return every session. One that was killed counts until the last episode that it finished."""
        rows = sorted(self._tables.rows("sessions"), key=itemgetter("id"))
        killed = any(row["ended_at"] is None for row in rows)
        ends = [ending.ended_at for ending in self.endings()] if killed else []
        found = []
        with as_written_by_proctor(self.path):
            for row in rows:
                for seconds in (row["started_at"], row["ended_at"], row["startup"]):
                    _check_seconds(seconds)
        for place, row in enumerate(rows):
            start = row["started_at"]
            following = min((later["started_at"] for later in rows[place + 1 :]), default=math.inf)
            last = max((end for end in ends if start <= end < following), default=start)
            found.append(Session(start, row["ended_at"] or last, row["workers"], row["startup"]))
        return found

    def wall_and_startup(self) -> tuple[float, float]:
        """Return the wall seconds in which at least one session worked, and all their start-up seconds."""
        sessions = sorted(self.sessions())
        wall = reached = 0.0
        for session in sessions:
            wall += max(0.0, session.ended_at - max(reached, session.started_at))
            reached = max(reached, session.ended_at)
        return wall, sum(session.startup for session in sessions)

    def absorb(self, source: EpisodeTable) -> None:
        """Take over what another run of the same plan holds, all or nothing. What is here already stays.

        Doing it again changes nothing. Whether both tell the same of an episode is for the caller to see.
        """
        sessions = source.sessions()
        with writing(self.path), self._tables.transaction():
            for row in source._tables.rows("episodes"):
                if row["status"] == "finished" or self._tables.find("episodes", _key(row)) is None:
                    self._keep(row)
            for row in source._tables.rows("in_flight"):
                self._note_running(_key(row), row["steps"])
            for key in self.finished_keys():
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


def is_begun(path: Path) -> bool:
    """Whether a file holds tables. One that cannot be read counts: opening it says what is wrong."""
    _check_files(path, follow=True)
    if not path.exists():
        return False
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode={_mode(path)}", uri=True)
        try:
            return _holds_anything(database)
        finally:
            database.close()
    except (sqlite3.Error, UnicodeDecodeError):
        return True


def _mode(path: Path) -> str:
    """How to open a file that is only looked at."""
    # A reader of a write-ahead log makes files beside it, which it may not in somebody else's directory and should
    # not in ours. Where no log lies there nobody writes, so the file can be read as it is. Network file systems
    # never have one, so there one cannot tell; and there a reader makes no files.
    log, index = (path.with_name(f"{path.name}-{kind}") for kind in ("wal", "shm"))
    if not log.exists() and not is_network(path):
        return "ro&immutable=1"
    # The index of a log is only looked at, too: what a killed writer left is put in order by who goes on with it.
    return "ro&readonly_shm=1" if index.exists() else "ro"


def _holds_anything(database: sqlite3.Connection) -> bool:
    """Whether there are tables, or were: a file whose list of tables is lost is more than a page long."""
    tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return bool(tables or database.execute("PRAGMA page_count").fetchone()[0] > 1)


def _check_files(path: Path, *, follow: bool) -> None:
    """Refuse what SQLite would wait for, or write to elsewhere."""
    try:
        for kind in ("", "-wal", "-shm", "-journal"):
            check_regular(path.with_name(f"{path.name}{kind}"), follow=follow and not kind)
    except OSError as error:
        raise StoreError(f"{clip(str(error), 500)}. It is not read.") from None


class _Budget:
    """How much SQLite may do for somebody who reads: more than any run needs, and never without an end."""

    STEP = 1_000_000

    def __init__(self, path: Path) -> None:
        try:
            size = path.stat().st_size
        except OSError:
            size = 0
        # In instructions of SQLite's machine, of which a row takes some dozens and a byte less than one.
        self._left = 200 * self.STEP + 20 * min(size, 1 << 30)

    def spend(self) -> int:
        """Take a step; anything but 0 ends the query."""
        self._left -= self.STEP
        return self._left < 0


def _row(record: EpisodeRecord, ended_at: float) -> Row:
    wire = record.to_wire()
    texts = {column: json.dumps(wire[column], sort_keys=True) for column in _JSON_COLUMNS}
    return {**wire, **texts, "ended_at": ended_at}


def _record(row: Row) -> EpisodeRecord:
    values = {column: parse_json(row[column]) for column in _JSON_COLUMNS}
    for column, value in values.items():
        if not isinstance(value, dict) or not all(type(number) in (int, float) for number in value.values()):
            raise ValueError(f"{column} are {clip(value, 40)}")
    for seconds in (row["seconds"], row["started_at"], *values["timing"].values()):
        _check_seconds(seconds)
    values = {**row, **values, "success": _success(row), "rewards": b""}
    del values["ended_at"]
    return EpisodeRecord(**values)


def _check_seconds(seconds: float | None) -> None:
    """Raise `ValueError` for a time that no clock shows: whoever adds such up gets infinity."""
    if seconds is not None and not -_MOST_SECONDS < seconds < _MOST_SECONDS:
        raise ValueError(f"a time is {seconds:g} s")


def _key(row: Row) -> EpisodeKey:
    return EpisodeKey(row["task_group"], row["task_id"], row["episode_index"])


def _success(row: Row) -> bool | None:
    return None if row["success"] is None else bool(row["success"])
