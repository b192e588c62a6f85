"""The live rate: where success is reported, where it is not, and while episodes run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from proctor.engine.dispatch import Tally
from proctor.plan import make_plan
from proctor.results import Results
from proctor.stats.intervals import Rate
from proctor.store.outcomes import Outcomes
from proctor.store.schema import EpisodeRecord, RunningEpisode
from proctor.types import Episode, Task

TASK = Task("a", 0, "a", "", 10)
SILENT = replace(TASK, reports_success=False)


def record(episode: Episode, outcome: bool | str | None, steps: int = 5) -> EpisodeRecord:
    if outcome == "error":
        return EpisodeRecord.failed(episode, 1, "broke")
    success = None if outcome is None else bool(outcome)
    return EpisodeRecord("a", 0, "a", episode.index, episode.seed, "finished", success, 1.0, 1.0, steps)


def rates(outcomes: Sequence[bool | str | None], task: Task = TASK) -> list[tuple[int, int] | None]:
    plan = make_plan([task], len(outcomes), 0)
    known = [record(episode, outcome) for episode, outcome in zip(plan, outcomes, strict=True)]
    before = Outcomes.of(plan, known)
    live = Tally(before).progress(0, 1, 1).rate
    results = Results(before)
    shown = (live, results.overall, results.result.if_errors_failed)
    return [None if rate is None else (rate.successes, rate.episodes) for rate in shown]


def test_success_that_is_reported() -> None:
    assert rates([True, False, "error", True]) == [(2, 3), (2, 3), (2, 4)]


def test_no_success_is_reported_so_there_is_no_rate() -> None:
    assert rates([None, None, "error"], SILENT) == [None, (0, 0), (0, 0)]


def test_an_episode_that_says_nothing_is_a_failure_where_success_is_reported() -> None:
    assert rates([None, True, None, "error"]) == [(1, 3), (1, 3), (1, 4)]
    assert rates([None, None, None]) == [(0, 3), (0, 3), (0, 3)]


def test_nothing_but_errors_says_so_in_the_bound_alone() -> None:
    assert rates(["error", "error"]) == [(0, 0), (0, 0), (0, 2)]


def live(tally: Tally, *running: tuple[Episode, int]) -> Rate:
    rate = tally.progress(0, 1, 1, [RunningEpisode(episode.key, steps) for episode, steps in running]).rate
    assert rate is not None
    return rate


def test_a_running_episode_counts_as_those_came_out_that_ran_longer() -> None:
    plan = make_plan([TASK], 20, 0)
    before = [record(episode, episode.index < 6, 3 if episode.index < 6 else 10) for episode in plan[:8]]
    tally = Tally(Outcomes.of(plan, before))
    assert live(tally).value == 6 / 8
    assert live(tally, (plan[8], 5)).value == 6 / 9
    # One that has just begun says nothing: it counts as all the others did.
    assert live(tally, (plan[8], 5), (plan[9], 1)).value == pytest.approx(6 / 9)


def test_what_was_seen_of_an_episode_holds_when_it_starts_again_and_until_it_ends() -> None:
    plan = make_plan([TASK], 20, 0)
    before = [record(episode, episode.index < 6, 3 if episode.index < 6 else 10) for episode in plan[:8]]
    tally = Tally(Outcomes.of(plan, before), [RunningEpisode(plan[8].key, 5)])
    assert live(tally, (plan[8], 1)).value == 6 / 9
    tally.add(record(plan[8], True, 9))
    assert live(tally, (plan[8], 4)) == live(tally)  # news that is older than its end
    assert live(tally).value == 7 / 9


def test_no_rate_is_told_before_enough_has_ended() -> None:
    plan = make_plan([TASK], 20, 0)
    tally = Tally(Outcomes.of(plan, [record(episode, True, 3) for episode in plan[:4]]))
    early = live(tally, (plan[5], 1), (plan[6], 1))
    assert (early.successes, early.episodes, early.running, early.value) == (4, 4, 2, None)
    # Nothing that has ended lasted as long as this one: nobody knows how it will end.
    assert live(tally, (plan[5], 7)).value is None
