"""Why a run went no further is told when it happens, and to everybody who looks at the run later."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import run_cli, viewed, wait_until
from outside import Scene, assert_one_line, edit, ended, finish, result


def move_away(run: Path) -> None:
    run.rename(run.with_name("moved"))


def replace(run: Path) -> None:
    run.rename(run.with_name("old"))
    shutil.copytree(run.with_name("old"), run)
    shutil.rmtree(run.with_name("old"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (shutil.rmtree, "was deleted while this run was writing to it: the episodes that had ended are lost"),
        (replace, "was deleted and made anew while"),
        (move_away, "was moved to "),
    ],
)
def test_a_run_whose_directory_goes_ends_soon_and_says_so(
    tmp_path: Path, change: Callable[[Path], object], words: str
) -> None:
    scene = Scene(tmp_path / "scene")
    # Long episodes: nothing is stored for a while.
    process = scene.start("--eval.n_episodes=2000", "--env.delay=0.05")
    wait_until(lambda: ended(scene.run) >= 1)
    change(scene.run)
    status, told = finish(process)
    assert status == 1
    assert_one_line(told)
    assert f"{scene.run} {words}" in told
    assert "finished episodes are kept" not in told
    if change is move_away:
        assert f"--resume={scene.run.with_name('moved')}" in told
        assert ended(scene.run.with_name("moved")) >= 1
        again = run_cli("eval", f"--resume={scene.run.with_name('moved')}", "--env.delay=0", "--display=none")
        assert again.returncode in (0, 2), again.stderr
    else:
        assert "--resume" not in told
    if change is shutil.rmtree:
        assert not scene.run.exists()


def fails(scene: Scene) -> str:
    edit(scene.policy, "        states = [", '        raise ValueError("no such weights")\n        states = [')
    assert scene.eval().returncode == 1
    return "the policy raised ValueError: no such weights"


def is_stopped(scene: Scene) -> str:
    process = scene.start("--eval.n_episodes=2000")
    wait_until(lambda: ended(scene.run) >= 1)
    process.send_signal(signal.SIGINT)
    assert finish(process)[0] == 130
    return "it was stopped by SIGINT"


def is_killed(scene: Scene) -> str:
    process = scene.start("--eval.n_episodes=2000")
    wait_until(lambda: ended(scene.run) >= 1)
    process.kill()
    finish(process)
    return "the process that ran it was killed, or still runs"


@pytest.mark.parametrize("end", [fails, is_stopped, is_killed])
def test_whoever_looks_at_an_incomplete_run_is_told_why(tmp_path: Path, end: Callable[[Scene], str]) -> None:
    scene = Scene(tmp_path / "scene")
    words = end(scene)
    if end is not is_killed:
        assert words in result(scene.run)["run"]["ending"]
    page = run_cli("report", str(scene.run))
    assert page.returncode == 0, page.stderr
    assert words in (scene.run / "report.html").read_text()
    assert words in viewed(scene.folder)
    if end is fails:
        return
    merged = scene.folder / "merged"
    told = run_cli("merge", str(scene.run), f"--output_dir={merged}")
    assert words in told.stderr
    assert words in result(merged)["run"]["ending"]


@pytest.mark.slow
def test_a_run_that_was_completed_later_is_not_called_unfinished(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "scene")
    process = scene.start()
    wait_until(lambda: ended(scene.run) >= 1)
    process.send_signal(signal.SIGINT)
    finish(process)
    assert scene.eval().returncode == 0
    assert result(scene.run)["run"]["ending"] is None
    assert "stopped by SIGINT" not in viewed(scene.folder)
    with sqlite3.connect(f"file:{scene.run}/run.sqlite?mode=ro", uri=True) as database:
        kept = [row[0] for row in database.execute("SELECT ending FROM sessions ORDER BY id")]
    assert kept == ["it was stopped by SIGINT", None]
