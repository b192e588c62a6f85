"""An episode is durable the moment it ends, all of it or nothing, and a finished one stays what it is."""

from __future__ import annotations

import dataclasses
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_up_run import alter

from proctor.errors import EXIT_FAILED, StoreError
from proctor.plan import make_plan
from proctor.store import episodes as episodes_module
from proctor.store.episodes import EpisodeTable
from proctor.store.outcomes import read_outcomes
from proctor.store.schema import SCHEMA_VERSION, Attempt, EpisodeRecord, RunningEpisode
from proctor.store.stored_run import wall_seconds
from proctor.types import Episode, EpisodeKey, Task

ok_floats = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=10)
finished_records = st.builds(
    EpisodeRecord,
    task_group=texts,
    task_id=st.integers(0, 3),
    task=texts,
    episode_index=st.integers(0, 5),
    seed=st.integers(0, 2**60),
    status=st.just("finished"),
    success=st.booleans(),
    sum_reward=ok_floats,
    max_reward=ok_floats,
    steps=st.integers(0, 10**6),
    metrics=st.dictionaries(texts, ok_floats, max_size=3),
    attempts=st.integers(1, 5),
    seconds=st.floats(0, 1e6),
    digest=st.none() | texts,
    pixel_digest=st.none() | texts,
    looks=st.integers(0, 10**6),
    timing=st.dictionaries(texts, st.floats(0, 1e6), max_size=3),
)
error_records = st.builds(
    EpisodeRecord.failed,
    st.builds(
        Episode,
        st.builds(Task, texts, st.integers(0, 3), texts, st.just("prompt"), st.just(500)),
        st.integers(0, 5),
        st.integers(0, 2**60),
    ),
    st.integers(1, 5),
    texts,
)


def finished(index: int = 0, success: bool = True, **values: Any) -> EpisodeRecord:
    known: dict[str, Any] = {
        "task_group": "easy", "task_id": 3, "task": "reach-v3", "episode_index": index, "seed": 1000 + index,
        "status": "finished", "success": success, "sum_reward": 1.5, "max_reward": 0.5, "steps": 7,
    }  # fmt: skip
    return EpisodeRecord(**{**known, **values})


def failed(index: int = 0, error: str = "the worker died") -> EpisodeRecord:
    task = Task("easy", 3, "reach-v3", "reach", 500)
    return EpisodeRecord.failed(Episode(task, index, 1000 + index), 3, error)


def read(path: Path) -> dict[EpisodeKey, EpisodeRecord]:
    with EpisodeTable(path) as table:
        return {record.key: record for record in list(table.records())}


def rows(path: Path, statement: str) -> list[tuple[Any, ...]]:
    """Ask the file itself, as anyone with SQLite can."""
    database = sqlite3.connect(path)
    try:
        return database.execute(statement).fetchall()
    finally:
        database.close()


def change(path: Path, statement: str, *values: object) -> None:
    database = sqlite3.connect(path)
    try:
        with database:
            database.execute(statement, values)
    finally:
        database.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.sqlite"


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(records=st.lists(finished_records | error_records, max_size=4, unique_by=lambda record: record.key))
def test_what_is_written_is_read_back_by_the_next_process(
    tmp_path_factory: pytest.TempPathFactory, records: list[EpisodeRecord]
) -> None:
    path = tmp_path_factory.mktemp("store") / "run.sqlite"
    with EpisodeTable(path) as table:
        table.write(records)
    assert read(path) == {record.key: record for record in records}


def test_a_finished_episode_is_never_overwritten(path: Path) -> None:
    with EpisodeTable(path) as table:
        table.write([finished(success=True, digest="first")])
        table.write([finished(success=False, digest="second")])
        table.write([failed()])
        table.write([finished(success=False, digest="third"), failed(), finished(digest="fourth")])
    assert list(read(path).values()) == [finished(success=True, digest="first")]


def test_an_error_may_be_tried_again_and_its_result_takes_its_place(path: Path) -> None:
    with EpisodeTable(path) as table:
        table.write([failed(error="out of memory")])
        table.write([failed(error="hung")])
        assert read(path) == {failed().key: failed(error="hung")}
        table.write([finished(digest="d")])
    assert read(path) == {finished().key: finished(digest="d")}


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(0, 9)), max_size=4), max_size=6
    )
)
def test_the_first_finished_result_of_an_episode_stands_whatever_comes_after(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[int, bool, int]]]
) -> None:
    path = tmp_path_factory.mktemp("store") / "run.sqlite"
    expected: dict[EpisodeKey, EpisodeRecord] = {}
    with EpisodeTable(path) as table:
        for batch in batches:
            records = [finished(i, digest=str(mark)) if ok else failed(i, str(mark)) for i, ok, mark in batch]
            table.write(records)
            for record in records:
                if record.key not in expected or expected[record.key].status == "error":
                    expected[record.key] = record
    assert read(path) == expected


def test_only_finished_episodes_need_not_run_again(path: Path) -> None:
    with EpisodeTable(path) as table:
        table.write([finished(0), failed(1), finished(2, success=False)])
        ended = read_outcomes(table, make_plan([Task("easy", 3, "reach-v3", "", 10)], 4, 0))
        assert [episode.index for episode in ended.pending] == [1, 3]


def test_what_is_in_flight_is_known_with_what_has_ended_and_leaves_when_it_ends(path: Path) -> None:
    def known() -> dict[int, int]:
        with EpisodeTable(path, read_only=True) as reader:
            return {one.key.episode_index: one.steps for one in reader.running()}

    def running(index: int, steps: int) -> RunningEpisode:
        return RunningEpisode(finished(index).key, steps)

    with EpisodeTable(path) as table:
        table.write([finished(0)], running=[running(1, 30), running(2, 7)])
        assert known() == {1: 30, 2: 7}
        # Cut short, and started again: it has lasted as long as it ever did.
        table.write([finished(3)], running=[running(1, 4), running(2, 9)])
        assert known() == {1: 30, 2: 9}
        table.write([finished(1), failed(2)], running=[running(4, 1)])
        assert known() == {4: 1}


def test_what_is_in_flight_elsewhere_is_taken_over_unless_it_has_ended_here(tmp_path: Path) -> None:
    def running(index: int, steps: int) -> RunningEpisode:
        return RunningEpisode(finished(index).key, steps)

    with EpisodeTable(tmp_path / "a.sqlite") as first, EpisodeTable(tmp_path / "b.sqlite") as second:
        first.write([finished(0)], running=[running(1, 5), running(2, 3)])
        second.write([finished(1)], running=[running(0, 8), running(2, 6), running(3, 2)])
        first.absorb(second)
        assert sorted(first.running()) == [running(2, 6), running(3, 2)]


def test_a_batch_is_written_whole_or_not_at_all(path: Path) -> None:
    with EpisodeTable(path) as table:
        table.write([finished(0)])
        broken = dataclasses.replace(finished(2), status="lost")  # type: ignore[arg-type]
        with pytest.raises(StoreError):
            table.write([finished(1), broken], [Attempt(finished(1).key, 1, "died", 0)])
        assert rows(path, "SELECT count(*) FROM attempts") == [(0,)]
        # And the table goes on working.
        table.write([finished(3)])
    assert [record.episode_index for record in read(path).values()] == [0, 3]


def test_every_attempt_is_kept_with_its_reason(path: Path) -> None:
    key = finished(1).key
    with EpisodeTable(path) as table:
        table.write([], [Attempt(key, 1, "step raised", 4)])
        table.write([finished(1)], [Attempt(key, 2, "was killed", 5), Attempt(finished(2).key, 1, "hung", 6)])
    assert rows(
        path, "SELECT task_group, task_id, episode_index, number, reason, worker FROM attempts ORDER BY worker"
    ) == [("easy", 3, 1, 1, "step raised", 4), ("easy", 3, 1, 2, "was killed", 5), ("easy", 3, 2, 1, "hung", 6)]


def test_a_killed_writer_loses_nothing_that_it_had_written(path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from proctor.types import Episode, Task\n"
        "from proctor.store.episodes import EpisodeTable\n"
        "from proctor.store.schema import EpisodeRecord\n"
        "table = EpisodeTable(Path(sys.argv[1]))\n"
        "task = Task('easy', 3, 'reach-v3', 'reach', 500)\n"
        "for index in range(5):\n"
        "    table.write([EpisodeRecord.failed(Episode(task, index, 1000 + index), 1, 'x')])\n"
        "table._db.execute('BEGIN IMMEDIATE')\n"
        "table._db.execute('DELETE FROM episodes')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)])
    assert done.returncode == -signal.SIGKILL
    assert sorted(key.episode_index for key in read(path)) == [0, 1, 2, 3, 4]
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]


def test_a_reader_sees_each_batch_as_soon_as_it_is_written(path: Path) -> None:
    with EpisodeTable(path) as table:
        for count in range(1, 4):
            table.write([finished(count)])
            assert rows(path, "SELECT count(*) FROM episodes") == [(count,)]


def test_a_local_file_is_kept_in_wal_mode_and_synced_at_every_commit(path: Path) -> None:
    with EpisodeTable(path) as table:
        assert rows(path, "PRAGMA journal_mode") == [("wal",)]
        assert table._db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL; the connection alone knows


def test_a_network_file_system_gets_a_truncated_journal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def network(path: Path) -> bool:
        return True

    monkeypatch.setattr(episodes_module, "is_network", network)
    with EpisodeTable(path) as table:
        assert table._db.execute("PRAGMA journal_mode").fetchone() == ("truncate",)
        assert table._db.execute("PRAGMA synchronous").fetchone() == (2,)
        table.write([finished()])
    assert read(path) == {finished().key: finished()}


def test_meta_values_are_json_and_survive(path: Path) -> None:
    value = {"a": [1, 2.5, None], "b": {"c": "ä"}}
    with EpisodeTable(path) as table:
        assert table.meta("reproducible") is None
        table.set_meta("reproducible", {"old": 1})
        table.set_meta("reproducible", value)
    with EpisodeTable(path) as table:
        assert table.meta("reproducible") == value


def test_a_new_file_carries_the_schema_version(path: Path) -> None:
    with EpisodeTable(path) as table:
        assert table.meta("schema_version") == SCHEMA_VERSION


def test_another_schema_version_is_refused_with_both_numbers(path: Path) -> None:
    with EpisodeTable(path):
        pass
    change(path, "UPDATE meta SET value = ? WHERE key = 'schema_version'", str(SCHEMA_VERSION + 41))
    with pytest.raises(StoreError, match=f"version {SCHEMA_VERSION + 41}, this Proctor reads {SCHEMA_VERSION}"):
        EpisodeTable(path)


def test_a_file_that_a_killed_process_left_empty_is_begun_anew(path: Path) -> None:
    path.touch()
    with EpisodeTable(path) as table:
        table.write([finished()])
    assert read(path) == {finished().key: finished()}


def test_a_file_that_is_no_database_is_refused_with_its_path(path: Path) -> None:
    path.write_bytes(b"this is somebody's diary, not a database\n" * 100)
    with pytest.raises(StoreError, match=str(path)) as caught:
        EpisodeTable(path)
    assert caught.value.exit_status == EXIT_FAILED
    assert path.read_bytes().startswith(b"this is somebody's diary")


def test_a_directory_that_is_gone_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot open .* for reading and writing") as caught:
        EpisodeTable(tmp_path / "gone" / "run.sqlite")
    assert "\n" not in str(caught.value)


def test_a_disk_that_fills_up_keeps_what_was_written_and_says_so(path: Path) -> None:
    with EpisodeTable(path) as table:
        table.write([finished(0)])
        pages = table._db.execute("PRAGMA page_count").fetchone()[0]
        # SQLite's own limit on the file's size fails just as a full disk does.
        table._db.execute(f"PRAGMA max_page_count={pages}")
        with pytest.raises(StoreError, match=r"full.*Free some space"):
            table.write([finished(index, error="x" * 10_000) for index in range(1, 20)])
        assert set(read(path)) == {finished(0).key}
        table._db.execute("PRAGMA max_page_count=1000000")
        table.write([finished(1)])
    assert set(read(path)) == {finished(0).key, finished(1).key}


# Sessions: wall time over resumes.


def wall_and_startup(path: Path) -> tuple[float, float]:
    with EpisodeTable(path) as table:
        sessions = table.sessions()
    return wall_seconds(sessions), sum(session.startup for session in sessions)


def set_session(path: Path, session: int, started: float, ended: float | None) -> None:
    times = {"started_at": started, "ended_at": ended}
    alter(path.parent, "sessions", lambda row: {**row, **times} if row["id"] == session else row)


def set_ends(path: Path, moments: Sequence[float]) -> None:
    alter(path.parent, "episodes", lambda row: {**row, "ended_at": moments[row["episode_index"]]})


def test_the_wall_time_of_a_run_is_that_of_its_sessions_without_the_pauses(path: Path) -> None:
    with EpisodeTable(path) as table:
        for startup in (0.5, 0.25):
            table.end_session(table.begin_session(workers=2), startup)
    set_session(path, 1, 100.0, 110.0)
    set_session(path, 2, 5000.0, 5004.0)
    assert wall_and_startup(path) == (14.0, 0.75)


def test_a_session_that_was_killed_counts_until_its_last_episode(path: Path) -> None:
    with EpisodeTable(path) as table:
        table.begin_session(workers=2)
        table.end_session(table.begin_session(workers=2), 0.0)
        table.write([finished(index) for index in range(4)])
    set_session(path, 1, 100.0, None)
    set_session(path, 2, 5000.0, 5010.0)
    set_ends(path, [101.0, 106.0, 5002.0, 5003.0])
    assert wall_and_startup(path)[0] == 16.0


def test_a_session_that_was_killed_before_its_first_episode_counts_for_nothing(path: Path) -> None:
    with EpisodeTable(path) as table:
        table.begin_session(workers=2)
    set_session(path, 1, 100.0, None)
    assert wall_and_startup(path) == (0.0, 0.0)


def test_a_run_without_sessions_took_no_time(path: Path) -> None:
    with EpisodeTable(path):
        pass
    assert wall_and_startup(path) == (0.0, 0.0)


def test_sessions_side_by_side_take_the_time_of_both_once(path: Path) -> None:
    with EpisodeTable(path) as table:
        for _ in range(3):
            table.end_session(table.begin_session(workers=2), 0.5)
    set_session(path, 1, 100.0, 110.0)
    set_session(path, 2, 104.0, 120.0)
    set_session(path, 3, 105.0, 106.0)
    assert wall_and_startup(path) == (20.0, 1.5)


# Taking over what another table holds.


def test_taking_over_keeps_what_is_finished_and_mends_errors(path: Path, tmp_path: Path) -> None:
    with EpisodeTable(path) as table, EpisodeTable(tmp_path / "other.sqlite") as other:
        table.write([finished(0), dataclasses.replace(finished(1), status="error", success=None)])
        other.write([dataclasses.replace(finished(index), steps=77) for index in range(3)])
        table.absorb(other)
        assert {record.episode_index: record.steps for record in list(table.records())} == {
            0: finished(0).steps,
            1: 77,
            2: 77,
        }
        other.absorb(table)
        assert {record.steps for record in list(other.records())} == {77}


def test_an_error_does_not_take_the_place_of_a_result(path: Path, tmp_path: Path) -> None:
    with EpisodeTable(path) as table, EpisodeTable(tmp_path / "other.sqlite") as other:
        table.write([finished(0)])
        other.write([dataclasses.replace(finished(0), status="error", success=None)])
        table.absorb(other)
        assert list(table.records()) == [finished(0)]


def test_taking_over_twice_is_taking_over_once(path: Path, tmp_path: Path) -> None:
    with EpisodeTable(path) as table, EpisodeTable(tmp_path / "other.sqlite") as other:
        other.end_session(other.begin_session(workers=2), 0.5)
        other.begin_session(workers=1)
        other.write([finished(0)], [Attempt(finished(0).key, 1, "it fell over", 0)])

        def everything() -> list[Any]:
            return [rows(path, f"SELECT * FROM {name}") for name in ("episodes", "attempts", "sessions")]

        table.absorb(other)
        once = everything()
        table.absorb(other)
        assert everything() == once
        assert [len(found) for found in once] == [1, 1, 2]
        assert once[:2] == [rows(other.path, f"SELECT * FROM {name}") for name in ("episodes", "attempts")]


def test_a_session_that_went_on_is_brought_up_to_date(path: Path, tmp_path: Path) -> None:
    with EpisodeTable(path) as table, EpisodeTable(tmp_path / "other.sqlite") as other:
        session = other.begin_session(workers=2)
        table.absorb(other)
        other.end_session(session, 7.5)
        table.absorb(other)
        assert table.sessions() == other.sessions()
        assert wall_and_startup(path)[1] == 7.5


# Looking at a run.


def test_a_run_can_be_looked_at_while_it_is_written(path: Path) -> None:
    with EpisodeTable(path) as table, EpisodeTable(path, read_only=True) as reader:
        assert list(reader.records()) == []
        table.write([finished(0)])
        assert list(reader.records()) == [finished(0)]
        table.write([finished(1)])
        assert list(reader.records()) == [finished(0), finished(1)]


def test_looking_changes_nothing_and_makes_nothing(path: Path) -> None:
    with pytest.raises(StoreError):
        EpisodeTable(path, read_only=True)
    assert not path.exists()
    with EpisodeTable(path) as table:
        table.write([finished(0)])
    with EpisodeTable(path, read_only=True) as reader:
        with pytest.raises(StoreError, match="readonly"):
            reader.write([finished(1)])
        with pytest.raises(StoreError, match="readonly"):
            reader.set_meta("identity", {})
    assert read(path) == {finished(0).key: finished(0)}


@pytest.mark.parametrize("name", ["a b", "100%41", "what?mode=memory", "a#b", "Läufe", "a;b&c=d"])
def test_a_directory_may_have_any_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name / "run.sqlite"
    path.parent.mkdir()
    with EpisodeTable(path) as table:
        table.write([finished(0)])
    assert path.exists()
    with EpisodeTable(path, read_only=True) as reader:
        assert list(reader.records()) == [finished(0)]
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_relative_path_is_relative_to_the_present_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with EpisodeTable(Path("run.sqlite")) as table:
        table.write([finished(0)])
    assert set(read(tmp_path / "run.sqlite")) == {finished(0).key}


def test_closing_leaves_no_descriptor(path: Path) -> None:
    with EpisodeTable(path) as table:
        table.write([finished()])
    open_files = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            open_files.append(str(entry.readlink()))
        except OSError:
            continue  # the listing's own descriptor
    assert not [target for target in open_files if target.startswith(str(path))]


def test_a_run_in_somebody_elses_directory_can_be_read() -> None:
    # Below /tmp, because the directories that pytest makes are closed to the user that this becomes.
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        with EpisodeTable(place / "run.sqlite") as table:
            table.write([finished(0), finished(1)])
        place.chmod(0o555)
        code = (
            "import os, sys; from pathlib import Path; from proctor.store.episodes import EpisodeTable\n"
            "os.getuid() or os.setuid(65534)\n"
            "with EpisodeTable(Path(sys.argv[1]), read_only=True) as table: print(len(list(table.records())))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(place / "run.sqlite")], capture_output=True, text=True, check=False
        )
        assert done.stdout == "2\n", done.stderr
        assert [path.name for path in place.iterdir()] == ["run.sqlite"]
        place.chmod(0o755)
