"""Run directories that somebody made in order to do harm, each in one way."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from made_runs import make_run

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 9)
)
"""300 bytes or so that are a billion values once every alias is written out."""

SECRET = "nobody but its owner may read this"


def change(run: Path, statement: str, *values: object) -> None:
    """Change a run's table, as anybody can who has SQLite."""
    with closing(sqlite3.connect(run / "run.sqlite")) as database, database:
        database.execute(statement, values)


def _n_episodes(run: Path) -> None:
    change(run, "UPDATE meta SET value = ? WHERE key = 'n_episodes'", str(10**12))


def _endless_view(run: Path) -> None:
    change(run, "ALTER TABLE meta RENAME TO truth")
    change(
        run,
        "CREATE VIEW meta (key, value) AS SELECT key, value FROM truth WHERE key = 'schema_version' UNION ALL "
        "SELECT * FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i > 0) "
        "SELECT 'x', max(i) FROM n)",
    )


def _deep_json(run: Path) -> None:
    change(run, "UPDATE meta SET value = ? WHERE key = 'tasks'", "[" * 1_000_000)


def _huge_json(run: Path) -> None:
    change(run, "UPDATE meta SET value = ? WHERE key = 'tasks'", json.dumps("x" * (40 << 20)))


def _wrong_types(run: Path) -> None:
    change(run, "UPDATE episodes SET steps = 'many', ended_at = 'never'")


def _config(run: Path) -> None:
    (run / "config.yaml").write_text(BOMB)


def _pipe(name: str) -> Callable[[Path], None]:
    def make(run: Path) -> None:
        (run / name).unlink(missing_ok=True)
        os.mkfifo(run / name)

    return make


def _loop(name: str) -> Callable[[Path], None]:
    def make(run: Path) -> None:
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(run / name)

    return make


def _device(name: str) -> Callable[[Path], None]:
    def make(run: Path) -> None:
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to("/dev/zero")

    return make


UNREADABLE: dict[str, Callable[[Path], None]] = {
    "huge number of episodes": _n_episodes,
    "table that is an endless view": _endless_view,
    "deep JSON": _deep_json,
    "huge JSON": _huge_json,
    "values of other types": _wrong_types,
    "YAML bomb": _config,
    "config.yaml is a pipe": _pipe("config.yaml"),
    "run.sqlite is a pipe": _pipe("run.sqlite"),
    "run.sqlite-wal is a pipe": _pipe("run.sqlite-wal"),
    "config.yaml is a device": _device("config.yaml"),
    "config.yaml is a loop of links": _loop("config.yaml"),
    "run.sqlite is a loop of links": _loop("run.sqlite"),
}
"""What cannot be read: by what is wrong with it, how a good run becomes such a one."""

HARMLESS_TO_READ: dict[str, Callable[[Path], None]] = {
    "lock is a pipe": _pipe("lock"),
    "lock is a device": _device("lock"),
    "eval_info.json is a pipe": _pipe("eval_info.json"),
}
"""What is read as if it was not there."""


def make_hostile(path: Path, make: Callable[[Path], None]) -> Path:
    """Write a run, and then do to it what `make` does."""
    run = make_run(path, {"a": [True, False]})
    make(run)
    return run
