"""The state machine that every executor drives: whatever happens in whatever order, its promises hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from proctor.engine import retries as retries_module
from proctor.engine.dispatch import Dispatch
from proctor.engine.queue import LEAST_ROUNDS, TaskKey, task_key
from proctor.engine.retries import HOPELESS, Cause, Failure, Restarts
from proctor.engine.stopping import StopRules
from proctor.errors import PolicyHostError, RunError
from proctor.plan import Plan, make_plan
from proctor.store.outcomes import Outcomes
from proctor.store.schema import Attempt, EpisodeRecord
from proctor.types import Episode, EpisodeKey, Task


def planned(n_tasks: int, n_episodes: int) -> Plan:
    names = "abcdefgh"[:n_tasks]
    return make_plan([Task(name, 0, name, "", 9) for name in names], n_episodes, 0)


def record(episode: Episode, success: bool = True, seconds: float = 1.0) -> EpisodeRecord:
    failed = EpisodeRecord.failed(episode, 0, "")
    return replace(failed, status="finished", success=success, error=None, seconds=seconds)


class AfterSuccesses:
    """A rule that is satisfied by some successes of the finished prefix."""

    text = "enough"

    def __init__(self, wanted: int) -> None:
        self._left = wanted

    def add(self, episode: Episode, success: bool | None) -> dict[str, Any] | None:
        self._left -= bool(success)
        return {"decision": "precise"} if self._left <= 0 else None


class AnyInterleaving(RuleBasedStateMachine):
    """Starts, ends, errors, deaths of workers, policies and nodes, and stops, in any order."""

    @initialize(
        n_tasks=st.integers(1, 4),
        n_episodes=st.integers(1, 10),
        max_attempts=st.integers(1, 4),
        wanted=st.none() | st.integers(1, 8),
        ended=st.sets(st.integers(0, 39), max_size=6),
    )
    def begin(self, n_tasks: int, n_episodes: int, max_attempts: int, wanted: int | None, ended: set[int]) -> None:
        self.plan, self.max_attempts, self.wanted = planned(n_tasks, n_episodes), max_attempts, wanted
        done = [record(self.plan[place], place % 2 == 0) for place in sorted(ended) if place < len(self.plan)]
        before = Outcomes.of(self.plan, done)
        self.pending = {episode.key for episode in before.pending}
        self.stop_rules = None if wanted is None else StopRules(self.plan, lambda: [AfterSuccesses(wanted)])
        if self.stop_rules is not None:
            self.stop_rules.begin(before)
        self.dispatch = Dispatch(before, before.pending, max_attempts=max_attempts, rules=self.stop_rules)
        self.in_flight: dict[EpisodeKey, Episode] = {}
        self.records: dict[EpisodeKey, EpisodeRecord] = {one.key: one for one in done}
        self.ended: Counter[EpisodeKey] = Counter()
        self.attempts: list[Attempt] = []
        self.began: Counter[EpisodeKey] = Counter()
        self.forgiven: Counter[EpisodeKey] = Counter()

    def pick(self, number: int) -> Episode:
        return self.in_flight[sorted(self.in_flight)[number % len(self.in_flight)]]

    @rule(task=st.none() | st.integers(0, 3))
    def take(self, task: int | None) -> None:
        held: TaskKey | None = None if task is None else (("abcd"[task]), 0)
        ending = self.dispatch.is_ending
        undone = {one.key for one in self.dispatch._batch.records}
        waiting = self.pending - self.in_flight.keys() - self.ended.keys() - undone
        episode = self.dispatch.take(held)
        if episode is None:
            assert ending or not waiting, "no worker idles while episodes remain"
            return
        assert not ending
        assert episode.key in waiting, "an episode is at one place only"
        places = sorted(self.plan.place_of(key) or 0 for key in waiting)
        place = self.plan.place_of(episode.key)
        assert place is not None
        assert place < places[0] + LEAST_ROUNDS * len(self.plan.tasks), "near the head of the plan"
        self.in_flight[episode.key] = episode
        self.began[episode.key] += 1

    @precondition(lambda self: self.in_flight)
    @rule(number=st.integers(0, 39), success=st.booleans())
    def finish(self, number: int, success: bool) -> None:
        episode = self.pick(number)
        self.dispatch.finish(record(episode, success))
        del self.in_flight[episode.key]

    @precondition(lambda self: self.in_flight)
    @rule(number=st.integers(0, 39), cause=st.sampled_from(Cause), eldest=st.floats(0, 9), lasted=st.floats(0, 9))
    def fail(self, number: int, cause: Cause, eldest: float, lasted: float) -> None:
        episode = self.pick(number)
        self.dispatch.fail(episode, Failure(cause, "it broke", 0, lasted), eldest)
        del self.in_flight[episode.key]

    @precondition(lambda self: self.in_flight)
    @rule(number=st.integers(0, 39), forgive=st.booleans(), failed=st.integers(0, 3))
    def leave(self, number: int, forgive: bool, failed: int) -> None:
        """A node reports attempts that failed there, and leaves; or a worker dies before it has begun."""
        episode = self.pick(number)
        failed = min(failed, self.max_attempts - 1 - self.dispatch.attempts(episode))
        for _ in range(failed):
            self.dispatch.note_attempt(episode.key, "it broke there", 0)
        self.dispatch.put_back(episode, forgive=forgive)
        self.forgiven[episode.key] += failed if forgive else 0
        del self.in_flight[episode.key]

    @rule()
    def lose_host(self) -> None:
        self.dispatch.lose_host("the policy died", "host.log")

    @precondition(lambda self: self.in_flight)
    @rule()
    def interrupt(self) -> None:
        self.dispatch.interrupt(busy=len(self.in_flight), grace=1.0)

    @rule()
    def commit(self) -> None:
        batch = self.dispatch.decided()
        for one in batch.records:
            assert self.ended[one.key] == 0, "an episode ends once"
            self.ended[one.key] += 1
            self.records[one.key] = one
        self.attempts += batch.attempts
        self.dispatch.stored(batch.records)
        self.check_attempts()
        self.check_stop()

    def check_attempts(self) -> None:
        numbers: dict[EpisodeKey, list[int]] = {}
        for attempt in self.attempts:
            numbers.setdefault(attempt.key, []).append(attempt.number)
        for key, counted in numbers.items():
            assert counted == list(range(1, len(counted) + 1)), "no two attempts have one number"
            assert len(counted) - self.forgiven[key] <= self.max_attempts
        for key in self.ended:
            tries, one = len(numbers.get(key, [])), self.records[key]
            assert one.attempts == tries + (one.status == "finished")
            if one.status == "error":
                assert tries - self.forgiven[key] == self.max_attempts

    def check_stop(self) -> None:
        """Where a rule stops is a function of what is stored, whatever led there."""
        if self.stop_rules is None or self.wanted is None:
            return
        successes = 0
        for place, episode in enumerate(self.plan):
            if episode.key not in self.records:
                break
            successes += bool(self.records[episode.key].success)
            if successes >= self.wanted:
                assert self.dispatch.stop is not None
                assert self.dispatch.stop.episodes == place + 1
                return
        assert self.dispatch.stop is None

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "dispatch"):
            return
        undecided = len(self.pending) - self.dispatch.waiting - len(self.in_flight)
        decided = len(self.ended) + len(self.dispatch._batch.records)
        assert undecided == decided, "an episode waits, is in flight, or has ended"
        if self.dispatch.is_over and not self.dispatch.is_ending:
            assert not self.dispatch.waiting
            assert not self.in_flight


TestAnyInterleaving = AnyInterleaving.TestCase
TestAnyInterleaving.settings = settings(deadline=None, max_examples=100, stateful_step_count=50)


def started(n_tasks: int = 1, n_episodes: int = 20, max_attempts: int = 3, **options: Any) -> Dispatch:
    plan = planned(n_tasks, n_episodes)
    return Dispatch(Outcomes(plan), plan, max_attempts=max_attempts, **options)


def taken(dispatch: Dispatch) -> Episode:
    episode = dispatch.take(None)
    assert episode is not None
    return episode


def test_one_count_of_attempts_whatever_failed() -> None:
    dispatch = started(n_episodes=1)
    for cause in (Cause.POLICY, Cause.SIMULATOR, Cause.NODE):
        dispatch.fail(taken(dispatch), Failure(cause, "it broke"))
    records, attempts, notes = dispatch.decided()
    assert [attempt.number for attempt in attempts] == [1, 2, 3]
    assert [(one.status, one.attempts) for one in records] == [("error", 3)]
    assert notes[-1] == "a episode 0: attempt 3 of 3 failed, given up: it broke"
    assert dispatch.is_over


def test_an_episode_that_loses_its_policy_at_its_last_attempt_ends_the_run_and_is_no_error() -> None:
    dispatch = started(max_attempts=2)
    episode = taken(dispatch)
    dispatch.fail(episode, Failure(Cause.POLICY, "the server is away"))
    assert dispatch.error is None
    assert taken(dispatch) == episode
    dispatch.fail(episode, Failure(Cause.POLICY, "the server is away"))
    assert isinstance(dispatch.error, PolicyHostError)
    assert dispatch.decided().records == []
    assert dispatch.is_over


def test_nothing_is_charged_while_a_run_stops() -> None:
    dispatch = started()
    episode = taken(dispatch)
    dispatch.interrupt(busy=1, grace=10.0)
    dispatch.interrupt(busy=1, grace=10.0)
    assert not dispatch.is_over
    dispatch.fail(episode, Failure(Cause.SIMULATOR, "killed"))
    assert dispatch.is_over
    records, attempts, notes = dispatch.decided()
    assert (records, attempts) == ([], [])
    assert notes == ["stopping: 1 episode in flight has 10 s to finish; Ctrl-C again stops at once"]
    assert dispatch.take(None) is None


@pytest.mark.parametrize(("workers", "needed"), [(1, HOPELESS), (10, 20)])
def test_a_run_is_hopeless_when_every_worker_has_failed_twice_and_nothing_has_ended(
    workers: int, needed: int
) -> None:
    dispatch = started(max_attempts=1, n_episodes=50)
    dispatch.workers = workers
    for _ in range(needed - 1):
        dispatch.fail(taken(dispatch), Failure(Cause.SIMULATOR, "it fell over", lasted=1.0))
    assert dispatch.error is None
    dispatch.fail(taken(dispatch), Failure(Cause.SIMULATOR, "it fell over", lasted=1.0))
    assert isinstance(dispatch.error, RunError)
    assert f"{needed} attempts failed and not one episode ended" in str(dispatch.error)


@pytest.mark.parametrize("hope", ["one finished", "one is further than any that failed"])
def test_a_run_with_any_hope_goes_on(hope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries_module, "HOPELESS", 2)
    dispatch = started(max_attempts=1)
    if hope == "one finished":
        dispatch.finish(record(taken(dispatch)))
        dispatch.stored(dispatch.decided().records)
    for _ in range(4):
        eldest = 2.0 if hope != "one finished" else 0.0
        dispatch.fail(taken(dispatch), Failure(Cause.SIMULATOR, "it fell over", lasted=1.0), eldest)
    assert dispatch.error is None


def test_a_lost_policy_or_node_never_makes_a_run_hopeless() -> None:
    dispatch = started(max_attempts=99)
    for _ in range(40):
        dispatch.fail(taken(dispatch), Failure(Cause.NODE, "the node was lost"))
        dispatch.fail(taken(dispatch), Failure(Cause.POLICY, "the policy was lost"))
    assert dispatch.error is None


def test_a_host_is_started_again_until_it_has_died_too_often_without_an_episode_in_between() -> None:
    dispatch = started(max_attempts=2)
    for _ in range(5):
        assert dispatch.lose_host("the policy died", "host.log")
        dispatch.finish(record(taken(dispatch)))
    assert dispatch.lose_host("the policy died", "host.log")
    assert not dispatch.lose_host("the policy died", "host.log")
    assert "2 times without an episode ending in between (see host.log)" in str(dispatch.error)


def test_each_of_several_is_counted_by_itself() -> None:
    restarts = Restarts(2)
    assert (restarts.died("x"), restarts.died("y"), restarts.died("x")) == (1, 1, 2)
    assert restarts.is_given_up("x")
    assert not restarts.is_given_up("y")
    restarts.progressed("x")
    assert not restarts.is_given_up("x")


def test_episodes_that_arrive_later_keep_the_attempts_that_they_have_used_up() -> None:
    plan = planned(1, 3)
    dispatch = Dispatch(Outcomes(plan), [], max_attempts=3, more=True)
    assert not dispatch.is_over
    dispatch.add(plan[1], attempts=2)
    episode = taken(dispatch)
    dispatch.fail(episode, Failure(Cause.SIMULATOR, "it fell over"))
    records, attempts, _ = dispatch.decided()
    assert [attempt.number for attempt in attempts] == [3]
    assert [one.status for one in records] == ["error"]
    dispatch.close()
    assert dispatch.is_over


def test_a_run_that_a_rule_has_ended_hands_out_nothing_more() -> None:
    plan = planned(2, 4)
    rules = StopRules(plan, lambda: [AfterSuccesses(1)])
    dispatch = Dispatch(Outcomes(plan), plan, max_attempts=3, rules=rules)
    second, first = sorted((taken(dispatch), taken(dispatch)), key=task_key, reverse=True)
    dispatch.finish(record(second))
    dispatch.stored(dispatch.decided().records)
    assert dispatch.stop is None, "it lies beyond the finished prefix"
    dispatch.finish(record(first, success=False))
    dispatch.stored(dispatch.decided().records)
    assert dispatch.stop is not None
    assert dispatch.stop.episodes == 2
    assert dispatch.is_over
    assert dispatch.take(None) is None
