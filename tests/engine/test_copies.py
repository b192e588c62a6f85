"""Copies of a policy for which everybody waits: made while a run goes on, and the same answer every time."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import SUPPORT, Digests, digests, run_tiny
from proctor.engine.copies import WINDOW, CallCost, CallMeter, HostLoad, Room, choose_copies
from proctor.events import Watcher
from tiny_policies import aside

SLOW = f"{SUPPORT / 'tiny_policies.py'}:Slow"
EPISODES = 12
LIMIT = {"max_steps": 400}
"""So much may be left to do that copies pay, however long a busy machine takes to load one."""
BUSY = CallCost(act=0.005, saturated=True, per_step=1.0)
ROOM = Room(workers=16, cores=16, load=1.0, copies=1000, in_workers=True)


class Notes(Watcher):
    """Keeps what the user is told, and lets the policy hurry when it has told enough."""

    def __init__(self, hurry: Path, until: str) -> None:
        self.told: list[str] = []
        self._hurry, self._until = hurry, until

    def note(self, message: str) -> None:
        self.told.append(message)
        if self._until in message:
            self.react()
            if not self._hurry.exists():
                self._hurry.touch()

    def react(self) -> None:
        """Do nothing else."""


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Digests:
    """The digests of the same policy, in a hurry from the start, undisturbed in one worker."""
    folder = tmp_path_factory.mktemp("quick")
    policy = {"path": SLOW, "kwargs": {"hurry": aside(folder)}, "placement": "worker"}
    found = digests(
        run_tiny(folder / "run", policy=policy, env=LIMIT, n_episodes=EPISODES, eval={"batch_size": 1})
    )
    assert len(found) == 3 * EPISODES
    return found


def run_slow(
    folder: Path,
    until: str,
    policy: Mapping[str, Any] | None = None,
    watcher: type[Notes] = Notes,
    **kwargs: Any,
) -> Digests:
    """Return the digests of a run that begins with one host and tells what `until` says."""
    notes = watcher(folder / "hurry", until)
    given = {"path": SLOW, "kwargs": {"hurry": aside(folder / "hurry"), **kwargs}, **(policy or {})}
    evaluation = run_tiny(
        folder / "run", policy=given, env=LIMIT, n_episodes=EPISODES, watcher=notes, eval={"batch_size": 3}
    )
    assert evaluation.error is None
    assert any(until in note for note in notes.told), notes.told
    return digests(evaluation)


COPIES = "every worker loads a copy of its own"


def test_workers_load_copies_of_a_policy_for_which_they_wait(tmp_path: Path, quick: Digests) -> None:
    assert run_slow(tmp_path, COPIES, processes=3) == quick


def test_several_hosts_answer_for_a_policy_of_another_interpreter(tmp_path: Path, quick: Digests) -> None:
    told = "processes answer for it"
    assert run_slow(tmp_path, told, {"python": sys.executable}, processes=2) == quick


def test_a_policy_that_cannot_be_loaded_twice_is_asked_as_before(tmp_path: Path, quick: Digests) -> None:
    told = "workers ask the one process that has the policy"
    assert run_slow(tmp_path, told, alone=aside(tmp_path / "alone")) == quick


def test_a_second_host_that_cannot_load_the_policy_is_done_without(tmp_path: Path, quick: Digests) -> None:
    told = "another copy of the policy could not load it"
    assert run_slow(tmp_path, told, {"python": sys.executable}, alone=aside(tmp_path / "alone")) == quick


def test_a_policy_that_holds_connections_is_not_copied(tmp_path: Path, quick: Digests) -> None:
    assert run_slow(tmp_path, "because it has connections of its own", port=True) == quick


class Killer(Notes):
    """Kills a worker when it hears of copies."""

    def react(self) -> None:
        children = psutil.Process().children(recursive=True)
        workers = [child for child in children if "engine.child" in " ".join(child.cmdline())]
        os.kill(workers[-1].pid, signal.SIGKILL)


def test_a_worker_that_dies_at_its_copy_changes_nothing(tmp_path: Path, quick: Digests) -> None:
    assert run_slow(tmp_path, COPIES, watcher=Killer) == quick


def test_a_policy_that_was_placed_by_hand_stays_there(tmp_path: Path, quick: Digests) -> None:
    notes = Notes(tmp_path / "hurry", "copy")
    policy = {"path": SLOW, "kwargs": {"hurry": aside(tmp_path)}, "placement": "central"}
    evaluation = run_tiny(
        tmp_path / "run", policy=policy, env=LIMIT, n_episodes=EPISODES, watcher=notes, eval={"batch_size": 3}
    )
    assert digests(evaluation) == quick
    assert notes.told == []


def test_a_dear_load_does_not_pay_for_what_little_is_left() -> None:
    assert choose_copies(BUSY, 10_000, ROOM) == 16
    assert choose_copies(BUSY, 100, ROOM) == 1


def test_a_host_that_is_not_waited_for_stays_alone_unless_the_way_to_it_is_what_takes_time() -> None:
    idle = CallCost(act=0.005, saturated=False, per_step=1.0)
    assert choose_copies(idle, 100_000, ROOM) == 1
    quick = CallCost(act=0.00001, saturated=False, per_step=1.0)
    assert choose_copies(quick, 10_000_000, ROOM) == 16
    crowded = Room(workers=8, cores=2, load=0.3, copies=1000, in_workers=True)
    assert choose_copies(quick, 300_000, crowded) == 8
    elsewhere = Room(workers=16, cores=16, load=1.0, copies=1000, in_workers=False)
    assert choose_copies(quick, 10_000_000, elsewhere) == 1  # the way to several is as long


@given(st.integers(1, 64), st.integers(1, 64), st.integers(0, 64), st.booleans(), st.integers(0, 10**7))
def test_there_are_never_more_copies_than_workers_or_than_memory_has_room_for(
    workers: int, cores: int, copies: int, in_workers: bool, steps: int
) -> None:
    room = Room(workers, cores, 0.1, copies, in_workers)
    assert 1 <= choose_copies(BUSY, steps, room) <= max(1, min(workers, copies))


@given(st.integers(1, 10**6), st.integers(2, 64), st.integers(2, 64))
def test_more_left_to_do_never_speaks_against_copies(steps: int, workers: int, cores: int) -> None:
    room = Room(workers, cores, 0.5, 1000, True)
    assert choose_copies(BUSY, 2 * steps, room) >= choose_copies(BUSY, steps, room)


def test_calls_are_judged_by_a_window_of_real_ones_without_the_first() -> None:
    meter = CallMeter()
    assert meter.look(HostLoad(0.0, 0, 0.0, 0)) is None
    assert meter.look(HostLoad(5.0, 1, 5.0, 1)) is None  # it has compiled something, say
    assert meter.look(HostLoad(5.0 + WINDOW / 2, 50, 5.5, 60)) is None
    cost = meter.look(HostLoad(5.0 + WINDOW, 101, 5.0 + WINDOW, 201))
    assert cost is not None
    assert (round(cost.act, 4), cost.saturated, cost.per_step) == (round(WINDOW / 100, 4), True, 0.5)
