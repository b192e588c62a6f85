"""An episode from close by shows what the store has of it, says what it leaves out, and how to run it again."""

from __future__ import annotations

import importlib.util
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_run import MadeUp, alter, make_run

import made_runs
from harness import run_tiny
from proctor.cli.main import run as run_command
from proctor.plan import chosen
from proctor.report.page import episode as episode_module
from proctor.report.page.episode import IN_A_REPORT, MOST_VIEWS, ON_ITS_PAGE, EpisodeView, episode_view
from proctor.report.page.page import write_report
from proctor.report.page.trace import Lane, Trace, trace_figure
from proctor.results import ScoredRun
from proctor.store.outcomes import ERROR, FAILURE, SUCCESS
from proctor.store.trajectories import Trajectory, pack_trajectory
from proctor.types import Task
from report_pages import SMALL, Document

NAN = float("nan")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> ScoredRun:
    place = tmp_path_factory.mktemp("views") / "run"
    return ScoredRun.open(make_run(place, MadeUp(tasks=SMALL, n_episodes=20, errors=2)))


def view_of(run: ScoredRun, place: int) -> EpisodeView:
    (record,) = run.records.at([place])
    return episode_view(run, record, "it", ON_ITS_PAGE, None)


def facts(view: EpisodeView) -> dict[str, str]:
    return {fact.name: fact.value for fact in view.facts}


def test_it_shows_what_the_store_has(made: ScoredRun) -> None:
    for place in (int(made.ended.at(FAILURE)[0]), int(made.ended.at(SUCCESS)[0])):
        view = view_of(made, place)
        record = view.record
        assert facts(view)["Steps"] == str(record.steps)
        assert facts(view)["Seed"] == str(record.seed)
        (words, named, more) = view.numbers[0]
        assert (words, [name for name, _ in named], more) == ("Where it began", ["goal_x", "goal_y", "goal_z"], 0)
        with made.table() as table:
            stored = table.trajectory(record.key)
        assert stored is not None
        for name in ("reward", "action 0", "action 3"):
            assert f">{name}</text>" in view.trace
        assert f"The policy was asked {len(stored.chunks)} times." in view.trace
        assert ("Success was first reported" in view.trace) == (view.outcome == "success")
        (steps,) = [fact.more for fact in view.facts if fact.name == "Steps"]
        assert (f"success at step {stored.succeeded}" in steps) == (view.outcome == "success")
        assert view.untold == ""


def test_an_error_has_no_numbers_and_says_what_happened(made: ScoredRun) -> None:
    view = view_of(made, int(made.ended.at(ERROR)[0]))
    assert view.outcome == "error"
    assert facts(view) == {"Seed": str(view.record.seed), "Attempts": "3"}
    assert (view.trace, view.untold) == ("", "")
    assert [command.words.split()[0] for command in view.commands] == ["With"]


def test_its_commands_run_this_very_episode_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluated = run_tiny(tmp_path / "a run", n_episodes=2)
    run = ScoredRun.open(evaluated.directory)
    place = int(run.ended.at(SUCCESS, FAILURE)[1])
    replay, film, again = view_of(run, place).commands
    episode = run.plan[place]
    assert run_command(shlex.split(replay.text)[1:]) == 0
    assert "1 of 1 episode the same" in capsys.readouterr().out
    if importlib.util.find_spec("av"):
        assert run_command(shlex.split(film.text)[1:]) == 0
        assert [one.key for one in ScoredRun.open(run.path).records if one.video_path] == [episode.key]
    command = shlex.split(again.text.replace("\\\n", ""))  # as a shell reads it
    (only,) = [word.removeprefix("--only=") for word in command if word.startswith("--only=")]
    assert [one.key for one in chosen(run.plan, only)] == [episode.key]
    output = tmp_path / "again"
    assert run_command([*command[1:], f"--output_dir={output}", "--display=none"]) == 0
    (repeated,) = ScoredRun.open(output).records
    (record,) = run.records.at([place])
    assert (repeated.key, repeated.digests) == (record.key, record.digests)


@pytest.mark.parametrize("name", ["a,b", "same", "x\ny", "\x1b[2J", "a:1-2"])
def test_a_name_that_would_choose_other_episodes_has_no_command(tmp_path: Path, name: str) -> None:
    tasks = [Task("one", 0, name, "", 9), Task("same", 0, "other", "", 9), Task("a", 0, "b", "", 9)]
    run = ScoredRun.open(make_run(tmp_path / "run", MadeUp(tasks=tasks, n_episodes=3, errors=0)))
    for command in view_of(run, 0).commands:
        (word,) = [part for part in shlex.split(command.text) if part.endswith(f"{name}:0")]
        assert [one.key for one in chosen(run.planned, word.removeprefix("--only="))] == [run.plan[0].key]
        assert name == "a:1-2"


def test_a_name_is_quoted_and_never_taken_for_a_flag(tmp_path: Path) -> None:
    tasks = [Task("g", 0, "--pixels=false; rm -rf $HOME 'x'", "", 9)]
    run = ScoredRun.open(make_run(tmp_path / "run", MadeUp(tasks=tasks, n_episodes=1, errors=0)))
    replay, film, again = view_of(run, 0).commands
    words = f"--only={tasks[0].name}:0"
    assert shlex.split(replay.text) == ["proctor", "replay", str(run.path), words]
    assert shlex.split(film.text) == ["proctor", "film", str(run.path), words]
    assert shlex.split(again.text.replace("\\\n", ""))[-1] == words


def test_actions_that_were_not_kept_leave_the_rewards(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", MadeUp(tasks=SMALL[:1], n_episodes=2, errors=0))
    alter(path, "trajectories", lambda row: None)
    alter(path, "episodes", lambda row: {**row, "trajectory_bytes": 0})
    view = view_of(ScoredRun.open(path), 0)
    assert view.untold == "Its actions were not kept."
    assert "reward per step" in view.trace
    assert "action" not in view.trace
    assert [command.text.split()[1] for command in view.commands] == ["eval"]


def replaced(tmp_path: Path, packed: bytes) -> EpisodeView:
    """Return the view of an episode whose trajectory somebody has replaced, checksums and all."""
    path = make_run(tmp_path / "run", MadeUp(tasks=SMALL[:1], n_episodes=1, errors=0))
    alter(path, "trajectories", lambda row: {**row, "trajectory": packed})
    alter(path, "episodes", lambda row: {**row, "trajectory_bytes": len(packed)})
    return view_of(ScoredRun.open(path), 0)


def made_trajectory(actions: Any, rewards: Any) -> bytes:
    steps = len(rewards)
    return pack_trajectory(
        Trajectory([np.asarray(actions)], np.array([steps]), np.asarray(rewards), b"", None, (False, False, True))
    )


def test_a_trajectory_that_is_none_is_said_to_be_none(tmp_path: Path) -> None:
    view = replaced(tmp_path, b"\x90")
    assert view.untold.startswith("Its actions cannot be shown: no trajectory")
    assert "reward per step" in view.trace


def test_a_trajectory_that_would_fill_the_memory_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = made_trajectory(np.zeros((5000, 100)), np.zeros(5000))
    assert len(packed) < 20_000
    monkeypatch.setattr(episode_module, "MOST_NUMBERS", 100_000)
    assert "an array of 500,000 numbers, and 94,999 are read" in replaced(tmp_path, packed).untold


def test_of_many_numbers_the_first_are_drawn_and_it_says_so(tmp_path: Path) -> None:
    view = replaced(tmp_path, made_trajectory(np.zeros((3, 40)), np.zeros(3)))
    assert view.untold == "Of 40 numbers of an action the first 32 are drawn."
    assert ">action 31</text>" in view.trace
    assert ">action 32</text>" not in view.trace


@pytest.mark.parametrize(
    "rewards", [[1e308, -1e308, 0], [NAN, float("inf"), 1], [NAN] * 3, [5e-324] * 3, [0, 0, 0]]
)
def test_absurd_rewards_are_drawn_or_left_out(tmp_path: Path, rewards: list[float]) -> None:
    view = replaced(tmp_path, made_trajectory(np.ones((3, 2), np.int64), np.array(rewards, float)))
    assert "nan" not in view.trace.split("<path", 1)[1].split(">", 1)[0]
    assert ">reward</text>" in view.trace


def test_a_short_peak_is_still_there_when_many_steps_share_a_point() -> None:
    values = np.zeros(100_000)
    values[54_321] = 1.0
    figure = trace_figure("t", "peak", Trace([Lane("x", "plain", values)], len(values)), 80)
    (path,) = [part.split('"')[0] for part in figure.split(' d="')[1:]]
    heights = [float(point.split(" ")[1]) for point in path.replace("M", "L").split("L")[1:]]
    assert len(heights) <= 80
    assert (min(heights), heights.count(0)) == (0, 1)  # the top is 0
    assert heights.count(1000) == len(heights) - 1


def test_a_report_shows_its_first_failures_and_says_how_many_more_there_are(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", MadeUp(tasks=SMALL, n_episodes=20, errors=0, skill=-1.0))
    document = Document(write_report([path]))
    run = ScoredRun.open(path)
    failed = run.ended.at(FAILURE)
    assert len(failed) > MOST_VIEWS
    details = document.all("details", class_="close-up")
    expected = [f"{run.plan[int(place)]} seed" for place in failed[:MOST_VIEWS]]
    assert [document.text(one)[: len(words)] for one, words in zip(details, expected, strict=True)] == expected
    assert f"and {len(failed) - MOST_VIEWS} more failures" in document.text()
    links = [a.get("href") for one in details for a in one.iter("{http://www.w3.org/1999/xhtml}a")]
    assert links.count("#failure-0-1") == 2  # next of the first, previous of the third
    assert all(len(document.all("div", id=link[1:])) == 1 for link in links)


def test_close_ups_add_little_to_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_run(tmp_path / "run", MadeUp(n_episodes=3, skill=-1.0))
    whole = write_report([path]).stat().st_size
    monkeypatch.setattr("proctor.report.page.page.failure_views", lambda *_: ([], 0))
    without = write_report([path]).stat().st_size
    assert 0 < whole - without < MOST_VIEWS * 9_000
    assert IN_A_REPORT.points < ON_ITS_PAGE.points


def test_a_run_without_failures_shows_none(tmp_path: Path) -> None:
    document = Document(write_report([made_runs.make_run(tmp_path / "run", {"a": [True] * 3})]))
    assert document.all("details", class_="close-up") == []
    assert document.all("section", id="layouts") == []
