"""The episode table: one SQLite file per run, one writer, durable the moment an episode ends."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from proctor.benchmarks.protocol import EpisodeKey
from proctor.errors import StoreError
from proctor.files import as_written_by_proctor, check_regular, clip, parse_json
from proctor.store.filesystem import is_network
from proctor.store.meta import fault_in
from proctor.store.records import MOST_EPISODES, Attempt, EpisodeRecord
from proctor.store.rewards import RewardCurve, unpack_rewards
from proctor.store.videos import check_place

SCHEMA_VERSION = 3


class Session(NamedTuple):
    """A stretch of time in which one process worked on a run."""

    started_at: float
    ended_at: float
    workers: int
    startup: float


class Ended(NamedTuple):
    """How an episode ended, and when: all that a list of runs needs of each."""

    key: EpisodeKey
    status: str
    success: bool | None
    ended_at: float


class Note(NamedTuple):
    """Something that the user was told while the run went on."""

    told_at: float
    message: str


_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE episodes (
    task_group TEXT NOT NULL, task_id INTEGER NOT NULL, task TEXT NOT NULL, episode_index INTEGER NOT NULL,
    seed INTEGER NOT NULL, status TEXT NOT NULL CHECK (status IN ('finished', 'error')),
    success INTEGER, sum_reward REAL, max_reward REAL, steps INTEGER NOT NULL, metrics TEXT NOT NULL,
    attempts INTEGER NOT NULL, seconds REAL NOT NULL, digest TEXT, video_path TEXT, error TEXT,
    asks INTEGER NOT NULL, looks INTEGER NOT NULL, timing TEXT NOT NULL, worker TEXT NOT NULL,
    started_at REAL NOT NULL, ended_at REAL NOT NULL, rewards BLOB NOT NULL,
    PRIMARY KEY (task_group, task_id, episode_index)
) WITHOUT ROWID;
CREATE TABLE attempts (
    task_group TEXT NOT NULL, task_id INTEGER NOT NULL, episode_index INTEGER NOT NULL,
    number INTEGER NOT NULL, reason TEXT NOT NULL, worker INTEGER NOT NULL, ended_at REAL NOT NULL
);
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, started_at REAL NOT NULL, ended_at REAL, workers INTEGER, startup REAL
);
CREATE TABLE notes (told_at REAL NOT NULL, message TEXT NOT NULL);
"""

_MOST_BYTES = 16 << 20
"""Of one value in a table."""

_MOST_ROWS = 4 * MOST_EPISODES
"""Of one table: attempts and notes may be more than there are episodes."""

_JSON_COLUMNS = ("metrics", "timing")
_COLUMNS = (
    "task_group", "task_id", "task", "episode_index", "seed", "status", "success", "sum_reward", "max_reward",
    "steps", "metrics", "attempts", "seconds", "digest", "video_path", "error", "asks", "looks",
    "timing", "worker", "started_at",
)  # fmt: skip
_WRITTEN = (*_COLUMNS, "rewards", "ended_at")
_REPLACED = _WRITTEN[4:]
"""What another attempt may change: all but what identifies the episode."""


class EpisodeTable:
    """Reads and writes `run.sqlite`. Opening an existing file checks its schema version.

    Args:
        path: the file.
        read_only: for looking at a run, also while another process writes it.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        _check_files(path, follow=read_only)
        with _explained(path):
            # The coordinator is the only writer; a reader that holds the file for a moment is waited for.
            where = f"{path.absolute().as_uri()}?mode={_reading(path) if read_only else 'rwc'}"
            self._db = sqlite3.connect(where, timeout=30, isolation_level=None, uri=True)
        try:
            self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
            self._db.set_progress_handler(_Budget(path).spend, _Budget.STEP)
            if not read_only:
                with _explained(path):
                    self._prepare()
            version = self.meta("schema_version")
            if version != SCHEMA_VERSION:
                raise StoreError(
                    f"{path} has schema version {version}, this Proctor reads {SCHEMA_VERSION}. "
                    "Use the Proctor version that wrote it, or a new --output_dir."
                )
            with _explained(path):
                _check_schema(self._db, path)
                _check_types(self._db, path)
            if not read_only:
                self._db.set_progress_handler(None, 0)  # its tables are ours, and it may write for days
        except StoreError:
            self._db.close()
            raise

    def _prepare(self) -> None:
        # WAL needs shared memory between processes, which network file systems do not give.
        self._db.execute(f"PRAGMA journal_mode={'TRUNCATE' if is_network(self.path) else 'WAL'}")
        self._db.execute("PRAGMA synchronous=FULL")
        if not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            with self._transaction():
                _create(self._db)
                self._put_meta("schema_version", SCHEMA_VERSION)

    def __enter__(self) -> EpisodeTable:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def meta(self, key: str) -> Any:
        """Return a stored value, or `None`."""
        with _explained(self.path):
            row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        try:
            value = parse_json(row[0])
        except (ValueError, TypeError) as error:
            raise StoreError(f"{self.path}: '{clip(key)}' cannot be read: {clip(str(error))}.") from None
        fault = fault_in(key, value)
        if fault is not None:
            raise StoreError(f"{self.path}: '{key}' is {clip(value, 40)}; it {fault}. It is not read.")
        return value

    def set_meta(self, key: str, value: Any) -> None:
        """Store a JSON value under `key`."""
        with _explained(self.path), self._transaction():
            self._put_meta(key, value)

    def _put_meta(self, key: str, value: Any) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value, sort_keys=True)))

    def write(self, records: Iterable[EpisodeRecord], attempts: Iterable[Attempt] = ()) -> None:
        """Make results durable, all of them or none. A finished episode is never overwritten."""
        now = time.time()
        marks = ", ".join("?" * len(_WRITTEN))
        # An error may be tried again by a later session; a finished episode stays what it is.
        upsert = (
            f"INSERT INTO episodes ({', '.join(_WRITTEN)}) VALUES ({marks}) ON CONFLICT DO UPDATE SET "
            + ", ".join(f"{column} = excluded.{column}" for column in _REPLACED)
            + " WHERE episodes.status = 'error'"
        )
        with _explained(self.path), self._transaction():
            self._db.executemany(upsert, [(*_row(record), record.rewards, now) for record in records])
            self._db.executemany(
                "INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(*attempt.key, attempt.number, attempt.reason, attempt.worker, now) for attempt in attempts],
            )

    def records(self) -> list[EpisodeRecord]:
        """Return every episode that ended, in no particular order."""
        rows = self._all(f"SELECT {', '.join(_COLUMNS)} FROM episodes")
        with as_written_by_proctor(self.path):
            records = [_record(row) for row in rows]
        for record in records:
            check_place(self.path, record.key, record.video_path)
        return records

    def _all(self, statement: str) -> list[Any]:
        """Return the rows of a table, of which there are no more than a run can have."""
        with _explained(self.path):
            rows = self._db.execute(statement).fetchmany(_MOST_ROWS + 1)
        if len(rows) > _MOST_ROWS:
            raise StoreError(f"{self.path} has more than {_MOST_ROWS:,} rows in one table. It is not read.")
        return rows

    def endings(self) -> list[Ended]:
        """Return how every episode ended, in no particular order: less than `records`, and quicker."""
        rows = self._all("SELECT task_group, task_id, episode_index, status, success, ended_at FROM episodes")
        return [
            Ended(EpisodeKey(group, task, index), status, None if success is None else bool(success), at)
            for group, task, index, status, success, at in rows
        ]

    def reward_curves(self, keys: Iterable[EpisodeKey]) -> dict[EpisodeKey, RewardCurve]:
        """Return the rewards of these episodes, of those that have any."""
        statement = (
            "SELECT rewards, steps FROM episodes WHERE task_group = ? AND task_id = ? AND episode_index = ? "
            "AND length(rewards) > 0"
        )
        with _explained(self.path):
            found = {key: self._db.execute(statement, key).fetchone() for key in keys}
        return {key: unpack_rewards(*row) for key, row in found.items() if row is not None}

    def attempts(self) -> list[Attempt]:
        """Return every attempt that came to nothing, in the order in which they ended."""
        rows = self._all(
            "SELECT task_group, task_id, episode_index, number, reason, worker FROM attempts ORDER BY ended_at"
        )
        return [Attempt(EpisodeKey(*row[:3]), *row[3:]) for row in rows]

    def add_note(self, message: str) -> None:
        """Keep something that the user was told: a retry, a restart, a stop."""
        with _explained(self.path), self._transaction():
            self._db.execute("INSERT INTO notes VALUES (?, ?)", (time.time(), message))

    def notes(self) -> list[Note]:
        """Return what the user was told, oldest first."""
        return [Note(*row) for row in self._all("SELECT * FROM notes ORDER BY told_at")]

    def finished_keys(self) -> set[EpisodeKey]:
        """Return the episodes that need not run again: errors are tried anew."""
        rows = self._all("SELECT task_group, task_id, episode_index FROM episodes WHERE status = 'finished'")
        return {EpisodeKey(*row) for row in rows}

    def begin_session(self, workers: int) -> int:
        """Note that a process starts working on this run; returns the session's id."""
        with _explained(self.path):
            cursor = self._db.execute(
                "INSERT INTO sessions (started_at, workers) VALUES (?, ?)", (time.time(), workers)
            )
        return int(cursor.lastrowid or 0)

    def end_session(self, session: int, startup: float) -> None:
        """Note the end, and the seconds that its child processes took to start."""
        with _explained(self.path):
            self._db.execute(
                "UPDATE sessions SET ended_at = ?, startup = ? WHERE id = ?", (time.time(), startup, session)
            )

    def sessions(self) -> list[Session]:
        """Return every session. One that was killed counts until the last episode that it finished."""
        rows = self._all(
            "SELECT started_at, ended_at, coalesce(workers, 0), coalesce(startup, 0), "
            "coalesce((SELECT min(started_at) FROM sessions t WHERE t.id > s.id), 9e99) FROM sessions s"
        )
        with _explained(self.path):
            found = []
            for start, end, workers, startup, following in rows:
                last = self._db.execute(
                    "SELECT max(ended_at) FROM episodes WHERE ended_at >= ? AND ended_at < ?", (start, following)
                ).fetchone()[0]
                found.append(Session(start, end or last or start, workers, startup))
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
        columns = ", ".join(_WRITTEN)
        better = ", ".join(f"{column} = excluded.{column}" for column in _REPLACED)
        sessions = source.sessions()
        with _explained(self.path):
            self._db.execute("ATTACH ? AS source", (f"{source.path.absolute().as_uri()}?mode=ro",))
            try:
                with self._transaction():
                    self._db.execute(
                        f"INSERT INTO episodes ({columns}) SELECT {columns} FROM source.episodes WHERE true "
                        f"ON CONFLICT DO UPDATE SET {better} "
                        "WHERE episodes.status = 'error' AND excluded.status = 'finished'"
                    )
                    for table in ("attempts", "notes"):
                        self._db.execute(
                            f"INSERT INTO {table} SELECT * FROM source.{table} EXCEPT SELECT * FROM {table}"
                        )
                    # One that was still going on when it was taken over before has gone on since.
                    self._db.executemany(
                        "UPDATE sessions SET ended_at = ?2, startup = ?4 WHERE started_at = ?1 AND workers = ?3",
                        sessions,
                    )
                    self._db.executemany(
                        "INSERT INTO sessions (started_at, ended_at, workers, startup) SELECT ?1, ?2, ?3, ?4 "
                        "WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE started_at = ?1 AND workers = ?3)",
                        sessions,
                    )
            finally:
                self._db.execute("DETACH source")


def is_begun(path: Path) -> bool:
    """Whether a file holds tables. One that cannot be read counts: opening it says what is wrong."""
    _check_files(path, follow=True)
    if not path.exists():
        return False
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode={_reading(path)}", uri=True)
        try:
            return bool(database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
        finally:
            database.close()
    except sqlite3.Error:
        return True


def _reading(path: Path) -> str:
    """How to open a file that is only looked at."""
    # A reader of a write-ahead log makes files beside it, which it may not in somebody else's directory and should
    # not in ours. Where no log lies there nobody writes, so the file can be read as it is. Network file systems
    # never have one, so there one cannot tell; and there a reader makes no files.
    log, index = (path.with_name(f"{path.name}-{kind}") for kind in ("wal", "shm"))
    if not log.exists() and not is_network(path):
        return "ro&immutable=1"
    # The index of a log is only looked at, too: what a killed writer left is put in order by who goes on with it.
    return "ro&readonly_shm=1" if index.exists() else "ro"


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


def _create(database: sqlite3.Connection) -> None:
    for statement in _SCHEMA.split(";"):
        database.execute(statement)


def _check_schema(database: sqlite3.Connection, path: Path) -> None:
    """Refuse tables that are not ours: a view or trigger in their place can compute, or say, anything."""
    with closing(sqlite3.connect(":memory:")) as ours:
        _create(ours)
        wanted = _objects(ours)
    if _objects(database) != wanted:
        raise StoreError(f"{path} has other tables than Proctor writes. It is not read.")


def _check_types(database: sqlite3.Connection, path: Path) -> None:
    """Refuse values of other types than their columns are declared with: SQLite itself keeps whatever comes."""
    for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        columns = database.execute('SELECT name, lower(type), "notnull" FROM pragma_table_info(?)', (table,))
        wrong = " OR ".join(
            f"typeof({name}) NOT IN ('{kind}', '{kind if needed else 'null'}')" for name, kind, needed in columns
        )
        if database.execute(f"SELECT 1 FROM {table} WHERE {wrong} LIMIT 1").fetchone():
            raise StoreError(f"{path}: a value in {table} is not of its column's type. It is not read.")


def _objects(database: sqlite3.Connection) -> set[tuple[str, str, str]]:
    rows = database.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master").fetchmany(1000)
    return {(kind, name, " ".join(sql.split())) for kind, name, sql in rows}


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into one line that says what to do."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
            raise StoreError(f"{path} takes more work to read than any run does. It is not read.") from None
        hint = "Free some space" if "full" in str(error) else "Check the disk and its permissions"
        raise StoreError(
            f"cannot write results to {path}: {error}. {hint}, then run the same command again: "
            "finished episodes are kept."
        ) from error


def _row(record: EpisodeRecord) -> tuple[Any, ...]:
    wire = record.to_wire()
    for column in _JSON_COLUMNS:
        wire[column] = json.dumps(wire[column], sort_keys=True)
    return tuple(wire[column] for column in _COLUMNS)


def _record(row: tuple[Any, ...]) -> EpisodeRecord:
    wire = dict(zip(_COLUMNS, row, strict=True))
    for column in _JSON_COLUMNS:
        wire[column] = parse_json(wire[column])
        if not isinstance(wire[column], dict):
            raise ValueError(f"{column} are {clip(wire[column], 40)}")
    wire["success"] = None if wire["success"] is None else bool(wire["success"])
    return EpisodeRecord(**wire)
