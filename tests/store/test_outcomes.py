"""Columns say of a run what its records say, whatever the order in which these came."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.plan import make_plan, shard_of
from proctor.results import Results, started_rate, task_key
from proctor.stats.unfinished import Endings
from proctor.store.episodes import StoredEpisode
from proctor.store.outcomes import ERROR, KINDS, Outcomes
from proctor.store.schema import SPANS, TABLES, EpisodeRecord, RunningEpisode
from proctor.types import Task

TASKS = [Task("g", 0, "a", "", 90), Task("g", 1, "b", "", 90), Task("h", 0, "c", "", 90, reports_success=False)]
PLAN = make_plan(TASKS, 5, 100)
REWARDS = st.none() | st.floats(-1e9, 1e9)


@st.composite
def some_records(draw: st.DrawFn) -> list[EpisodeRecord]:
    records = []
    for place in sorted(draw(st.sets(st.integers(0, len(PLAN) - 1)))):
        error = EpisodeRecord.failed(PLAN[place], draw(st.integers(1, 3)), "it broke")
        if draw(st.booleans()):
            error = replace(
                error,
                status="finished",
                error=None,
                success=draw(st.none() | st.booleans()),
                steps=draw(st.integers(1, 90)),
                sum_reward=draw(REWARDS),
                max_reward=draw(REWARDS),
                timing={span: draw(st.floats(0, 1e3)) for span in SPANS},
            )
        records.append(error)
    return records


class Expected:
    """The numbers of a run, from lists of its records."""

    def __init__(self, records: Sequence[EpisodeRecord], running: Sequence[RunningEpisode]) -> None:
        self.by_task = {task_key(task): [r for r in records if r.key[:2] == task_key(task)] for task in TASKS}
        self.told = {task_key(task) for task in TASKS if task.reports_success}
        finished = {record.key for record in records if record.status == "finished"}
        self.running = [one for one in running if one.key not in finished]

    def rate(self, tasks: Collection[tuple[str, int]], errors: bool = False) -> object:
        ages = [one.steps for key in tasks if key in self.told for one in self.running if one.key[:2] == key]
        return started_rate(self._endings(tasks, errors), ages, self._endings(self.told))

    def _endings(self, tasks: Collection[tuple[str, int]], errors: bool = False) -> Endings:
        members = [r for key in tasks if key in self.told for r in self.by_task[key]]
        counted = [record for record in members if errors or record.status == "finished"]
        return Endings(
            [record.steps for record in counted if record.success],
            [record.steps for record in counted if not record.success],
        )

    def rest(self, tasks: Collection[tuple[str, int]]) -> tuple[object, ...]:
        members = [record for key in tasks for record in self.by_task[key]]
        finished = [record for record in members if record.status == "finished"]
        told = any(key in self.told for key in tasks)
        steps = [record.steps for record in finished if record.success or not told]
        return (
            len(members) - len(finished),
            statistics.median_low(steps) if steps else None,
            _mean(finished, lambda record: record.sum_reward),
            _mean(finished, lambda record: record.max_reward),
            len(finished),
        )


def _mean(records: Sequence[EpisodeRecord], value: Callable[[EpisodeRecord], float | None]) -> float | None:
    known = [found for record in records if (found := value(record)) is not None]
    return sum(known) / len(known) if known else None


@settings(deadline=None)
@given(
    some_records(), st.lists(st.tuples(st.integers(0, len(PLAN) - 1), st.integers(1, 80)), max_size=3), st.data()
)
def test_results_are_those_of_lists_of_records_to_the_last_bit(
    records: list[EpisodeRecord], ages: list[tuple[int, int]], data: st.DataObject
) -> None:
    running = [RunningEpisode(PLAN[place].key, steps) for place, steps in dict(ages).items()]
    errors = [EpisodeRecord.failed(PLAN[place], 1, "an earlier try") for place in data.draw(_places)]
    arrival = data.draw(st.permutations(records), label="order")
    known = {record.key for record in records}
    results = Results(Outcomes.of(PLAN, [*(one for one in errors if one.key in known), *arrival]), running)
    expected = Expected(records, running)
    for tasks in ([task_key(task) for task in TASKS], *([task_key(task)] for task in TASKS), [("g", 1), ("g", 0)]):
        found = results.result_of(tasks)
        assert (found.rate, found.if_errors_failed) == (expected.rate(tasks), expected.rate(tasks, errors=True))
        rest = (found.errors, found.steps, found.reward, found.best_reward, found.finished)
        assert rest == expected.rest(tasks)
    assert results.overall == expected.rate(expected.told)
    spent = results.seconds_by_span()
    for span in SPANS:
        assert math.isclose(spent[span], math.fsum(r.timing.get(span, 0.0) for r in records), abs_tol=1e-9)


_places = st.sets(st.integers(0, len(PLAN) - 1))


@settings(deadline=None)
@given(some_records())
def test_what_has_ended_what_is_pending_and_where_the_prefix_ends(records: list[EpisodeRecord]) -> None:
    ended = Outcomes.of(PLAN, records)
    by_key = {record.key: record for record in records}
    assert ended.ended == len(records)
    assert ended.errors == sum(record.status == "error" for record in records)
    assert ended.pending == [
        episode for episode in PLAN if episode.key not in by_key or by_key[episode.key].status == "error"
    ]
    assert ended.missing == [episode for episode in PLAN if episode.key not in by_key]
    assert ended.prefix == next((place for place, one in enumerate(PLAN) if one.key not in by_key), len(PLAN))
    assert [PLAN[int(place)].key for place in ended.at(ERROR)] == [r.key for r in records if r.status == "error"]


@settings(deadline=None)
@given(some_records(), st.integers(1, 4))
def test_shards_put_together_are_the_run(records: list[EpisodeRecord], shards: int) -> None:
    records = [replace(record, worker=f"w{place % 3}") for place, record in enumerate(records)]
    whole = Outcomes(PLAN)
    for number in range(shards):
        whole.take_over(Outcomes.of(shard_of(PLAN, number, shards), records))
    expected = Outcomes.of(PLAN, records)
    for name in expected.columns.dtype.names or ():
        if name != "worker":
            assert whole[name].tobytes() == expected[name].tobytes()
    places = expected.at().tolist()
    assert [whole.workers[whole["worker"][place]] for place in places] == [record.worker for record in records]


def test_a_finished_episode_stays_what_it_is() -> None:
    error = EpisodeRecord.failed(PLAN[0], 1, "it broke")
    ended = Outcomes.of(PLAN, [error])
    assert ended.add(replace(error, status="finished", success=True), {}) == 0
    assert ended.add(replace(error, status="finished", success=False), {}) is None
    assert KINDS[ended.state(error.key)] == "success"
    assert ended.add(EpisodeRecord.failed(make_plan(TASKS, 6, 100)[-1], 1, "not in the plan"), {}) is None


def test_a_row_has_the_columns_of_its_table() -> None:
    assert StoredEpisode._fields == (*TABLES["episodes"].columns, "checksum")
