"""A run with values that are possible and that nobody means: every reader shows them, or says that it does not."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path
from typing import Any

import pytest

from made_runs import make_run
from proctor.cli.main import run
from proctor.store.episodes import EpisodeTable
from viewers import viewer

HUGE = 1e308
ABSURD: dict[str, list[Any]] = {
    "sum_reward": [HUGE, -HUGE, 5e-324],
    "max_reward": [HUGE, -HUGE],
    "rewards": [struct.pack("<d", HUGE) * 10, b"x"],
    "steps": [2**62, -(2**62), 0],
    "seconds": [HUGE, -HUGE],
    "started_at": [HUGE, -HUGE],
    "attempts": [2**62, -1],
    "asks": [-(2**62)],
    "metrics": [{"a": HUGE}, {"a": "x"}, {"a": None}, {"a": [1]}, {"a": 10**400}],
    "layout": [{"a": HUGE, "b": -HUGE}, {"a": "x"}, {"a": float("nan"), "b": 10**400}],
    "timing": [{"build": HUGE}, {"draw": -HUGE}, {"wait": "x"}, {"simulate": None}, {"reset": []}],
    "seed": [-1, 2**62],
    "episode_index": [-1, 2**62],
    "task_id": [-1, 2**62],
    "worker": ["\x1b[2J", "x" * 100_000],
    "task": ["\x1b[2J<script>"],
}
SESSIONS: dict[str, list[Any]] = {
    "started_at": [HUGE, -HUGE],
    "ended_at": [HUGE],
    "startup": [HUGE, -HUGE],
    "workers": [2**62],
}
TABLES = {"episodes": ABSURD, "sessions": SESSIONS}
OUTCOMES = {"a": [True, False, True], "b": [True, True, False]}


def _rewrite(path: Path, table_name: str, values: dict[str, Any]) -> None:
    """Change every row of a table, checksums and all, as whoever wants to can."""
    with EpisodeTable(path / "run.sqlite") as table:
        tables = table._tables
        rows = tables.rows(table_name)
        with tables.transaction():
            for row in rows:
                tables.delete(table_name, row)
        if table_name == "episodes":
            first = {"metrics": {}, "timing": {}, "rewards": b"", "success": True}
            records = [_record(row, first) for row in rows]
            table.write([dataclasses.replace(record, **values) for record in records])
            return
        with tables.transaction():
            for row in rows:
                tables.insert(table_name, {**row, **values})


def _record(row: dict[str, Any], first: dict[str, Any]) -> Any:
    from proctor.store.schema import EpisodeRecord

    names = {field.name for field in dataclasses.fields(EpisodeRecord)}
    return EpisodeRecord(**{name: value for name, value in {**row, **first}.items() if name in names})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs, each of them absurd in one way."""
    root = tmp_path_factory.mktemp("absurd")
    make_run(root / "good", OUTCOMES)
    for table, fields in TABLES.items():
        for name, values in fields.items():
            for number, value in enumerate(values):
                path = make_run(root / f"{table}-{name}-{number}", OUTCOMES)
                if table == "sessions":
                    with EpisodeTable(path / "run.sqlite") as opened:
                        opened.begin_session(2)
                _rewrite(path, table, {name: value})
    return root


@pytest.mark.parametrize("name", [f"{table}-{name}" for table, fields in TABLES.items() for name in fields])
def test_commands_show_it_or_say_that_they_do_not(
    runs: Path, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    good = str(runs / "good")
    for path in sorted(runs.glob(f"{name}-*")):
        for command in (
            ["report", str(path), f"--output={tmp_path}/r.html"],
            ["show", str(path)],
            ["show", str(path), "--json"],
            ["show", str(path), "--csv=episodes"],
            ["show", str(path), "--csv=rates", f"--junit={tmp_path}/j.xml"],
            ["compare", good, str(path)],
            ["compare", str(path), good, "--json"],
            ["compare", good, str(path), "--markdown"],
            ["merge", str(path), f"--output_dir={tmp_path / path.name}"],
        ):
            status, told = run(command), capsys.readouterr()
            assert "unforeseen" not in told.err, (command, told.err)
            assert status in (0, 2, 3) or (command[0] in ("merge", "show") and status == 1), (command, told.err)
            assert "\x1b" not in told.out + told.err
            assert "Infinity" not in told.out
            assert "NaN" not in told.out


def test_the_viewer_shows_all_of_them(runs: Path) -> None:
    with viewer(str(runs)) as view:
        status, _, page = view.get("/")
        assert status == 200
        for path in runs.iterdir():
            assert path.name.encode() in page
            assert view.get(f"/run/{path.name}/")[0] in (200, 409), path.name
        assert view.process.poll() is None
