"""The outermost net: one line, a status, and a file with everything else."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from proctor.cli import main
from proctor.cli.unforeseen import say
from proctor.errors import PolicyError


class Odd(BaseException):
    """Nothing that anybody foresees."""


def deep() -> None:
    deep()


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException | None) -> None:
    """Make a command raise."""

    def command(arguments: list[str]) -> int:
        if error is None:
            deep()
        raise error  # type: ignore[misc]

    monkeypatch.setattr(main, "load_object", lambda path: command)


class Mute(Exception):
    """An error that cannot be told."""

    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            ZeroDivisionError("division\nby zero"),
            "unforeseen ZeroDivisionError: division by zero. Please report it.",
        ),
        (Odd(), "unforeseen Odd. Please report it."),
        (None, "unforeseen RecursionError: maximum recursion depth exceeded. Please report it."),
        (MemoryError(), "there is no memory left."),
        (OSError(24, "Too many open files"), "too many files are open at once. Raise the limit"),
        (SystemExit(7), "called sys.exit(7)"),
        (GeneratorExit(), "unforeseen GeneratorExit"),
        (Mute(), "unforeseen Mute: (its message cannot be shown). Please report it."),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_a_command_raises_is_one_line_and_a_file(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    error: BaseException | None,
    words: str,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    failing(monkeypatch, error)
    assert main.run(["list", "--a b"]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert words in told
    (file,) = tmp_path.glob("proctor-*.txt")
    assert f"The traceback is in {file}" in told
    story = file.read_text()
    assert "command: proctor list '--a b'" in story
    assert "Traceback (most recent call last):" in story
    assert re.search(r"^packages: .*numpy [\d.]+", story, re.MULTILINE)
    assert file.stat().st_mode & 0o077 == 0


def test_where_no_file_can_be_written_the_traceback_follows_the_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    failing(monkeypatch, ZeroDivisionError("oh"))
    assert main.run(["list"]) == 1
    first, *rest = capsys.readouterr().err.splitlines()
    assert first == "proctor: unforeseen ZeroDivisionError: oh. Please report it. The traceback follows."
    assert rest[-1] == "ZeroDivisionError: oh"


def test_an_error_that_was_foreseen_needs_no_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    failing(monkeypatch, PolicyError("the policy is tired"))
    assert main.run(["list"]) == 1
    assert capsys.readouterr().err == "proctor: the policy is tired\n"
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_is_told_as_one_whatever_it_has_become(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(monkeypatch, ImportError("half of numpy"))
    assert main.run(["list"], lambda: True) == 130
    failing(monkeypatch, KeyboardInterrupt())
    assert main.run(["list"]) == 130
    assert capsys.readouterr().err == "proctor: interrupted\nproctor: interrupted\n"


def test_a_message_that_quotes_a_stranger_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    say("no task '\x1b[2Jwide\x07' \udce9 – ok")
    say("x" * 20_000)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "proctor: no task '\\x1b[2Jwide\\x07' \\udce9 – ok"
    assert len(second) < 9_000


def test_the_place_of_a_foreign_exit_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    source = tmp_path / "theirs.py"
    source.write_text("import sys\ndef command(arguments):\n    sys.exit('enough')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import theirs  # type: ignore[import-not-found]

    monkeypatch.setattr(main, "load_object", lambda path: theirs.command)
    assert main.run(["list"]) == 1
    assert f"{source}, line 3, in command called sys.exit(enough)" in capsys.readouterr().err
    del sys.modules["theirs"]
