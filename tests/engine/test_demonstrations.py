"""So many successes of every task: whatever the order in which episodes end, they are each task's first."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.engine.demonstrations import DemonstrationQuota
from proctor.engine.dispatch import Dispatch
from proctor.engine.retries import Cause, Failure
from proctor.plan import Plan, make_plan
from proctor.store.outcomes import Outcomes
from proctor.store.schema import EpisodeRecord
from proctor.types import Episode, EpisodeKey, Task


def planned(n_tasks: int, n_episodes: int) -> Plan:
    return make_plan([Task(name, 0, name, "", 9) for name in "abcd"[:n_tasks]], n_episodes, 0)


def record(episode: Episode, success: bool) -> EpisodeRecord:
    failed = EpisodeRecord.failed(episode, 0, "")
    return replace(failed, status="finished", success=success, error=None, seconds=1.0)


def first_successes(plan: Plan, fates: dict[EpisodeKey, bool], wanted: int) -> list[int]:
    """The definition: of every task, in the order of its episodes, whatever ran."""
    found: Counter[str] = Counter()
    places = []
    for place, episode in enumerate(plan):
        name = episode.task.name
        if fates[episode.key] and found[name] < wanted:
            found[name] += 1
            places.append(place)
    return places


@settings(deadline=None)
@given(data=st.data())
def test_any_order_gives_the_same_demonstrations(data: st.DataObject) -> None:
    plan = planned(data.draw(st.integers(1, 4)), data.draw(st.integers(1, 12)))
    wanted, workers = data.draw(st.integers(1, plan.n_episodes)), data.draw(st.integers(1, 6))
    fates = {episode.key: data.draw(st.booleans()) for episode in plan}
    stored: dict[EpisodeKey, EpisodeRecord] = {}
    for _ in range(data.draw(st.integers(1, 3))):  # sessions, of which all but the last may be cut short
        before = Outcomes.of(plan, stored.values())
        dispatch = Dispatch(before, before.pending, max_attempts=50, demonstrations=wanted)
        in_flight: list[Episode] = []
        lives = data.draw(st.integers(0, 40))
        while lives and not dispatch.is_over:
            lives -= 1
            while len(in_flight) < workers and (episode := dispatch.take(None)) is not None:
                in_flight.append(episode)
            counts = Counter(episode.task.name for episode in in_flight)
            lacking = {
                key[0]: n
                for key, n in DemonstrationQuota(Outcomes.of(plan, stored.values()), wanted).lacking.items()
            }
            assert all(count <= lacking.get(name, plan.n_episodes) for name, count in counts.items()), (
                "no more are in flight than could all be wanted"
            )
            episode = in_flight.pop(data.draw(st.integers(0, len(in_flight) - 1)))
            if data.draw(st.integers(0, 4)) == 0:
                dispatch.fail(episode, Failure(Cause.SIMULATOR, "broke", worker=0))
                if dispatch.error is not None:
                    break
            else:
                one = record(episode, fates[episode.key])
                stored[one.key] = one
                dispatch.finish(one)
                dispatch.stored(dispatch.decided().records)
    before = Outcomes.of(plan, stored.values())
    dispatch = Dispatch(before, before.pending, max_attempts=1, demonstrations=wanted)
    while (episode := dispatch.take(None)) is not None:  # the last session, undisturbed
        one = record(episode, fates[episode.key])
        stored[one.key] = one
        dispatch.finish(one)
        dispatch.stored(dispatch.decided().records)
    assert dispatch.is_over
    found = DemonstrationQuota(Outcomes.of(plan, stored.values()), wanted)
    assert found.places.tolist() == first_successes(plan, fates, wanted)
    assert found.stop is not None
    assert found.stop.episodes == wanted * len(plan.tasks)
    assert (found.problem is not None) == (len(found.places) < wanted * len(plan.tasks))
    assert dispatch.tally.total == dispatch.tally.ended or found.problem is not None


def test_the_rates_are_over_episodes_that_run_whatever_comes_of_them() -> None:
    plan = planned(2, 10)
    fates = {e.key: e.task.name == "a" or e.index % 2 == 1 for e in plan}
    dispatch = Dispatch(Outcomes(plan), plan, max_attempts=1, demonstrations=3)
    played = []
    while (episode := dispatch.take(None)) is not None:
        played.append(record(episode, fates[episode.key]))
        dispatch.finish(played[-1])
        dispatch.stored(dispatch.decided().records)
    counts = Counter(one.task for one in played)
    assert counts == {"a": 3, "b": 6}, "the rest is not needed"
    stop = DemonstrationQuota(Outcomes.of(plan, played), 3).stop
    assert stop is not None
    assert stop.episodes == 6, "three of each task: what came later only failures made necessary"
    assert stop.found["played"] == 9


def test_an_episode_before_the_last_demonstration_is_waited_for() -> None:
    plan = planned(1, 5)
    ended = [record(plan[place], success=True) for place in (0, 2)]
    assert DemonstrationQuota(Outcomes.of(plan, ended), 2).stop is None, "episode 1 may still succeed"
    dispatch = Dispatch(Outcomes.of(plan, ended), [plan[1], plan[3], plan[4]], max_attempts=1, demonstrations=2)
    assert dispatch.waiting == 1
    assert dispatch.take(None) == plan[1]
