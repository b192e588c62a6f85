"""`proctor report`, and the report that every run writes at its end."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from made_up_run import MadeUp, make_run

from harness import flags, run_cli, run_tiny, tiny_tree
from proctor.cli.main import run
from proctor.errors import EXIT_OK, EXIT_USAGE, StoreError
from proctor.report import summary
from proctor.report.page import page


def test_a_run_writes_its_report_and_says_where(tmp_path: Path) -> None:
    done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", task="a", n_episodes=2, display="plain")))
    assert done.returncode == EXIT_OK
    report = tmp_path / "run" / "report.html"
    assert f"report:  {report}" in done.stdout
    assert "2 of 2" in report.read_text() or "1 of 2" in report.read_text() or "0 of 2" in report.read_text()
    assert sorted(file.name for file in (tmp_path / "run").iterdir() if file.name.startswith("run")) == [
        "run.sqlite"
    ]


def test_a_program_is_told_where_the_report_is(tmp_path: Path) -> None:
    done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", task="a", n_episodes=1, display="json")))
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["event"] == "result"
    assert last["report"] == str(tmp_path / "run" / "report.html")


def test_a_shard_has_no_report_and_the_merged_run_has_one(tmp_path: Path) -> None:
    for shard in (0, 1):
        shares = {"shard_id": shard, "num_shards": 2}
        done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", task="a", n_episodes=2, eval=shares)))
        assert done.returncode == EXIT_OK
    assert not list(tmp_path.glob("**/report.html"))
    done = run_cli("merge", str(tmp_path / "run"))
    assert f"report:  {tmp_path / 'run' / 'report.html'}" in done.stdout
    text = (tmp_path / "run" / "report.html").read_text()
    assert "shard 0/0" in text
    assert "shard 1/0" in text


@pytest.mark.parametrize("problem", [StoreError("the disk is\nfull"), RuntimeError("a mistake")])
def test_a_report_that_cannot_be_written_never_fails_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    def refuse(*_: Any) -> Path:
        raise problem

    monkeypatch.setattr(page, "write_report", refuse)
    written = summary.write_run_report(run_tiny(tmp_path / "run", task="a", n_episodes=1))
    assert written.path is None
    assert written.problem is not None
    assert written.problem.startswith("no report was written: ")
    assert "\n" not in written.problem


def test_without_jinja2_a_run_ends_as_it_would(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "jinja2.py").write_text("raise ImportError('no jinja2 here')\n")
    tree = tiny_tree(tmp_path / "run", task="a", n_episodes=1, display="plain")
    done = run_cli("eval", *flags(tree), extra_env={"PYTHONPATH": f"{hidden}:{':'.join(sys.path)}"})
    assert done.returncode == EXIT_OK
    assert "no report was written: no jinja2 here" in done.stdout


def test_the_command_writes_one_file_about_several_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [str(make_run(tmp_path / name, MadeUp(n_episodes=1))) for name in ("a", "b")]
    assert run(["report", *runs, f"--output={tmp_path / 'both.html'}"]) == EXIT_OK
    assert capsys.readouterr().out == f"report: {tmp_path / 'both.html'}\n"
    monkeypatch.chdir(tmp_path)
    assert run(["report", *runs]) == EXIT_OK
    assert (tmp_path / "report.html").stat().st_size == (tmp_path / "both.html").stat().st_size
    assert run(["report", runs[0]]) == EXIT_OK
    assert (tmp_path / "a" / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name a run directory"),
        (["missing"], "there is no such run directory"),
        (["."], "holds no run"),
        ([".", "--ouput=x"], "Did you mean '--output'"),
        ([".", "--output"], "--output needs a value"),
        ([".", "--output=."], "is a directory"),
        ([".", "--output=no/where.html"], "there is no directory"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["report", *arguments]) == EXIT_USAGE
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_help_names_the_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "--help"]) == EXIT_OK
    assert "--embed-videos" in capsys.readouterr().out
