"""The live display of a run that goes on with much that is stored."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from proctor.engine.dispatch import Tally
from proctor.events import RunStart
from proctor.plan import make_plan
from proctor.report.display import LiveDisplay, describe_start
from proctor.store.outcomes import Outcomes
from proctor.store.schema import EpisodeRecord
from proctor.types import Task

TASKS = [Task("g", 0, "near", "", 9), Task("g", 1, "far", "", 9)]
PLAN = make_plan(TASKS, 10, 0)


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
    display.started(RunStart(before, 2, "central", "zero", "made", Path("/run")))
    try:
        assert display.told == 0
        shown = _drawn(console, display)
        assert "15/20" in shown
        assert "near" in shown
        assert "4/8 succeeded" in shown
        assert "far" in shown
        assert "0/7 succeeded" in shown
        tally = Tally(before)
        for place in (15, 16):
            display.episode(record(place, True))
            tally.add(record(place, True))
        display.progress(tally.progress(10, 1, 2))
        shown = _drawn(console, display)
        assert "17/20" in shown
        assert "5/9 succeeded" in shown
        assert "1/8 succeeded" in shown
    finally:
        display.ended()


def test_the_first_line_says_where_the_policy_runs_and_whether_that_is_settled() -> None:
    start = RunStart(Outcomes.of(PLAN, []), 2, "central", "zero", "made", Path("/run"))
    settled = "made: 20 episodes of 2 tasks; 2 workers; policy zero in its own process"
    assert describe_start(start) == settled
    undecided = replace(start, undecided=True)
    assert describe_start(undecided) == f"{settled} (placement: auto, decided by its first calls)"


def _drawn(console: Console, display: LiveDisplay) -> str:
    with console.capture() as capture:
        console.print(display._draw())
    return capture.get()
