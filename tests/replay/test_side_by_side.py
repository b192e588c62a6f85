"""Two runs in one video: the same episode and seed, both named, the shorter one held; others are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness import digests, run_cli, run_tiny
from proctor.replay.lettering import letters
from proctor.results import ScoredRun
from replay.test_film import frames, videos

pytest.importorskip("av")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("two")
    run_tiny(place / "careful", task="a,b")
    run_tiny(place / "plain", task="a,b", policy={"path": "tiny_policies:plain"})
    return place / "careful", place / "plain"


def outcomes(run: Path) -> dict[str, tuple[bool | None, int]]:
    found = {}
    for one in ScoredRun.open(run).records:
        found[f"videos/{one.task_group}_0/eval_episode_{one.episode_index}.mp4"] = one.success, one.steps
    return found


def test_episodes_that_came_to_something_else_are_shown_side_by_side(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    before = [(run / "run.sqlite").read_bytes() for run in runs]
    done = run_cli("film", *map(str, runs), "--fps=30", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = map(outcomes, runs)
    apart = sorted(name for name in first if first[name][0] != second[name][0])
    assert sorted(videos(tmp_path / "side_by_side")) == apart != []
    assert [(run / "run.sqlite").read_bytes() for run in runs] == before
    assert not any(map(videos, runs))
    assert not list((tmp_path / "side_by_side").glob(".film-*"))


def test_both_halves_show_their_run_and_the_shorter_one_holds_its_last_frame(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    first, second = map(outcomes, runs)
    name = next(name for name in first if first[name][1] != second[name][1])
    words = f"{name[7]}:{name.rpartition('_')[2].removesuffix('.mp4')}"
    done = run_cli("film", str(runs[0]), words, f"--against={runs[1]}", f"--output_dir={tmp_path / 'both'}")
    assert done.returncode == 0, done.stderr
    (shown,) = (frames(video) for video in videos(tmp_path / "both").values())
    for number, run in enumerate(runs):
        own = tmp_path / str(number)
        assert run_cli("film", str(run), words, f"--output_dir={own}").returncode == 0
        alone = frames(own / name)
        height, width = alone[0].shape[:2]
        left = 0 if number == 0 else shown[0].shape[1] - width - shown[0].shape[1] % 2
        top = shown[0].shape[0] - height - shown[0].shape[0] % 2
        halves = [one[top : top + height, left : left + width].astype(int) for one in shown]
        assert len(shown) >= len(alone)
        # A codec keeps no noise: by its mean every half is nearest to the frame that it shows.
        for step, half in enumerate(halves):
            there = alone[min(step, len(alone) - 1)].astype(int)
            assert abs(half.mean() - there.mean()) < 12
        held = halves[len(alone) :]
        assert all(abs(half - alone[-1].astype(int)).mean() < 40 for half in held)
        assert shown[0][:top].max() > 150, "the heads are legible"
    assert len(shown) == max(len(frames(tmp_path / str(number) / name)) for number in (0, 1))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 7}, "has seed 1000 and "),
        ({"task": "c"}, "have no finished episode in common"),
        ({"task": "a", "eval": {"store_actions": False}}, "that keeps its actions"),
    ],
)
def test_runs_of_other_seeds_or_tasks_or_without_actions_are_refused_in_one_line(
    runs: tuple[Path, Path], tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    run_tiny(tmp_path / "other", **{"task": "a,b", "n_episodes": 1, **changes})  # type: ignore[arg-type]
    done = run_cli("film", str(runs[0]), str(tmp_path / "other"), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "side_by_side").exists()


def test_what_does_not_make_sense_of_one_or_of_two_runs_is_refused(runs: tuple[Path, Path]) -> None:
    for arguments, words in (
        ([*map(str, runs), "--which=failures"], "of two runs, differing or all"),
        ([str(runs[0]), "--which=differing"], "is for two runs"),
        ([*map(str, runs), f"--against={runs[1]}"], "shows two runs at most"),
        ([str(runs[0]), str(runs[0])], "came to the same in both runs"),
    ):
        done = run_cli("film", *arguments)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert len(digests(runs[0])) == 8


def test_letters_are_drawn_with_dots_and_cut_where_there_is_no_room() -> None:
    line = letters("I", 12, 1)[:, :, 0] > 0
    assert ["".join(".#"[int(dot)] for dot in row) for row in line] == [
        ".###........",
        "..#.........",
        "..#.........",
        "..#.........",
        "..#.........",
        "..#.........",
        ".###........",
        "............",
    ]
    assert letters("run " * 99, 100, 2).shape == (16, 100, 3)
    assert np.array_equal(letters("é\n", 12, 1), letters("??", 12, 1))
    assert not letters("", 10, 1).any()
