"""`proctor compare` as a user types it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from harness import run_cli
from made_runs import make_run
from proctor.cli.main import run
from proctor.comparison.compare import compare_many
from proctor.comparison.result import as_document
from proctor.report.comparison import as_markdown, print_comparisons

TASKS = ["button-press-topdown-wall-v3", "reach-v3", "push-v3"]


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    a = make_run(tmp_path / "a", {task: [True] * 3 + [False] * 17 for task in TASKS}, videos=True)
    b = make_run(tmp_path / "b", {task: [True] * 15 + [False] * 5 for task in TASKS}, videos=True)
    c = make_run(
        tmp_path / "c",
        {task: [False] * 2 + [True] * 2 + [False] * 16 for task in TASKS},
        identity={"versions": {"mujoco": "3.8.1"}},
    )
    return [a, b, c]


def test_the_verdict_does_not_change_the_exit_status(runs: list[Path]) -> None:
    done = run_cli("compare", str(runs[0]), str(runs[1]))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "B is better than A: +60.0 points" in done.stdout
    assert "60 shared episodes" in done.stdout
    assert "Only B succeeded, A did not (36):" in done.stdout
    assert str(runs[1] / "videos/reach-v3_0/eval_episode_3.mp4") in done.stdout or "and 28 more" in done.stdout


def test_mistakes_are_told_in_a_line(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = str(runs[0]), str(runs[1])
    for arguments, text in (
        ([a], "name two runs"),
        ([a, str(tmp_path / "nowhere")], "no such run directory"),
        ([a, str(tmp_path)], "holds no run"),
        ([a, b, "--jsn"], "Did you mean '--json'"),
        ([a, b, "--alpha=much"], "between 0 and 1"),
        ([a, b, "--alpha"], "needs a value"),
        ([a, b, "--tasks=reach"], "Did you mean 'reach-v3'"),
        ([a, b, "--json", "--markdown"], "choose one"),
    ):
        assert run(["compare", *arguments]) == 2, arguments
        shown = capsys.readouterr()
        assert text in shown.err, arguments
        assert len(shown.err.strip().splitlines()) == 1
        assert shown.out == ""


def test_json_has_everything(runs: list[Path]) -> None:
    done = run_cli("compare", *map(str, runs), "--json", "--alpha=0.1")
    document = json.loads(done.stdout)
    assert document == as_document(compare_many(runs, alpha=0.1))
    assert [run["path"] for run in document["runs"]] == [str(run) for run in runs]
    second, third = document["comparisons"]
    assert (second["first"], second["second"], third["first"], third["second"]) == (0, 1, 0, 2)
    assert second["test"] == "mcnemar"
    assert second["verdict"] == "better"
    assert len(second["disagreements"]) == 36
    assert second["disagreements"][0]["second_video"].endswith("eval_episode_3.mp4")
    assert third["disagreements"][0]["second_video"] is None
    assert third["circumstances"] == [{"name": "versions.mujoco", "first": "'3.3.0'", "second": "'3.8.1'"}]
    overall = second["rows"][-1]
    assert overall["pairs"] == {"both": 9, "first": 0, "second": 36, "neither": 15}
    assert overall["difference"]["low"] <= overall["difference"]["value"] <= overall["difference"]["high"]
    assert document["alpha"] == 0.1


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_it_fits_into_narrow_terminals(runs: list[Path], width: int) -> None:
    console = Console(width=width, file=io.StringIO(), highlight=False)
    print_comparisons(console, compare_many(runs, all_pairs=True))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert all(len(line) <= width for line in text.splitlines() if "mp4" not in line)
    assert "cannot tell" in text
    assert "A and C differ in more than the policy" in " ".join(text.split())
    assert ("95 % interval" in text) == (width >= 72)


def test_a_comparison_that_cannot_tell_names_the_flag_that_would(runs: list[Path]) -> None:
    done = run_cli("compare", str(runs[0]), str(runs[2]), "--tasks=reach-v3")
    assert "Cannot tell whether B is better than A: -5.0 points" in done.stdout
    assert "--eval.n_episodes=" in done.stdout
    assert "versions.mujoco: A has '3.3.0', B has '3.8.1'" in done.stdout


def test_markdown_is_whole_tables(runs: list[Path]) -> None:
    text = as_markdown(compare_many(runs))
    assert run_cli("compare", *map(str, runs), "--markdown").stdout == text
    assert "**B is better than A: +60.0 points" in text
    assert "| **all** | 60 | 15.0 | 75.0 | +60.0 |" in text
    assert text.count("<details>") == text.count("</details>") == 2
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1


@pytest.mark.parametrize(
    ("first", "second", "asked", "status", "words"),
    [
        (1, 0, "worse", 5, "fail-if=worse failed: "),
        (0, 1, "worse", 0, "fail-if=worse passed: "),
        (0, 1, "not-better", 0, "fail-if=not-better passed: "),
        (0, 2, "worse", 0, "cannot tell"),
        (0, 2, "not-better", 5, "fail-if=not-better failed: "),
    ],
)
def test_fail_if_goes_by_the_verdict_and_says_why_in_a_line(
    runs: list[Path],
    capsys: pytest.CaptureFixture[str],
    first: int,
    second: int,
    asked: str,
    status: int,
    words: str,
) -> None:
    assert run(["compare", str(runs[first]), str(runs[second]), f"--fail-if={asked}"]) == status
    err = capsys.readouterr().err
    assert words in err
    assert len(err.splitlines()) == 1


def test_fail_if_passes_no_run_that_is_not_complete(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    better = {task: [True] * 15 + [False] * 5 for task in TASKS}
    part = make_run(tmp_path / "part", better, missing=[("push-v3", 19)])
    assert run(["compare", str(runs[0]), str(part), "--fail-if=worse"]) == 5
    assert "part is not complete: 59 of 60 episodes have ended" in capsys.readouterr().err
    assert run(["compare", str(runs[0]), str(part), "--fail-if=bad"]) == 2
    assert "--fail-if=bad: must be worse or not-better" in capsys.readouterr().err
