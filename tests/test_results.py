"""The one aggregation: a run, its groups and its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from proctor.plan import make_plan
from proctor.results import Results, describe_running
from proctor.stats.intervals import wilson
from proctor.store.outcomes import Outcomes
from proctor.store.schema import EpisodeRecord, RunningEpisode
from proctor.types import EpisodeKey, Task

A, B = Task("g", 0, "a", "", 100), Task("g", 1, "b", "", 100)
SILENT = Task("h", 0, "c", "", 100, reports_success=False)


def record(task: Task, index: int, success: bool | None, steps: int, reward: float = 1.0) -> EpisodeRecord:
    return EpisodeRecord(
        task.group, task.task_id, task.name, index, index, "finished", success, reward, reward, steps
    )


def running(task: Task, index: int, steps: int) -> RunningEpisode:
    return RunningEpisode(EpisodeKey(task.group, task.task_id, index), steps)


RECORDS = [
    *(record(A, index, True, 10) for index in range(6)),
    *(record(B, index, False, 100) for index in range(4)),
    *(record(SILENT, index, None, 50, reward=3.0) for index in range(2)),
]


def results_of(
    tasks: Sequence[Task],
    records: Sequence[EpisodeRecord],
    running: Sequence[RunningEpisode] = (),
    stopped: Mapping[str, Any] | None = None,
) -> Results:
    return Results(Outcomes.of(make_plan(tasks, 10, 0), records), running, stopped)


def test_tasks_that_report_no_success_have_rewards_and_no_rate() -> None:
    results = results_of([A, B, SILENT], RECORDS)
    assert results.overall == wilson(6, 10)
    silent = results.result_of([("h", 0)])
    assert (silent.rate.value, silent.reward, silent.steps, silent.finished) == (None, 3.0, 50, 2)
    assert results.counts() == [(6, 6), (0, 4)]


def test_a_task_that_never_succeeds_stays_in_the_rate_whatever_its_episodes_say() -> None:
    untold = [replace(one, success=one.success or None) for one in RECORDS]
    assert results_of([A, B, SILENT], untold).overall == wilson(6, 10)


def test_a_part_of_a_run_borrows_from_the_whole_what_it_has_not_seen_itself() -> None:
    results = results_of([A, B], RECORDS[:10], [running(A, 6, 30)])
    # No episode of this task took that long; all others of the run that did have failed.
    assert results.of([("g", 0)]).value == pytest.approx(6 / 7)
    assert results.of([("g", 1)]) == wilson(0, 4)
    assert results.overall.value == pytest.approx(6 / 11)
    assert results.counts() is None, "no average over tasks while episodes run"


def test_what_is_shown_is_said_in_words() -> None:
    assert describe_running(results_of([A, B], RECORDS[:10]).overall) == ""
    shown = describe_running(results_of([A, B], RECORDS[:10], [running(A, 6, 30)]).overall)
    assert shown.startswith(
        "Incomplete: 1 episode was still running; each counts like the episodes that ran longer."
    )
    assert "(60.0 %) favour quick successes" in shown
    early = results_of([A, B], RECORDS[:1], [running(A, 6, 30), running(B, 0, 30)]).overall
    assert (early.value, str(early)) == (None, "not known yet (1/1 ended, 2 running)")
    assert "too few have ended" in describe_running(early)


def test_a_run_that_a_rule_ended_has_the_rules_interval() -> None:
    interval = {"method": "at_the_stop", "successes": 6, "n_episodes": 10, "low": 0.2, "high": 0.9}
    stopped = {"episodes": 10, "rule": "ci<=0.4", "decision": "precise", "interval": interval}
    results = results_of([A, B], RECORDS[:10], stopped=stopped)
    assert (results.overall[2:4], results.method) == ((0.2, 0.9), "at_the_stop")
    assert results.result.rate == results.overall
    assert results.of_group("g") == wilson(6, 10)
    # An error of the run ended well elsewhere: the rule knew nothing of that.
    more = results_of([A, B], [*RECORDS[:10], record(A, 6, True, 10)], stopped=stopped)
    assert (more.overall, more.method) == (wilson(7, 11), "wilson")
