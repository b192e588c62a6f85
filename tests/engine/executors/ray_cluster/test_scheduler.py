"""Handing out to nodes, without any: who gets what, and what a lost node costs."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from proctor.config.settings import PolicySettings
from proctor.engine.dispatch import Dispatch
from proctor.engine.executors.ray_cluster.node import NodeReport, NodeResult
from proctor.engine.executors.ray_cluster.nodes import NodeHandle, gpus_wanted
from proctor.engine.executors.ray_cluster.scheduler import NodeScheduler
from proctor.events import Watcher
from proctor.plan import make_plan
from proctor.policies.lerobot.policy import LeRobotSettings
from proctor.store.outcomes import Outcomes
from proctor.store.run_directory import RunDirectory
from proctor.store.schema import Attempt, EpisodeRecord, RunningEpisode
from proctor.types import Episode, Task

TASKS = [Task(group=name, task_id=0, name=name, prompt=name, max_steps=10) for name in "ab"]


class Actor:
    """Takes what a node would be given."""

    def __init__(self) -> None:
        self.give = self
        self.given: list[dict[str, Any]] = []
        self.attempts: list[int] = []

    def remote(self, episodes: list[tuple[dict[str, Any], int]]) -> None:
        self.given += [wire for wire, _ in episodes]
        self.attempts += [attempts for _, attempts in episodes]


class Memory:
    """A ledger that remembers."""

    def __init__(self) -> None:
        self.kept: list[EpisodeRecord] = []
        self.attempts: list[Attempt] = []
        self.in_flight: list[RunningEpisode] = []

    def running(self) -> list[RunningEpisode]:
        return []

    def write(
        self,
        records: Iterable[EpisodeRecord],
        attempts: Iterable[Attempt] = (),
        running: Iterable[RunningEpisode] = (),
    ) -> None:
        self.kept += records
        self.attempts += attempts
        self.in_flight = list(running)

    def check(self) -> None:
        pass


def node(name: str, workers: int = 1) -> NodeHandle:
    return NodeHandle(name, name, workers, Actor(), Future(), admitted=True)


def result(episode: Episode, seconds: float = 60.0, **fields: Any) -> NodeResult:
    wire = EpisodeRecord.failed(episode, 1, "").to_wire()
    wire |= {"status": "finished", "success": True, "error": None, "digest": "d", "seconds": seconds}
    return NodeResult(EpisodeRecord(**{**wire, **fields}))


class Notes(Watcher):
    def __init__(self, notes: list[str]) -> None:
        self.note = notes.append  # type: ignore[assignment]


class Scene:
    def __init__(self, directory: Path, n_episodes: int, attempts: int = 3) -> None:
        self.plan = make_plan(TASKS, n_episodes, seed=0)
        self.ledger = Memory()
        self.notes: list[str] = []
        self.directory, self.attempts = directory, attempts
        self.begin()

    def begin(self) -> None:
        watcher = Notes(self.notes)
        self.dispatch = Dispatch(Outcomes(self.plan), self.plan, max_attempts=self.attempts)
        self.scheduler = NodeScheduler(self.dispatch, self.ledger, RunDirectory(self.directory), watcher)

    def end_all(self, member: NodeHandle, seconds: float = 60.0) -> None:
        results = [result(episode, seconds) for episode in member.outstanding.values()]
        self.scheduler.receive(member, NodeReport(results=results))


def test_how_far_episodes_are_on_the_nodes_is_stored_with_every_result_and_at_the_end(tmp_path: Path) -> None:
    scene, members = Scene(tmp_path, 10), [node("x", 1), node("y", 2)]
    scene.scheduler.serve(members)
    (mine,), (first, second) = (list(member.outstanding.values()) for member in members)
    scene.scheduler.receive(members[0], NodeReport(running=[RunningEpisode(mine.key, 30)]))
    scene.scheduler.receive(
        members[1], NodeReport(running=[RunningEpisode(first.key, 9), RunningEpisode(second.key, 4)])
    )
    scene.scheduler.receive(
        members[1], NodeReport(results=[result(first)], running=[RunningEpisode(second.key, 6)])
    )
    assert scene.ledger.in_flight == [RunningEpisode(mine.key, 30), RunningEpisode(second.key, 6)]
    # A stop: the nodes leave, and what they were at stays a started episode.
    for member in members:
        scene.scheduler.lose(member, "the node left", blame=False)
    scene.scheduler.publish(last=True)
    assert scene.ledger.in_flight == [RunningEpisode(mine.key, 30), RunningEpisode(second.key, 6)]


def test_a_node_gets_what_its_workers_can_start_and_no_more_as_long_as_nothing_is_known(tmp_path: Path) -> None:
    scene, members = Scene(tmp_path, 10), [node("x", 1), node("y", 4)]
    scene.scheduler.serve(members)
    assert [len(member.outstanding) for member in members] == [1, 4]
    scene.scheduler.serve(members)
    assert [len(member.outstanding) for member in members] == [1, 4]


def test_short_episodes_are_given_ahead_and_long_ones_are_not(tmp_path: Path) -> None:
    for seconds, wanted in ((0.01, 8), (60.0, 5)):
        scene, member = Scene(tmp_path, 50), node("x", 4)
        scene.scheduler.serve([member])
        scene.end_all(member, seconds)
        scene.scheduler.serve([member])
        assert len(member.outstanding) == wanted


def test_the_last_episodes_are_shared_and_nobody_keeps_any_for_later(tmp_path: Path) -> None:
    scene, members = Scene(tmp_path, 10), [node("x", 4), node("y", 4), node("z", 4)]
    scene.scheduler.serve(members)
    for member in members:
        scene.end_all(member, seconds=0.01)
    scene.scheduler.serve(members)
    assert sorted(len(member.outstanding) for member in members) == [2, 3, 3]


def test_a_node_keeps_the_tasks_whose_simulators_it_has(tmp_path: Path) -> None:
    scene, members = Scene(tmp_path, 10), [node("x"), node("y")]
    for _ in range(3):
        scene.scheduler.serve(members)
        for member in members:
            scene.end_all(member)
    tasks = [{wire["task"]["name"] for wire in member.actor.given} for member in members]
    assert tasks == [{"a"}, {"b"}]


def test_the_episodes_of_a_lost_node_go_to_others_and_only_those_begun_have_used_up_an_attempt(
    tmp_path: Path,
) -> None:
    scene, lost, other = Scene(tmp_path, 2), node("lost", 4), node("other", 4)
    scene.scheduler.serve([lost])
    begun = scene.plan[0].key
    scene.scheduler.receive(lost, NodeReport(begun=[begun]))
    scene.scheduler.lose(lost, "the node was lost")
    assert [(attempt.key, attempt.number) for attempt in scene.ledger.attempts] == [(begun, 1)]
    assert "node lost" in scene.ledger.attempts[0].reason
    scene.scheduler.serve([other])
    scene.end_all(other)
    tries = {record.key: record.attempts for record in scene.ledger.kept}
    assert tries == {episode.key: 2 if episode.key == begun else 1 for episode in scene.plan}


def test_an_episode_that_takes_every_node_along_ends_as_an_error_never_as_a_failure(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1, attempts=2)
    scene.plan = scene.plan[:1]
    scene.begin()
    for name in "xy":
        member = node(name)
        scene.scheduler.serve([member])
        scene.scheduler.lose(member, "the node was lost")  # before it could say that it had begun
    assert [(record.status, record.success, record.attempts) for record in scene.ledger.kept] == [
        ("error", None, 2)
    ]
    assert scene.dispatch.is_over
    assert "given up" in scene.notes[-1]


def test_attempts_on_several_nodes_are_counted_on(tmp_path: Path) -> None:
    scene, first, second = Scene(tmp_path, 1), node("first", 2), node("second", 2)
    key = scene.plan[0].key
    scene.scheduler.serve([first])
    scene.scheduler.receive(first, NodeReport(begun=[key], attempts=[Attempt(key, 1, "it fell over", 0)]))
    scene.scheduler.lose(first, "the node was lost")
    scene.scheduler.serve([second])
    assert second.actor.attempts[0] == 2, "the node goes on counting"
    scene.scheduler.receive(
        second,
        NodeReport(attempts=[Attempt(key, 1, "it fell over", 0)], results=[result(scene.plan[0], attempts=2)]),
    )
    assert [attempt.number for attempt in scene.ledger.attempts] == [1, 2, 3]
    assert scene.ledger.kept[0].attempts == 4


def test_a_result_of_an_episode_that_is_not_the_nodes_any_more_is_not_stored(tmp_path: Path) -> None:
    scene, member = Scene(tmp_path, 1), node("x")
    scene.scheduler.receive(member, NodeReport(results=[result(scene.plan[0])]))
    assert scene.ledger.kept == []


def test_a_video_is_there_before_its_record(tmp_path: Path) -> None:
    scene, member = Scene(tmp_path, 1), node("x", 2)
    scene.scheduler.serve([member])
    path = "videos/a_0/eval_episode_0.mp4"
    there: list[bool] = []
    write = scene.ledger.write
    scene.ledger.write = lambda *news: (there.append((tmp_path / path).exists()), write(*news))  # type: ignore
    sent = NodeResult(result(scene.plan[0], video_path=path).record, b"film")
    scene.scheduler.receive(member, NodeReport(results=[sent]))
    assert there == [True]
    assert (tmp_path / path).read_bytes() == b"film"


def test_what_failed_on_a_node_that_is_left_out_does_not_count_against_its_episodes(tmp_path: Path) -> None:
    scene, bad, good = Scene(tmp_path, 1, attempts=2), node("bad", 2), node("good", 2)
    key = scene.plan[0].key
    scene.scheduler.serve([bad])
    attempts = [Attempt(key, number, "its policy died", 0) for number in (1, 2)]
    scene.scheduler.receive(bad, NodeReport(begun=[key], attempts=attempts))
    scene.scheduler.lose(bad, "the node left", blame=False, forgive=True)
    scene.scheduler.serve([good])
    assert good.actor.attempts == [0, 0]
    scene.scheduler.receive(good, NodeReport(results=[result(scene.plan[0])]))
    assert [attempt.number for attempt in scene.ledger.attempts] == [1, 2]
    assert scene.ledger.kept[0].attempts == 3, "no two attempts have one number"


def test_a_recording_is_whole_before_its_record(tmp_path: Path) -> None:
    scene, member = Scene(tmp_path, 1), node("x", 2)
    scene.scheduler.serve([member])
    folder = tmp_path / "recording" / "a_0" / "episode_0"
    there: list[bool] = []
    write = scene.ledger.write
    scene.ledger.write = lambda *news: (there.append(folder.exists()), write(*news))  # type: ignore
    sent = NodeResult(result(scene.plan[0]).record, recording={"piece.json": b"{}", "../steps.npz": b"steps"})
    scene.scheduler.receive(member, NodeReport(results=[sent]))
    assert there == [True]
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {
        "piece.json": b"{}",
        "steps.npz": b"steps",
    }


@pytest.mark.parametrize(
    ("device", "there", "wanted"),
    [("cpu", 2, 0), (None, 0, 0), (None, 2, 1), ("cuda", 1, 1), ("cuda:1", 2, 2), ("cuda:0,cuda:1", 2, 2)],
)
def test_a_policy_on_gpus_asks_ray_for_them(device: str | None, there: int, wanted: int) -> None:
    assert gpus_wanted(LeRobotSettings(device=device), there) == wanted
    assert gpus_wanted(PolicySettings(), there) == 0
