"""`proctor show`: a stored run again, for people and for programs, and what is asked of it."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness import flags, run_cli, tiny_tree
from made_runs import make_run
from proctor.cli.main import run
from proctor.eval_info import eval_info
from proctor.report.tables import RATE_COLUMNS
from proctor.report.tables_csv import EPISODE_COLUMNS
from proctor.results import ScoredRun

Shown = pytest.CaptureFixture[str]


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Eight of ten succeed, over two tasks."""
    return make_run(tmp_path / "mixed", {"a": [True] * 5, "b": [True, True, True, False, False]})


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Eight of ten succeed, one fails and one could not be run."""
    return make_run(tmp_path / "broken", {"a": [True] * 5, "b": [True, True, True, False, None]})


def test_the_table_of_a_run_is_shown_again(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "run", display="plain", tags="x,y", description="why", notes="one\ntwo")
    done = run_cli("eval", *flags(tree))
    shown = run_cli("show", str(tmp_path / "run"))
    assert shown.returncode == 0, shown.stderr
    rows = [line for line in done.stdout.splitlines() if line[:1] in "┏┃┡│├└"]
    assert rows == [line for line in shown.stdout.splitlines() if line[:1] in "┏┃┡│├└"]
    for words in ("tags:        x, y", "description: why", "notes:       two", "every planned episode has ended"):
        assert words in shown.stdout
    for name in ("eval_info.json", "report.html", "logs"):
        assert str(tmp_path / "run" / name) in shown.stdout


def test_a_bundle_is_shown_as_its_run(mixed: Path, tmp_path: Path, capsys: Shown) -> None:
    assert run(["bundle", str(mixed), f"--output={tmp_path / 'm.proctor'}"]) == 0
    capsys.readouterr()
    assert run(["show", str(mixed), "--csv=rates"]) == 0
    of_run = capsys.readouterr().out
    assert run(["show", str(tmp_path / "m.proctor"), "--csv=rates"]) == 0
    assert capsys.readouterr().out == of_run
    assert run(["show", str(tmp_path / "m.proctor")]) == 0
    assert "results:" not in capsys.readouterr().out


def test_a_run_that_goes_on_says_how_much_is_left(tmp_path: Path, capsys: Shown) -> None:
    path = make_run(tmp_path / "run", {"a": [True] * 4}, missing=[("a", 3)])
    assert run(["show", str(path)]) == 0
    assert "not yet: 1 of 4 episodes to go" in capsys.readouterr().out


def test_csv_is_rfc_4180_with_every_episode_and_rate(broken: Path, capsys: Shown) -> None:
    assert run(["show", str(broken), "--csv=episodes"]) == 0
    text = capsys.readouterr().out
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert text.split("\r\n")[0] == ",".join(EPISODE_COLUMNS)
    assert [row["success"] for row in rows] == ["true"] * 6 + ["true", "false", "true", ""]
    assert [row["error"] for row in rows if row["status"] == "error"] == ["it broke"]
    assert run(["show", str(broken), "--csv=rates"]) == 0
    text = capsys.readouterr().out
    rates = list(csv.DictReader(io.StringIO(text, newline="")))
    assert text.split("\r\n")[0] == ",".join(RATE_COLUMNS)
    (whole,) = (row for row in rates if row["kind"] == "all")
    assert (whole["successes"], whole["episodes"], whole["errors"]) == ("8", "9", "1")
    assert float(whole["success_rate_if_errors_failed"]) == 0.8
    assert [row["name"] for row in rates if row["kind"] == "task"] == ["a", "b"]


def test_quotes_and_line_breaks_in_csv_come_back(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", {'say "hi", twice': [True]})
    command = [sys.executable, "-m", "proctor", "show", str(path), "--csv=episodes"]
    text = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    assert text.count("\r\n") == text.count("\n") == 2
    assert '"say ""hi"", twice"' in text
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row["task"] == 'say "hi", twice'


def test_json_is_eval_info(mixed: Path, capsys: Shown) -> None:
    assert run(["show", str(mixed), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(eval_info(ScoredRun.open(mixed))))


@pytest.mark.parametrize(
    ("asked", "status", "words"),
    [
        (["--min_success=0.8"], 0, "min_success passed: the rate must reach 80 %; success 80.0 % (8/10"),
        (["--min_success=0.81"], 4, "min_success failed: the rate must reach 81 %"),
        (["--min_success=0.8", "--min_success_by=lower"], 4, "failed: the lower end of the interval must reach"),
        (["--min_success=0.4", "--min_success_by=lower"], 0, "passed: the lower end"),
    ],
)
def test_a_threshold_has_a_status_of_its_own_and_one_line(
    mixed: Path, capsys: Shown, asked: list[str], status: int, words: str
) -> None:
    assert run(["show", str(mixed), *asked]) == status
    out, err = capsys.readouterr()
    line = out.splitlines()[-1] if status == 0 else err.strip()
    assert words in line
    assert err == ("" if status == 0 else f"{line}\n")


def test_errors_decide_only_where_they_cannot_matter(broken: Path, capsys: Shown) -> None:
    for least, status, decision in ((0.8, 0, "passed"), (0.85, 3, "not decided"), (0.95, 4, "failed")):
        assert run(["show", str(broken), f"--min_success={least}"]) == status
        out, err = capsys.readouterr()
        assert f"min_success {decision}: " in out + err
        assert "with 1 error as failures 80.0 %" in out + err


def test_a_run_that_is_not_complete_never_passes(tmp_path: Path, capsys: Shown) -> None:
    path = make_run(tmp_path / "run", {"a": [True] * 100}, missing=[("a", 99)])
    assert run(["show", str(path), "--min_success=0.1"]) == 3
    assert capsys.readouterr().err == "min_success not decided: 1 of 100 episodes have not ended\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name one run directory or bundle"),
        (["RUN", "RUN"], "name one run directory or bundle"),
        (["RUN", "--csv=episode"], "Did you mean 'episodes'?"),
        (["RUN", "--csv=rates", "--json"], "choose one"),
        (["RUN", "--min_success=80"], "more than 0 and at most 1"),
        (["RUN", "--min_success_by=lower"], "give that too"),
        (["RUN", "--min_success=0.5", "--min_success_by=low"], "must be rate or lower"),
        (["RUN", "--junit=."], "--junit=. is a directory"),
    ],
)
def test_mistakes_are_told_in_a_line(mixed: Path, capsys: Shown, arguments: list[str], words: str) -> None:
    assert run(["show", *(str(mixed) if word == "RUN" else word for word in arguments)]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert words in err
