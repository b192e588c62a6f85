"""The displays of a run: what they show, and when."""

from __future__ import annotations

import io
import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from proctor.engine.dispatch import Tally
from proctor.events import RunOutline, RunStart, Stage
from proctor.plan import make_plan
from proctor.report import progress_line
from proctor.report.display import LiveDisplay, PlainDisplay
from proctor.report.progress_line import describe_start
from proctor.store.outcomes import Outcomes
from proctor.store.schema import EpisodeRecord
from proctor.types import Task

TASKS = [Task("g", 0, "near", "", 9), Task("g", 1, "far", "", 9)]
PLAN = make_plan(TASKS, 10, 0)
OUTLINE = RunOutline(PLAN, "zero", "made", Path("/run"))


def record(place: int, success: bool) -> EpisodeRecord:
    episode = PLAN[place]
    return EpisodeRecord(
        "g", episode.task.task_id, episode.task.name, episode.index, episode.seed, "finished", success, 1.0, 1.0, 5
    )


class Replays(LiveDisplay):
    """Counts what it is told episode by episode."""

    told = 0

    def episode(self, record: EpisodeRecord) -> None:
        self.told += 1
        super().episode(record)


def test_stored_episodes_are_shown_at_once_and_not_one_by_one() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=30)
    display = Replays(console)
    before = Outcomes.of(PLAN, [record(place, place % 4 == 0) for place in range(15)])
    display.planned(OUTLINE)
    try:
        assert "starting" in _drawn(console, display)
        display.started(RunStart(OUTLINE, before, 2, "central"))
        assert display.told == 0
        shown = _drawn(console, display)
        assert "15/20" in shown
        assert re.search(r"near .* 8/10 +4 ✓ 4 ✗", shown)
        assert re.search(r"far .* 7/10 +7 ✗", shown)
        tally = Tally(before)
        for place in (15, 16):
            display.episode(record(place, True))
            tally.add(record(place, True))
        display.progress(tally.progress(10, 1, 2, seconds=1.0))
        shown = _drawn(console, display)
        assert "17/20 episodes" in shown
        assert re.search(r"near .* 9/10 +5 ✓ 4 ✗", shown)
        assert re.search(r"far .* 8/10 +1 ✓ 7 ✗", shown)
    finally:
        display.ended()


def test_where_the_policy_runs_is_said_to_be_open_as_long_as_it_is() -> None:
    start = RunStart(OUTLINE, Outcomes.of(PLAN, []), 2, "central")
    assert describe_start(start) == "2 workers, policy in its own process"
    undecided = replace(start, undecided=True)
    assert describe_start(undecided) == f"{describe_start(start)} (placement: auto, decided by its first calls)"


def test_the_plan_comes_first_and_what_is_waited_for_has_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_line, "_STAGE_SECONDS", (0.01, 1e6))
    file = io.StringIO()
    told = threading.Event()

    class Console_(Console):
        def print(self, *words: object, **options: object) -> None:
            super().print(*words, **options)  # type: ignore[arg-type]
            if "loading the policy 0 s" in str(words):
                told.set()

    display = PlainDisplay(Console_(file=file, width=200))
    display.planned(OUTLINE)
    display.doing(Stage("loading the policy"))
    display.doing(Stage("loading the policy", "simulators 1/2"))
    assert told.wait(60)
    display.started(RunStart(OUTLINE, Outcomes.of(PLAN, [record(0, True)]), 2, "central", 3))
    display.ended()
    lines = file.getvalue().splitlines()
    assert lines[0] == "made: 20 episodes of 2 tasks; policy zero"
    assert lines[1].startswith("loading the policy 0 s")
    assert lines[-3:] == [
        "loading the policy: done after 0 s",
        "results go to /run",
        "2 workers on 3 nodes, policy in its own process; 1 episode finished before",
    ]


def test_what_is_over_at_once_is_not_told_of() -> None:
    file = io.StringIO()
    display = PlainDisplay(Console(file=file, width=200))
    display.planned(OUTLINE)
    display.doing(Stage("loading the policy"))
    display.ended()
    assert file.getvalue().splitlines()[1:] == []


def _drawn(console: Console, display: LiveDisplay) -> str:
    with console.capture() as capture:
        console.print(display._draw())
    return re.sub(r"\x1b\[[\d;]*m", "", capture.get())
