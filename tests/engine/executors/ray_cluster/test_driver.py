"""Which nodes may take part: those whose results are the run's, and who decides what that is."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from harness import tiny_tree
from proctor.config.load import build_settings
from proctor.engine.dispatch import Dispatch
from proctor.engine.executors.protocol import RunContext, RunFacts
from proctor.engine.executors.ray_cluster.driver import Driver
from proctor.engine.executors.ray_cluster.nodes import NodeHandle, NodeNews
from proctor.engine.executors.ray_cluster.payload import Payload
from proctor.errors import IdentityError, RunError
from proctor.plan import make_plan
from proctor.policies.protocol import PolicySpec
from proctor.store.outcomes import Outcomes
from proctor.store.run_directory import RunDirectory
from proctor.types import Task


def node(name: str, cpu: str, fingerprint: str = "f") -> NodeHandle:
    identity: dict[str, Any] = {"cpu": cpu, "policy": {"fingerprint": fingerprint}}
    return NodeHandle(name, name, 1, MagicMock(), Future(), facts=RunFacts(identity, PolicySpec(), ()))


def quiet(notes: list[str]) -> RunContext:
    """A run to which no signal comes."""
    return RunContext(ExitStack(), MagicMock(count=0), MagicMock(note=notes.append))


def make_driver(directory: Path, notes: list[str], stored: dict[str, Any] | None = None) -> Driver:
    settings = build_settings(tiny_tree(directory / "run", cluster={"address": "auto"}))
    return Driver(settings, RunDirectory(directory / "run"), Payload(), stored, quiet(notes))


class Election:
    """A driver whose nodes have all answered."""

    def __init__(self, directory: Path, *nodes: NodeHandle, stored: dict[str, Any] | None = None) -> None:
        self.notes: list[str] = []
        driver = make_driver(directory, self.notes, stored)
        driver.pool = MagicMock(nodes=list(nodes))
        driver._vote(nodes)
        self.admitted = [node.name for node in nodes if node.admitted]


def test_what_most_nodes_have_is_the_runs_and_the_others_are_refused_with_every_difference(tmp_path: Path) -> None:
    election = Election(tmp_path, node("x", "old", "g"), node("y", "new"), node("z", "new"))
    assert election.admitted == ["y", "z"]
    (note,) = election.notes
    assert note.startswith("node x is refused")
    assert "cpu: the run has 'new', the node 'old'" in note
    assert "policy.fingerprint: the run has 'f', the node 'g'" in note


def test_where_opinions_are_divided_evenly_the_first_node_decides(tmp_path: Path) -> None:
    assert Election(tmp_path, node("own", "a"), node("x", "b")).admitted == ["own"]


def test_a_run_that_goes_on_keeps_its_identity_against_any_majority(tmp_path: Path) -> None:
    stored = {"cpu": "old", "policy": {"fingerprint": "f"}}
    election = Election(tmp_path, node("x", "new"), node("y", "new"), node("z", "old"), stored=stored)
    assert election.admitted == ["z"]


def test_a_run_that_no_node_can_go_on_with_is_refused_as_on_one_machine(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match="cpu: the run has 'old', this command gives 'new'"):
        Election(tmp_path, node("x", "new"), stored={"cpu": "old", "policy": {"fingerprint": "f"}})


def test_a_policy_that_cannot_be_known_again_runs_on_all_nodes_and_is_never_resumed(tmp_path: Path) -> None:
    nodes = [node("x", "a", "unknown 1"), node("y", "a", "unknown 2")]
    assert Election(tmp_path, *nodes).admitted == ["x", "y"]
    with pytest.raises(IdentityError, match="cannot be known again"):
        Election(tmp_path, *nodes, stored={"cpu": "a", "policy": {"fingerprint": "unknown 0"}})


class Deserted(Driver):
    """A driver whose nodes die while they get ready; its pool is made up, its rules are not."""

    def __init__(self, directory: Path, deaths: list[bool], stored: dict[str, Any] | None = None) -> None:
        self.notes: list[str] = []
        settings = build_settings(tiny_tree(directory / "run", cluster={"address": "auto"}))
        run = RunDirectory(directory / "run")
        super().__init__(settings, run, Payload(), stored, quiet(self.notes))
        one = node("x", "a")
        self.made_up: Any = MagicMock(nodes=[one], deserted=False)
        self.pool = self.made_up
        self._deaths = [(NodeNews(one, lost="killed for memory"), barred) for barred in deaths]

    def turn(self) -> None:
        news, barred = self._deaths.pop(0)
        self.made_up.nodes = []
        self.made_up.restarts.is_given_up.return_value = barred
        self._read(news)


def test_nodes_that_keep_dying_while_they_get_ready_are_told_of_and_not_waited_for(tmp_path: Path) -> None:
    driver = Deserted(tmp_path, [False, False, True])
    with pytest.raises(RunError, match="died there too often: killed for memory"):
        driver.wait_for_nodes()
    assert [note.split(":")[0] for note in driver.notes] == [
        "node x was lost while it got ready",
        "node x was lost while it got ready",
        "node x is refused",
    ]


def test_the_last_node_is_waited_for_until_a_look_says_that_it_is_gone(tmp_path: Path) -> None:
    driver = Deserted(tmp_path, [])
    driver.made_up.nodes = []
    plan = make_plan([Task("a", 0, "a", "a", 10)], 1, 0)  # one episode that nobody has
    dispatch = Dispatch(Outcomes(plan), plan, max_attempts=3)
    assert not driver._is_over(dispatch)
    driver.made_up.deserted = True
    assert driver._is_over(dispatch)
    assert "no node is left" in str(dispatch.error)


def test_a_run_that_goes_on_waits_for_the_nodes_that_can(tmp_path: Path) -> None:
    driver = Deserted(tmp_path, [], stored={"cpu": "b", "policy": {"fingerprint": "f"}})
    assert not driver._has_a_choice([node("x", "a")])
    assert driver._has_a_choice([node("x", "a"), node("y", "b")])
