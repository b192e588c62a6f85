"""One SQLite file, which may be anybody's: opened without harm, and its errors in words that say what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from proctor.errors import DamagedError, StoreError
from proctor.files import check_regular, clip
from proctor.store.filesystem import is_network

_DAMAGE = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_ERROR,  # our statements are right, so a schema that does not know them is not ours
)


def connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """Open a file, which only a writer may make. Raises `StoreError`."""
    check_files(path, follow=read_only)
    with reading(path) if read_only else opening(path):
        # The coordinator is the only writer; a reader that holds the file for a moment is waited for.
        where = f"{path.absolute().as_uri()}?mode={_mode(path) if read_only else 'rwc'}"
        return sqlite3.connect(where, timeout=30, isolation_level=None, uri=True)


def is_begun(path: Path) -> bool:
    """Whether a file holds tables. One that cannot be read counts: opening it says what is wrong."""
    check_files(path, follow=True)
    if not path.exists():
        return False
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode={_mode(path)}", uri=True)
        try:
            return holds_anything(database)
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


def holds_anything(database: sqlite3.Connection) -> bool:
    """Whether there are tables, or were: a file whose list of tables is lost is more than a page long."""
    tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return bool(tables or database.execute("PRAGMA page_count").fetchone()[0] > 1)


def check_files(path: Path, *, follow: bool) -> None:
    """Refuse what SQLite would wait for, or write to elsewhere."""
    try:
        for kind in ("", "-wal", "-shm", "-journal"):
            check_regular(path.with_name(f"{path.name}{kind}"), follow=follow and not kind)
    except OSError as error:
        raise StoreError(f"{clip(str(error), 500)}. It is not read.") from None


class ReadingBudget:
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


def damaged(path: Path, what: str) -> StoreError:
    """Return the error for a file that is not as it was written."""
    return DamagedError(
        f"{path} is damaged: {_one_line(what)}. "
        "Restore the file from a copy, or run the evaluation again in a new --output_dir."
    )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into one line that says what to do."""
    with _explained(path, lambda error: f"cannot read {path}: {error}. Check the disk and its permissions."):
        yield


@contextmanager
def opening(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into one line that says what to do: nothing was run yet, so nothing is at stake."""

    def words(error: Exception) -> str:
        hint = "Free some space" if _code(error) == sqlite3.SQLITE_FULL else "Check its owner and permissions"
        return f"cannot open {path} for reading and writing: {error}. {hint}, or use another --output_dir."

    with _explained(path, words):
        yield


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into one line that says what to do."""

    def words(error: Exception) -> str:
        full = _code(error) == sqlite3.SQLITE_FULL
        hint = "Free some space" if full else "Check the disk and its permissions"
        return (
            f"cannot write results to {path}: {error}. {hint}, then run the same command again: "
            "finished episodes are kept."
        )

    with _explained(path, words):
        yield


@contextmanager
def _explained(path: Path, words: Callable[[Exception], str]) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:  # of a message in which SQLite quotes the file
        raise damaged(path, ascii(error.object)) from None
    except (sqlite3.Error, OSError) as error:
        if _code(error) == sqlite3.SQLITE_INTERRUPT:
            raise StoreError(f"{path} takes more work to read than any run does. It is not read.") from None
        if _code(error) in _DAMAGE:
            raise damaged(path, str(error)) from None
        raise StoreError(words(error)) from error


def _code(error: Exception) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def _one_line(text: str) -> str:
    words = " ".join(text.split())
    return words if words.isprintable() else ascii(words)[1:-1]
