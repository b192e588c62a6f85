"""SQLite tables in which every row carries a checksum, and every table one of all its rows.

A row's checksum covers its table's name, the names of its columns and every value with its type. A table's covers
how many rows there are and which. Both are written in the transaction that changes a row and compared whenever one
is read, so a changed, lost or misplaced row is an error and never another result. They are made against accidents:
a failing disk, a broken copy, an editor. Whoever wants to forge a run can compute them too.
"""

from __future__ import annotations

import hashlib
import operator
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

from proctor.errors import StoreError
from proctor.store.schema import Table
from proctor.store.sqlite_file import damaged, reading

Row = dict[str, Any]
"""A row's values by column, without its checksum."""

_TOTALS = "checksums"
_AT_ONCE = 256
"""Rows of one table that are in memory at once while it is gone through."""


class Total(NamedTuple):
    """How many rows a table has, and the sum of their checksums: the same in whatever order they lie."""

    rows: int
    total: int

    def changed(self, rows: int, difference: int) -> Total:
        """Return it after a change; sums stay within SQLite's integers."""
        return Total(self.rows + rows, (self.total + difference + 2**63) % 2**64 - 2**63)


NOTHING = Total(0, 0)


class _Statements(NamedTuple):
    """What is done with one row of a table, in SQL. Made once: every episode that ends takes a dozen of them."""

    find: str
    insert: str
    update: str

    @classmethod
    def of(cls, name: str, table: Table) -> _Statements:
        """Return those of a table; a row is found and updated by its key."""
        columns = (*table.columns, "checksum")
        where = " AND ".join(f"{column} = ?" for column in table.key)
        return cls(
            f"SELECT * FROM {name} WHERE {where}",
            f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})",
            f"UPDATE {name} SET {', '.join(f'{column} = ?' for column in columns)} WHERE {where}",
        )


class ChecksumTables:
    """The tables of one open SQLite file. Every read verifies, every write keeps the checksums true.

    Args:
        database: the connection, without implicit transactions.
        path: its file, for messages.
        tables: what it holds.
        most_rows: how many rows of a table are read.
    """

    def __init__(
        self, database: sqlite3.Connection, path: Path, tables: Mapping[str, Table], most_rows: int
    ) -> None:
        self._db, self._path, self._most_rows = database, path, most_rows
        totals = Table(
            {"name": "TEXT NOT NULL", "rows": "INTEGER NOT NULL", "total": "INTEGER NOT NULL"}, ("name",)
        )
        self._tables = {**tables, _TOTALS: totals}
        self._statements = {name: _Statements.of(name, table) for name, table in self._tables.items()}
        self._changes: dict[str, Total] = {}
        self._sound = False
        # Bytes that are no text make another checksum, which tells more than SQLite's error does.
        database.text_factory = operator.methodcaller("decode", "utf-8", "surrogateescape")
        self._pack = msgpack.Packer(unicode_errors="surrogateescape").pack
        self._hashes = {
            name: hashlib.blake2b(self._pack([name, list(table.columns)]), digest_size=8)
            for name, table in self._tables.items()
        }

    def create(self) -> None:
        """Make all tables, inside a transaction."""
        for name, table in self._tables.items():
            self._db.execute(table.sql(name))
        for name in self._tables:
            if name != _TOTALS:
                self._insert(_TOTALS, {"name": name, **NOTHING._asdict()})

    def check_schema(self) -> None:
        """Raise `StoreError` if the file's tables are not these."""
        with reading(self._path):
            found = dict(self._db.execute("SELECT name, sql FROM sqlite_master").fetchall())
        if found != {name: table.sql(name) for name, table in self._tables.items()}:
            raise damaged(self._path, "its tables are not as they were made")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write all of what is inside, or nothing."""
        self._check_sound()
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            for name, change in self._changes.items():
                before = self.total(name)
                after = before.changed(*change)
                self._update(_TOTALS, (name,), {"name": name, **after._asdict()})
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        finally:
            self._changes.clear()

    def rows(self, name: str) -> list[Row]:
        """Return every row of a small table, in no particular order; see `each`."""
        columns = tuple(self._tables[name].columns)
        return [dict(zip(columns, values, strict=False)) for values in self.each(name)]

    def each(self, name: str) -> Iterator[Sequence[Any]]:
        """Go through every row of a table in the order of its key: the values of its columns, then its checksum.

        A row is verified before it is given, the table when its last row was. So whoever wants to rely on what was
        read goes on to the end.

        Raises:
            StoreError: one was changed, or one is missing or too many.
        """
        rows = total = 0
        with reading(self._path):
            begins = not self._db.in_transaction
            if begins:
                self._db.execute("BEGIN")  # both reads see one state of a file that is being written
            try:
                expected = self.total(name).changed(*self._changes.get(name, NOTHING))
                stored = self._db.execute(f"SELECT * FROM {name}")
                while some := stored.fetchmany(_AT_ONCE):
                    for values in some:
                        self._verify(name, values)
                        total += values[-1]
                        yield values
                    rows += len(some)
                    if rows > self._most_rows:
                        raise StoreError(
                            f"{self._path} has more than {self._most_rows:,} rows in one table. It is not read."
                        )
            finally:
                if begins and self._db.in_transaction:
                    self._db.execute("COMMIT")
        if NOTHING.changed(rows, total) != expected:
            missing = expected.rows - rows
            what = f"{abs(missing)} too {'few' if missing > 0 else 'many'}" if missing else "not those written"
            raise damaged(self._path, f"the rows of its table '{name}' are {what}")

    def find(self, name: str, key: Sequence[Any]) -> Row | None:
        """Return the row with this key."""
        values = self._db.execute(self._statements[name].find, tuple(key)).fetchone()
        if values is None:
            return None
        self._verify(name, values)
        return dict(zip(self._tables[name].columns, values, strict=False))

    def insert(self, name: str, row: Mapping[str, Any]) -> None:
        """Add a row, inside a transaction."""
        self._changed(name, 1, self._insert(name, row))

    def replace(self, name: str, before: Row, row: Mapping[str, Any]) -> None:
        """Put a row in the place of one with the same key, which was read before; inside a transaction."""
        table = self._tables[name]
        checksum = self._update(name, [before[column] for column in table.key], row)
        self._changed(name, 0, checksum - self._checksum(name, table.values(before)))

    def delete(self, name: str, row: Row) -> None:
        """Remove a row that was read before, inside a transaction; without a key, all that are equal."""
        table = self._tables[name]
        columns = table.key or tuple(table.columns)
        where = " AND ".join(f"{column} IS ?" for column in columns)
        done = self._db.execute(f"DELETE FROM {name} WHERE {where}", [row[column] for column in columns])
        self._changed(name, -done.rowcount, -done.rowcount * self._checksum(name, table.values(row)))

    def _insert(self, name: str, row: Mapping[str, Any]) -> int:
        values = self._storable(name, row)
        checksum = self._checksum(name, values)
        self._db.execute(self._statements[name].insert, [*values, checksum])
        return checksum

    def _update(self, name: str, key: Sequence[Any], row: Mapping[str, Any]) -> int:
        values = self._storable(name, row)
        checksum = self._checksum(name, values)
        self._db.execute(self._statements[name].update, [*values, checksum, *key])
        return checksum

    def _storable(self, name: str, row: Mapping[str, Any]) -> list[Any]:
        """Return a row's values, with what is no Unicode in a text (a strange file's name, say) spelled out."""
        values = self._tables[name].values(row)
        return [_spelled(value) if type(value) is str and not value.isascii() else value for value in values]

    def _changed(self, name: str, rows: int, difference: int) -> None:
        self._changes[name] = self._changes.get(name, NOTHING).changed(rows, difference)

    def total(self, name: str) -> Total:
        """Return what the rows of a table must add up to."""
        row = self.find(_TOTALS, (name,))
        if row is None:
            raise damaged(self._path, f"the checksum of its table '{name}' is missing")
        return Total(row["rows"], row["total"])

    def _verify(self, name: str, values: Sequence[Any]) -> None:
        if self._checksum(name, values[:-1]) != values[-1]:
            row = dict(zip(self._tables[name].columns, values, strict=False))
            raise damaged(
                self._path, f"{_called(name, row, self._tables[name].key)} has changed since it was written"
            )
        if not self._tables[name].fits(values[:-1]):
            raise damaged(self._path, f"a value in its table '{name}' is not of its column's type")

    def _checksum(self, name: str, values: Sequence[Any]) -> int:
        hashed = self._hashes[name].copy()
        hashed.update(self._pack(values))
        return int.from_bytes(hashed.digest(), "big", signed=True)

    def _check_sound(self) -> None:
        """Before the first change, let SQLite check the file, so that nothing is written on top of damage."""
        if not self._sound:
            with reading(self._path):
                found = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise damaged(self._path, found)
            self._sound = True


def _spelled(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _called(name: str, row: Row, key: Sequence[str]) -> str:
    """Return a readable name for a row, made of its own columns, which may be what has changed."""
    if "episode_index" in row:
        which = f"{row.get('task') or row.get('task_group')} episode {row['episode_index']}"
        return f"the row of {which} in its table '{name}'"
    values = ", ".join(str(row[column]) for column in key)
    return f"the row{f' {values}' if values else ''} in its table '{name}'"
