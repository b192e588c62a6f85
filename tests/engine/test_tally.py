"""The live rate where simulators tell success, where they do not, and where they tell only the good news."""

from __future__ import annotations

from collections.abc import Sequence

from proctor.benchmarks.protocol import Episode, Task
from proctor.engine.plan import make_plan
from proctor.engine.tally import Tally
from proctor.store.records import EpisodeRecord, rate_if_errors_failed, success_rate

TASK = Task("a", 0, "a", "", 10)


def record(episode: Episode, outcome: bool | str | None) -> EpisodeRecord:
    if outcome == "error":
        return EpisodeRecord.failed(episode, 1, "broke")
    success = None if outcome is None else bool(outcome)
    return EpisodeRecord("a", 0, "a", episode.index, episode.seed, "finished", success, 1.0, 1.0, 5)


def rates(outcomes: Sequence[bool | str | None]) -> list[tuple[int, int]]:
    plan = make_plan([TASK], len(outcomes), 0)
    known = [record(episode, outcome) for episode, outcome in zip(plan, outcomes, strict=True)]
    live = Tally(plan, known).progress(0, 1, 1).prefix
    return [(r.successes, r.episodes) for r in (live, success_rate(known), rate_if_errors_failed(known))]


def test_success_that_is_told() -> None:
    assert rates([True, False, "error", True]) == [(2, 3), (2, 3), (2, 4)]


def test_no_success_is_told_so_there_is_no_rate() -> None:
    assert rates([None, None, "error"]) == [(0, 0), (0, 0), (0, 0)]


def test_success_that_is_told_only_when_it_happens() -> None:
    assert rates([None, True, None, "error"]) == [(1, 3), (1, 3), (1, 4)]


def test_nothing_but_errors_says_so_in_the_bound_alone() -> None:
    assert rates(["error", "error"]) == [(0, 0), (0, 0), (0, 2)]
