"""Which tasks are on the screen while a run with many of them goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.engine.dispatch import Tally
from proctor.events import RunOutline, RunStart
from proctor.plan import make_plan
from proctor.report.task_board import TaskBoard
from proctor.store.outcomes import Outcomes
from proctor.store.schema import EpisodeRecord, RunningEpisode
from proctor.types import EpisodeKey, Task

NAMES = [f"button-press-topdown-{number:02}-v3" for number in range(50)]


def board_of(ended: dict[int, list[str]], running: tuple[int, ...] = (), tasks: int = 50) -> TaskBoard:
    """Return the board of a run in which tasks have so many `good`, `bad` and `error` episodes of two."""
    plan = make_plan([Task("g", number, NAMES[number], "", 9) for number in range(tasks)], 2, 0)
    board = TaskBoard.of(RunStart(RunOutline(plan, "p", "b", Path("/run")), Outcomes(plan), 2, "worker"))
    for number, outcomes in ended.items():
        for index, outcome in enumerate(outcomes):
            status: Literal["error", "finished"] = "error" if outcome == "error" else "finished"
            success = None if outcome == "error" else outcome == "good"
            board.add(EpisodeRecord("g", number, NAMES[number], index, index, status, success, 0.0, 0.0, 5))
    in_flight = [RunningEpisode(EpisodeKey("g", number, 1), 3) for number in running]
    board.look(Tally(Outcomes(plan)).progress(5, len(running), 2, in_flight))
    return board


def shown(board: TaskBoard, width: int = 80, height: int = 20) -> list[str]:
    return [row.plain for row in board.rows(width, height)]


def test_what_runs_or_fails_comes_first_and_what_went_well_leaves() -> None:
    board = board_of({0: ["good", "good"], 1: ["good"], 2: ["bad", "bad"], 3: ["error"], 30: ["good"]}, (30, 40))
    rows = shown(board)
    assert [row[2:].split()[0] for row in rows[:5]] == [NAMES[30], NAMES[40], NAMES[2], NAMES[3], NAMES[1]]
    assert rows[0].startswith("▸ ")
    assert rows[2].endswith("2/2       2 ✗ ")
    assert rows[3].endswith("1/2       1 ! ")
    assert not any(NAMES[0] in row for row in rows)
    assert rows[-1] == "30 tasks not begun; 1 done without a failure"


def test_a_large_screen_shows_all() -> None:
    rows = shown(board_of({}), 140, 26)
    assert all(any(name in row for row in rows) for name in NAMES)
    assert len(rows) == 25


@given(
    width=st.integers(40, 220),
    height=st.integers(2, 60),
    ended=st.dictionaries(st.integers(0, 49), st.lists(st.sampled_from(["good", "bad", "error"]), max_size=2)),
    running=st.lists(st.integers(0, 49), max_size=8, unique=True),
)
def test_the_board_never_leaves_the_screen(
    width: int, height: int, ended: dict[int, list[str]], running: list[int]
) -> None:
    rows = shown(board_of(ended, tuple(running)), width, height)
    assert len(rows) <= max(2, height)
    assert max(map(len, rows)) <= max(width, 60)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_rows_fit_the_usual_terminals(width: int) -> None:
    rows = shown(board_of({number: ["bad", "error"] for number in range(50)}), width - 1)
    assert max(map(len, rows)) < width


def test_a_terminal_without_unicode_gets_plain_marks() -> None:
    rows = [row.plain for row in board_of({0: ["good", "bad"]}, (1,)).rows(80, 20, unicode=False)]
    assert all(row.isascii() for row in rows)
