"""Whatever happens to the bytes of `run.sqlite`: the same numbers as before, or one line and a status above 0."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import proctor
from harness import SUPPORT, flags, run_cli, tiny_tree
from proctor.cli.main import run as command
from proctor.errors import ProctorError
from proctor.machine.addresses import Hosts
from proctor.viewer.app import make_app
from tiny_policies import Thoughtful

PAGE = 4096

Damage = Callable[[bytes], bytes]


class Truth(dict[str, Any]):
    """What each command says of the whole run."""

    def __repr__(self) -> str:
        return "truth"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run, made by the command itself."""
    directory = tmp_path_factory.mktemp("whole") / "run"
    done = run_cli("eval", *flags(tiny_tree(directory, task="a,b", n_episodes=3)))
    assert done.returncode == 0, done.stderr
    return directory


def copies(run: Path, place: Path, damage: Damage) -> Path:
    """Return a folder with a copy of the run whose file is damaged, and one that is not."""
    shutil.rmtree(place, ignore_errors=True)
    for name in ("run", "sound"):
        shutil.copytree(run, place / name)
    (place / "run" / "report.html").unlink(missing_ok=True)
    (place / "run" / "eval_info.json").unlink()
    file = place / "run" / "run.sqlite"
    file.write_bytes(damage(file.read_bytes()))
    return place


# What a user may do with a run, and what he is told.


def commands(place: Path) -> dict[str, list[str]]:
    run, sound = str(place / "run"), str(place / "sound")
    return {
        "report": ["report", run],
        "compare": ["compare", sound, run, "--json"],
        "compare with": ["compare", run, sound, "--json"],
        "merge": ["merge", run, sound, f"--output_dir={place / 'all'}"],
        "resume": ["eval", f"--resume={run}", "--display=none"],
    }


def numbers(name: str, place: Path, out: str) -> Any:
    """Return what a command that succeeded has to say."""
    match name:
        case "report":
            page = (place / "run" / "report.html").read_text()
            return re.sub(r"Written by Proctor [^<]*?\. ", "", page.replace(str(place), ""))
        case "compare" | "compare with":
            return json.loads(out.replace(str(place), ""))
        case "merge" | "resume":
            found = json.loads((place / ("all" if name == "merge" else "run") / "eval_info.json").read_text())
            overall = {key: value for key, value in found["overall"].items() if not key.startswith("eval_")}
            return found["per_task"], overall, found["per_episode"], found["intervals"], found["run"]
    raise AssertionError(name)


@pytest.fixture(scope="module")
def truth(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Truth:
    """What every command says of the whole run."""
    place = copies(run, tmp_path_factory.mktemp("truth") / "place", lambda content: content)
    found = Truth()
    for name, words in commands(place).items():
        done = run_cli(*words)
        assert done.returncode == 0, done.stderr
        found[name] = numbers(name, place, done.stdout)
    return found


def check(name: str, place: Path, status: int, out: str, err: str, truth: Truth) -> bool:
    """Whether a command was refused, in one line; else it has said the same as of the whole run."""
    if status == 0:
        assert numbers(name, place, out) == truth[name]
        return False
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1, err
    assert str(place / "run" / "run.sqlite") in err
    return True


def damages(run: Path) -> Iterator[tuple[str, Damage]]:
    """Return damages that matter, made by what anyone can see in the result."""
    result = json.loads((run / "eval_info.json").read_text())
    digest = result["per_episode"][4]["digest"].encode()
    yield "a digest", lambda content: content.replace(digest, digest[:-1] + bytes([digest[-1] ^ 1]))
    yield "a task's name", lambda content: content.replace(b'"name": "b"', b'"name": "c"')
    yield "the number of episodes", lambda content: content.replace(b"n_episodes3", b"n_episodes2")
    yield "the end of the file", lambda content: content[: len(content) - PAGE]
    page = (run / "run.sqlite").read_bytes().index(digest) // PAGE * PAGE
    yield "a page of zeros", lambda content: content[:page] + bytes(PAGE) + content[page + PAGE :]


def test_every_command_refuses_a_damaged_run_in_one_line(run: Path, truth: Truth, tmp_path: Path) -> None:
    for number, (what, damage) in enumerate(damages(run)):
        content = (run / "run.sqlite").read_bytes()
        assert damage(content) != content, what
        place = copies(run, tmp_path / str(number), damage)
        for name in ("report", "merge", "resume"):
            words = commands(place)[name]
            done = run_cli(*words) if number == 0 else in_this_process(*words)
            assert check(name, place, done.returncode, done.stdout, done.stderr, truth), (what, name)


def in_this_process(*words: str) -> subprocess.CompletedProcess[str]:
    """Do what a command does, without the second that a process takes to start."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = command(words)
    return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())


@settings(
    max_examples=60,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a byte is as small as a damage gets
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    place=st.floats(0, 1, exclude_max=True),
    flip=st.integers(1, 255),
    head=st.booleans(),
    name=st.sampled_from(["report", "compare", "compare with", "merge"]),
)
def test_one_changed_byte_gives_the_same_numbers_or_none(
    run: Path, truth: Truth, tmp_path: Path, place: float, flip: int, head: bool, name: str
) -> None:
    def damage(content: bytes) -> bytes:
        where = int(place * len(content))
        if head:  # the beginning of a page says how to read the rest of it
            where = where // PAGE * PAGE + where % 120
        return content[:where] + bytes([content[where] ^ flip]) + content[where + 1 :]

    folder = copies(run, tmp_path / "place", damage)
    done = in_this_process(*commands(folder)[name])
    check(name, folder, done.returncode, done.stdout, done.stderr, truth)


def test_the_viewer_lists_a_damaged_run_as_unreadable(run: Path, tmp_path: Path) -> None:
    for number, (what, damage) in enumerate(damages(run)):
        place = copies(run, tmp_path / str(number), damage)
        client = TestClient(make_app(place, Hosts("127.0.0.1", 8642)), "http://127.0.0.1:8642")
        told = {name: client.get(f"/live/{name}/").json() for name in ("run", "sound")}
        assert told["sound"]["state"] == "complete"
        assert told["run"]["state"] == "unreadable", what


def test_an_evaluation_from_python_does_not_go_on_with_a_damaged_run(tmp_path: Path) -> None:
    def evaluate() -> proctor.EvalResult:
        return proctor.evaluate(
            Thoughtful(),
            benchmark=f"{SUPPORT / 'tiny.py'}:Tiny",
            task="a",
            n_episodes=2,
            workers=1,
            output_dir=tmp_path / "run",
            display="none",
        )

    before = evaluate()
    file = tmp_path / "run" / "run.sqlite"
    digest = str(next(iter(before)).digest).encode()
    file.write_bytes(file.read_bytes().replace(digest, digest[::-1]))
    with pytest.raises(ProctorError, match=r"run\.sqlite is damaged: the row of a episode 0 "):
        evaluate()
