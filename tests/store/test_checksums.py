"""What was changed in `run.sqlite` behind Proctor's back is an error that says where, never another result."""

from __future__ import annotations

import itertools
import math
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from made_up_run import MadeUp, make_run

from proctor.errors import StoreError
from proctor.store.checksums import ChecksumTables
from proctor.store.episodes import EpisodeTable
from proctor.store.schema import RunningEpisode, Table
from proctor.types import EpisodeKey, Task

PAGE = 4096
REFUSED = "refused"
TASKS = [Task("near", 0, "near-v3", "go", 60), Task("far", 0, "far-v3", "go", 60)]
META = ("identity", "n_episodes", "tasks", "stopped", "reproducible", "policy_spec", "schema_version")


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed run in which every table has rows."""
    run = make_run(tmp_path_factory.mktemp("damage") / "run", MadeUp(n_episodes=6, tasks=TASKS, errors=2))
    with EpisodeTable(run / "run.sqlite") as table:
        table.write([], running=[RunningEpisode(EpisodeKey("near", 0, 6), 3)])
    assert not (run / "run.sqlite-wal").exists()
    return run / "run.sqlite"


def everything(path: Path, *, read_only: bool = True) -> str:
    """Return all that can be read from a run, as text; one that may be written is written, too."""
    with EpisodeTable(path, read_only=read_only) as table:
        records = list(table.records())
        curves = table.reward_curves([record.key for record in records])
        found = [
            sorted(map(repr, records)),
            [table.meta(key) for key in META],
            table.attempts(),
            table.notes(),
            table.sessions(),
            table.running(),
            sorted((key, curve.means.tobytes(), curve.steps) for key, curve in curves.items()),
            [table.packed_trajectory(record.key) for record in records],
        ]
        if not read_only:
            table.set_meta("n_episodes", 6)
    return repr(found)


def outcome(path: Path, *, read_only: bool = True) -> str:
    """Return all that can be read, or that reading was refused in one line."""
    try:
        return everything(path, read_only=read_only)
    except StoreError as error:
        return REFUSED if "\n" not in str(error) else str(error)


@contextmanager
def one_line_error() -> Iterator[pytest.ExceptionInfo[StoreError]]:
    with pytest.raises(StoreError, match="is damaged: ") as caught:
        yield caught
    assert "\n" not in str(caught.value)
    assert "Restore the file from a copy" in str(caught.value)


def change(path: Path, statement: str, *values: object) -> int:
    database = sqlite3.connect(path)
    with database:
        changed = database.execute(statement, values).rowcount
    database.close()
    return changed


def columns(path: Path) -> list[tuple[str, str]]:
    database = sqlite3.connect(path)
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = [(table, row[1]) for table in tables for row in database.execute(f"PRAGMA table_info({table})")]
    database.close()
    return found


def another(value: Any) -> Any:
    if isinstance(value, str):
        return value[:-1] + ("x" if value[-1:] != "x" else "y")
    if isinstance(value, bytes):
        return value[:-1] + bytes([value[-1] ^ 1]) if value else b"\0"
    return math.nextafter(value, math.inf) if isinstance(value, float) else 7 if value is None else value + 1000


def test_every_column_of_every_table_is_covered(whole: Path, tmp_path: Path) -> None:
    asked = columns(whole)
    assert {"episodes", "meta", "attempts", "sessions", "notes", "in_flight", "trajectories"} <= {
        table for table, _ in asked
    }
    for table, column in asked:
        path = tmp_path / f"{table}-{column}.sqlite"
        shutil.copy(whole, path)
        database = sqlite3.connect(path)
        (value,) = database.execute(f"SELECT {column} FROM {table}").fetchone()
        database.close()
        allowed = ("error" if value == "finished" else "finished") if column == "status" else another(value)
        assert change(path, f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {column} IS ?", allowed, value)
        with one_line_error() as caught:
            everything(path)
        assert str(path) in str(caught.value)


def test_a_value_of_another_type_is_another_value(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    shutil.copy(whole, path)
    assert change(path, "UPDATE notes SET message = CAST(message AS BLOB)")
    with one_line_error():
        everything(path)


@pytest.mark.parametrize("key", [key for key in META if key not in ("schema_version", "stopped")])
def test_no_setting_of_a_run_can_change_unnoticed(whole: Path, tmp_path: Path, key: str) -> None:
    path = tmp_path / "run.sqlite"
    for statement in (
        "UPDATE meta SET value = replace(value, '0', '1') || ' ' WHERE key = ?",
        "UPDATE meta SET key = key || 's' WHERE key = ?",
        "DELETE FROM meta WHERE key = ?",
    ):
        shutil.copy(whole, path)
        assert change(path, statement, key) == 1
        with one_line_error() as caught, EpisodeTable(path, read_only=True) as table:
            table.meta(key)
        assert "meta" in str(caught.value)


@pytest.mark.parametrize("column", ["success", "steps", "digest", "rewards", "sum_reward", "seed", "ended_at"])
def test_the_error_names_the_file_and_the_episode(whole: Path, tmp_path: Path, column: str) -> None:
    path = tmp_path / "run.sqlite"
    shutil.copy(whole, path)
    where = "task = 'near-v3' AND episode_index = 3"
    assert change(path, f"UPDATE episodes SET {column} = {column} || '1' WHERE {where}") == 1
    with EpisodeTable(path, read_only=True) as table:
        key = EpisodeKey("near", 0, 3)
        for read in (
            lambda: list(table.records()),
            lambda: table.reward_curves([key]),
            lambda: list(table.find([key])),
        ):
            with one_line_error() as caught:
                read()
            assert f"{path} is damaged: the row of near-v3 episode 3 " in str(caught.value)


@pytest.mark.parametrize(
    "table", ["episodes", "trajectories", "attempts", "sessions", "notes", "meta", "checksums"]
)
def test_lost_rows_are_missed(whole: Path, tmp_path: Path, table: str) -> None:
    path = tmp_path / "run.sqlite"
    shutil.copy(whole, path)
    kept = "WHERE key <> 'schema_version'" if table == "meta" else ""
    assert change(path, f"DELETE FROM {table} {kept}")
    with one_line_error():
        everything(path)


def test_a_row_twice_is_one_too_many(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    shutil.copy(whole, path)
    change(path, "INSERT INTO notes SELECT * FROM notes LIMIT 1")
    with one_line_error() as caught, EpisodeTable(path, read_only=True) as table:
        table.notes()
    assert "1 too many" in str(caught.value)


def test_a_damaged_run_is_not_taken_over_by_another(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    shutil.copy(whole, path)
    change(path, "UPDATE episodes SET success = 1 - success WHERE episode_index = 2")
    with EpisodeTable(path, read_only=True) as source, EpisodeTable(tmp_path / "all.sqlite") as target:
        with one_line_error():
            target.absorb(source)
        assert list(target.records()) == []


def test_a_damaged_run_is_not_written(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    content = bytearray(whole.read_bytes())
    content[36:40] = (1).to_bytes(4, "big")  # the file says that a page is free, but none is
    path.write_bytes(content)
    with EpisodeTable(path) as table, one_line_error():
        table.add_note("it goes on")


def test_a_file_that_sqlite_cannot_read_is_not_said_to_be_unwritable(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    content = bytearray(whole.read_bytes())
    content[2 * PAGE :] = bytes(len(content) - 2 * PAGE)
    path.write_bytes(content)
    with one_line_error() as caught:
        everything(path)
    assert "write" not in str(caught.value).split(". Restore")[0]


def test_a_file_whose_list_of_tables_is_lost_is_not_begun_anew(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    content = bytearray(whole.read_bytes())
    content[103:105] = b"\0\0"  # how many cells the first page has
    path.write_bytes(content)
    with one_line_error():
        everything(path, read_only=False)


@settings(
    max_examples=150,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a byte is as small as a damage gets
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255), head=st.booleans(), read_only=st.booleans()
)
def test_one_changed_byte_changes_no_result(
    whole: Path, tmp_path: Path, place: float, flip: int, head: bool, read_only: bool
) -> None:
    content = bytearray(whole.read_bytes())
    where = int(place * len(content))
    if head:  # the beginning of a page says how to read the rest of it
        where = where // PAGE * PAGE + where % 120
    content[where] ^= flip
    path = tmp_path / "run.sqlite"
    for left in tmp_path.glob("run.sqlite*"):
        left.unlink()
    path.write_bytes(content)
    assert outcome(path, read_only=read_only) in (everything(whole), REFUSED)


def test_two_pages_in_each_others_place_change_no_result(whole: Path, tmp_path: Path) -> None:
    content = whole.read_bytes()
    pages = [content[start : start + PAGE] for start in range(0, len(content), PAGE)]
    expected = everything(whole)
    for one, other in itertools.combinations(range(len(pages)), 2):
        swapped = list(pages)
        swapped[one], swapped[other] = pages[other], pages[one]
        path = tmp_path / f"{one}-{other}.sqlite"
        path.write_bytes(b"".join(swapped))
        assert outcome(path) in (expected, REFUSED)


def test_what_sqlite_stores_differently_is_no_damage(tmp_path: Path) -> None:
    table = Table({"name": "TEXT NOT NULL", "real": "REAL", "whole": "INTEGER", "packed": "BLOB"}, key=("name",))
    values = [1, 1.5, -0.0, math.nan, math.inf, 2.0**70, None]
    path = tmp_path / "some.sqlite"
    with sqlite3.connect(path, isolation_level=None) as database:
        tables = ChecksumTables(database, path, {"things": table}, 100)
        with tables.transaction():
            tables.create()
            for number, value in enumerate(values):
                name = f"ä\0{number}"
                tables.insert(
                    "things", {"name": name, "real": value, "whole": number > 3, "packed": bytes(number)}
                )
        with tables.transaction():
            (row,) = [row for row in tables.rows("things") if row["real"] == 1.5]
            tables.replace("things", row, {**row, "whole": -(2**63)})
            (row,) = [row for row in tables.rows("things") if row["real"] == math.inf]
            tables.delete("things", row)
            assert len(tables.rows("things")) == len(values) - 1
        tables.check_schema()
        stored = {row["name"]: (row["real"], row["whole"]) for row in tables.rows("things")}
    database.close()
    assert list(stored.values()) == [(1.0, 0), (1.5, -(2**63)), (0.0, 0), (None, 0), (2.0**70, 1), (None, 1)]


def test_a_run_that_is_read_while_it_is_written_is_sound_at_every_moment(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with EpisodeTable(path) as table, EpisodeTable(path, read_only=True) as reader:
        for number in range(5):
            table.add_note(f"note {number}")
            assert len(reader.notes()) == number + 1
            assert not list(reader.episodes())
