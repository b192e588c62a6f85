"""Run directories from elsewhere: damaged, foreign, forged, and full of things that are no files."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fuzz.commands import Runner, run_here, short_lives
from fuzz.documents import damaged, documents
from fuzz.inputs import MARKS, inputs
from fuzz.sandbox import Sandbox
from fuzz.surface import Surface, Trial
from fuzz.values import BENCH, OF_A_RUN, WORDS, make_places
from hostile_runs import HARMLESS_TO_READ, UNREADABLE
from proctor.errors import ProctorError
from proctor.machine.addresses import Hosts
from proctor.store.episodes import EpisodeTable
from proctor.viewer.app import make_app

from fuzz.test_fuzz_viewer import ask_application  # isort: skip

pytestmark = MARKS

_COMMANDS = ("report", "report", "compare", "merge", "view", "card", "eval --resume", "parallel --resume")
_LEAD_OUT = (
    "../beside/secret.mp4", "../../beside/secret.mp4", "{beside}/secret.mp4", "videos/../../../beside/secret.mp4",
    "videos/out.mp4", "up/secret.mp4", "", ".", "videos", "\0", "x" * 5000, "/dev/zero", "pipe.mp4", "a\udcff.mp4",
)  # fmt: skip


class Data(bytes):
    """A whole file, of which only the beginning is shown."""

    def __repr__(self) -> str:
        return f"Data({self[:60]!r}, {len(self)} bytes)"


def _rows() -> st.SearchStrategy[Any]:
    whole = st.sampled_from(
        (None, -1, 0, 1, 2**31, 2**63 - 1, -(2**63), 10**12, 1.5, float("inf"), b"", b"\xff\x00")
    )
    paths = st.sampled_from(_LEAD_OUT[:9])
    texts = st.sampled_from(
        ("", "finished", "error", "x", "a", "[]", "{}", "null", "[" * 5000, "9" * 5000, '{"a": NaN}')
    )
    return st.one_of(whole, texts, paths, WORDS.map(lambda text: text.encode("utf-8", "replace").decode()))


@st.composite
def damages(draw: st.DrawFn, template: Path, configs: st.SearchStrategy[bytes]) -> list[tuple[Any, ...]]:
    """Draw what is done to a good run, as steps that `apply` takes."""
    names = sorted(str(path.relative_to(template)) for path in template.rglob("*") if path.is_file())
    steps: list[tuple[Any, ...]] = []
    for _ in range(draw(st.integers(1, 2))):
        kinds = ("bytes", "bytes", "database", "database", "database", "rows", "delete", "odd", "config", "info",
                 "forged", "forged", "foreign", "hostile")  # fmt: skip
        kind = draw(st.sampled_from(kinds))
        name = draw(st.sampled_from(names))
        if kind == "bytes":
            steps.append((kind, name, Data(damaged(draw, (template / name).read_bytes()))))
        elif kind == "database":  # a few bytes only: most pages stay what they are
            data = bytearray((template / "run.sqlite").read_bytes())
            for _ in range(draw(st.integers(1, 6))):
                data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
            steps.append(("bytes", "run.sqlite", Data(data)))
        elif kind == "rows":
            steps.append((kind, draw(st.integers(0, 50)), draw(_rows()), draw(st.booleans())))
        elif kind == "odd":
            steps.append(
                (kind, name, draw(st.sampled_from(("folder", "pipe", "loop", "zeros", "secret", "dangling"))))
            )
        elif kind == "config":
            steps.append(("bytes", "config.yaml", Data(draw(configs))))
        elif kind == "info":
            steps.append(
                (kind, draw(st.integers(0, 40)), draw(st.sampled_from((None, [], {}, "x", -1, 1e400, [[[]]]))))
            )
        elif kind == "forged":
            field = draw(st.sampled_from([field.name for field in dataclasses.fields(_record_class())]))
            value = draw(st.sampled_from(_LEAD_OUT)) if field == "video_path" else draw(_rows())
            steps.append((kind, field, value))
        elif kind == "foreign":
            steps.append((kind, draw(st.integers(0, 11))))
        elif kind == "hostile":
            steps.append((kind, draw(st.sampled_from(sorted({**UNREADABLE, **HARMLESS_TO_READ})))))
        else:
            steps.append((kind, name))
    return steps


def _record_class() -> Any:
    from proctor.store.schema import EpisodeRecord

    return EpisodeRecord


def apply(run: Path, beside: Path, step: tuple[Any, ...]) -> None:
    """Do to a run what a step says."""
    kind, *rest = step
    if any(path.exists() and not path.is_file() and not path.is_dir() for path in run.rglob("*")):
        return  # an earlier step has put a pipe or a device there, which would be waited for
    with contextlib.suppress(
        OSError, sqlite3.Error, ValueError, KeyError, ProctorError
    ):  # what an earlier step has made impossible
        if kind == "bytes":
            if not (run / rest[0]).is_symlink():
                (run / rest[0]).write_bytes(rest[1])
        elif kind == "delete":
            (run / rest[0]).unlink()
        elif kind == "odd":
            _make_odd(run / rest[0], rest[1], beside)
        elif kind == "rows":
            _change_row(run, *rest)
        elif kind == "info":
            _change_info(run, *rest)
        elif kind == "forged":
            _forge(run, beside, *rest)
        elif kind == "foreign":
            _put_foreign(run, beside, rest[0])
        else:
            {**UNREADABLE, **HARMLESS_TO_READ}[rest[0]](run)


def _make_odd(path: Path, kind: str, beside: Path) -> None:
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        ends = {"loop": path, "zeros": Path("/dev/zero"), "dangling": beside / "nowhere"}
        path.symlink_to(ends.get(kind, beside / f"secret{path.suffix or '.txt'}"))


def _change_row(run: Path, number: int, value: Any, all_rows: bool) -> None:
    with contextlib.closing(sqlite3.connect(run / "run.sqlite")) as database, database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = [
            (table, column[1])
            for table in sorted(tables)
            for column in database.execute(f"PRAGMA table_info({table})")
        ]
        table, column = columns[number % len(columns)]
        where = "" if all_rows else f"WHERE rowid = (SELECT min(rowid) FROM {table})"
        database.execute(f"UPDATE {table} SET {column} = ? {where}", (value,))


def _change_info(run: Path, number: int, value: Any) -> None:
    info = json.loads((run / "eval_info.json").read_text())
    places: list[tuple[Any, Any]] = []

    def walk(tree: Any) -> None:
        for key, inner in tree.items() if isinstance(tree, dict) else enumerate(tree):
            places.append((tree, key))
            if isinstance(inner, dict | list):
                walk(inner)

    walk(info)
    tree, key = places[number % len(places)]
    tree[key] = value
    (run / "eval_info.json").write_text(json.dumps(info))


def _forge(run: Path, beside: Path, field: str, value: Any) -> None:
    """Store a record that Proctor would not write, with checksums as it writes them."""
    if isinstance(value, str):
        value = value.replace("{beside}", str(beside))
    with EpisodeTable(run / "run.sqlite") as table:
        records = [dataclasses.replace(record, **{field: value}) for record in table.records()]
        with contextlib.suppress(Exception):  # the store may refuse; then the run is as it was
            table.write(records)
    if field == "video_path":
        with contextlib.suppress(OSError):
            (run / "up").symlink_to(beside)
            (run / "videos").mkdir(exist_ok=True)
            (run / "videos" / "out.mp4").symlink_to(beside / "secret.mp4")
            os.mkfifo(run / "pipe.mp4")


def _put_foreign(run: Path, beside: Path, number: int) -> None:
    choices: list[Callable[[], Any]] = [
        lambda: _write(run / "run.sqlite-wal", b"\x37\x7f\x06\x82" + bytes(4096)),
        lambda: _write(run / "run.sqlite-journal", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(600)),
        lambda: _write(run / "lock", b"\xff" * 5000),
        lambda: _replace(run / "logs", beside),
        lambda: _replace(run / "videos", beside),
        lambda: _replace(run / "report.html", beside / "secret.html"),
        lambda: _replace(run / "eval_info.json", beside / "secret.json"),
        lambda: _replace(run / "run.sqlite-wal", beside / "secret.sqlite"),
        lambda: shutil.copytree(run, run / "shard_0_of_2"),
        lambda: (run / "shard_0_of_2").symlink_to(beside),
        lambda: [(run / f"file{index}").write_bytes(b"") for index in range(500)],
        lambda: _write(run / "run.sqlite", (run / "run.sqlite").read_bytes()[:100]),
    ]
    choices[number]()


def _write(path: Path, data: bytes) -> None:
    if path.is_symlink():
        path.unlink()  # an earlier step's, which leads out
    path.write_bytes(data)


def _replace(path: Path, target: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _make_template(sandbox: Sandbox) -> Path:
    """Evaluate once, in this process, with a video: a run as Proctor writes it."""
    template = sandbox.kept / "template"
    flags = [
        f"--policy.path={BENCH}:Still", f"--env.type={BENCH}:OneStep", "--env.task=a,b", "--eval.n_episodes=2",
        "--eval.use_async_envs=false", "--eval.max_episodes_rendered=1", f"--output_dir={template}",
        "--display=none",
    ]  # fmt: skip
    trial = Trial()
    told = run_here(trial, ["eval", *flags])
    assert trial.status == "0", told
    return template


def _snapshot(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if _is_plain(path)}


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def test_no_run_directory_ends_in_a_traceback(sandbox: Sandbox, surface: Callable[..., Surface]) -> None:
    places = make_places(sandbox)
    with short_lives():
        template = _make_template(sandbox)
        runs, runner, number = surface("runs"), Runner(), 0

        @inputs(2000)
        @given(
            st.sampled_from(_COMMANDS),
            damages(template, documents(places, OF_A_RUN)),
        )
        def each(command: str, steps: list[tuple[Any, ...]]) -> None:
            nonlocal number
            number += 1  # a page that nobody waits for any more may still read the run before
            run = sandbox.made / f"runs{number}" / "run"
            shutil.copytree(template, run, symlinks=True)
            for step in steps:
                apply(run, sandbox.beside, step)
            with runs.trial((command, steps)) as trial:
                _use(trial, command, run, template, runner)

        runs.drive(each)


def _use(trial: Trial, command: str, run: Path, template: Path, runner: Runner) -> None:
    before = _snapshot(run) if command in ("compare", "view") else {}
    if command == "report":
        runner(trial, ["report", str(run), "--embed-videos"])
        if (run / "report.html").is_file() and not (run / "report.html").is_symlink():
            trial.heard((run / "report.html").read_bytes())
    elif command == "compare":
        runner(trial, ["compare", str(template), str(run)])
    elif command == "card":
        runner(trial, ["card", str(run), f"--to={run}", "--benchmark=a/b", "--task-id=c"])
    elif command == "merge":
        runner(trial, ["merge", str(template), str(run), "--output=merged"])
    elif command == "view":
        app = make_app(run.parent, Hosts("127.0.0.1", 8642))
        episode = "/episode/run/?group=a&task=0&episode=0"
        for page in ("/", "/run/run/", "/report/run/", "/live/run/", episode):
            ask_application(trial, app, "GET", page, [("Host", "127.0.0.1:8642")])
    else:
        name = command.partition(" ")[0]
        bounds = ["--eval.n_episodes=2", "--eval.use_async_envs=false", "--display=plain"]
        if name == "parallel":
            bounds = [f"--env.type={BENCH}:Reached"]
        runner(trial, [name, f"--resume={run}", *bounds])
    after = _snapshot(run)
    if "run.sqlite-wal" in before and "run.sqlite-shm" not in before:
        after.pop("run.sqlite-shm", None)  # SQLite makes the index of a log that lies there without one
    if before and before != after:
        trial.fault(f"{command} changes the run", str(before.keys() ^ after.keys()))
