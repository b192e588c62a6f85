"""With `--eval.batch_size=0` a run takes more workers while that makes it faster; results stay the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import Digests, digests, flags, run_tiny, tiny_tree
from proctor.engine import workforce as workforce_module
from proctor.engine.executors import local, this_machine
from proctor.engine.workforce import WINDOW, WorkerAutoscaler, WorkerLoad
from proctor.events import Progress, Watcher


class Machine:
    """A run whose steps come in proportion to the workers, up to `useful` of them, and then slower again."""

    def __init__(self, useful: int, cores: int, core_share: float, waiting: int = 10**6) -> None:
        self._useful, self._cores, self._core_share, self._waiting = useful, cores, core_share, waiting
        self._time = self._steps = self._core_seconds = 0.0

    def run(self, autoscaler: WorkerAutoscaler, seconds: float) -> list[int]:
        seen = []
        for _ in range(int(seconds / 0.25)):
            workers = autoscaler.target
            self._time += 0.25
            self._steps += 100 * 0.25 * (workers if workers <= self._useful else 0.97 * self._useful)
            self._core_seconds += 0.25 * min(self._cores, workers * self._core_share)
            autoscaler.look(WorkerLoad(self._time, int(self._steps), self._core_seconds, workers, self._waiting))
            seen.append(autoscaler.target)
        return seen


def test_workers_are_added_while_steps_come_quicker() -> None:
    autoscaler = WorkerAutoscaler(8, 32, cores=8)
    seen = Machine(useful=18, cores=8, core_share=0.2).run(autoscaler, 120)
    assert autoscaler.settled
    assert autoscaler.target == 18  # 8, 12, 18 helped; 27 did not
    assert max(seen) == 27


def test_busy_cores_get_no_more_workers() -> None:
    autoscaler = WorkerAutoscaler(8, 32, cores=8)
    assert set(Machine(useful=99, cores=8, core_share=1.0).run(autoscaler, 60)) == {8}
    assert autoscaler.settled


def test_a_gpu_that_draws_is_tried_with_more_even_if_its_driver_spins() -> None:
    autoscaler = WorkerAutoscaler(8, 32, cores=8, on_gpu=True)
    Machine(useful=99, cores=8, core_share=1.0).run(autoscaler, 120)
    assert autoscaler.target == 32


def test_near_the_end_nobody_is_started_for_nothing() -> None:
    autoscaler = WorkerAutoscaler(8, 32, cores=8)
    assert set(Machine(useful=99, cores=8, core_share=0.1, waiting=20).run(autoscaler, 60)) == {8}


def test_a_number_that_was_asked_for_stays() -> None:
    autoscaler = WorkerAutoscaler(5, 5, cores=8)
    assert autoscaler.settled
    assert set(Machine(useful=99, cores=8, core_share=0.1).run(autoscaler, 60)) == {5}


def test_nothing_is_judged_before_all_are_at_work() -> None:
    autoscaler = WorkerAutoscaler(4, 16, cores=4)
    for tick in range(1000):
        autoscaler.look(WorkerLoad(tick, tick, 0.0, working=3, waiting=10**6))
    assert autoscaler.target == 4
    assert not autoscaler.settled


@settings(deadline=None)
@given(
    start=st.integers(1, 40),
    more=st.integers(0, 80),
    rates=st.lists(st.floats(0, 1e6), min_size=40, max_size=40),
    spare=st.booleans(),
)
def test_the_number_stays_in_its_bounds_and_comes_to_rest(
    start: int, more: int, rates: list[float], spare: bool
) -> None:
    autoscaler = WorkerAutoscaler(start, start + more, cores=4)
    time = steps = used = 0.0
    for rate in rates:
        for _ in range(3):
            time, steps, used = time + WINDOW, steps + rate * WINDOW, used + (0 if spare else 4 * WINDOW)
            autoscaler.look(WorkerLoad(time, int(steps), used, autoscaler.target, 10**6))
            assert start <= autoscaler.target <= start + more
    assert autoscaler.settled


class Counts(Watcher):
    def __init__(self) -> None:
        self.workers: list[int] = []

    def progress(self, progress: Progress) -> None:
        self.workers.append(progress.workers)


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a small machine: with many cores so few episodes would not ask for more workers."""
    for module in (local, this_machine):
        monkeypatch.setattr(module, "usable_cores", lambda: 2)


@pytest.mark.usefixtures("two_cores")
def test_a_run_that_leaves_cores_idle_takes_more_workers_and_gives_the_same_bits(
    tmp_path: Path, reference: Digests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workforce_module, "WINDOW", 0.6)
    counts = Counts()
    # A simulator that sleeps: no core is busy, so more of them at once are quicker.
    evaluation = run_tiny(
        tmp_path / "run", watcher=counts, n_episodes=40, env={"delay": 0.01}, eval={"batch_size": 0}
    )
    assert evaluation.error is None
    assert counts.workers[0] == 2
    assert max(counts.workers) > 2
    assert reference.items() <= digests(evaluation).items()
    assert len(digests(evaluation)) == 120


@pytest.mark.usefixtures("two_cores")
def test_workers_that_did_not_help_are_let_go_and_nothing_is_lost(
    tmp_path: Path, reference: Digests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workforce_module, "WINDOW", 0.3)
    monkeypatch.setattr(workforce_module, "_WORTH_IT", 1e9)
    counts = Counts()
    evaluation = run_tiny(
        tmp_path / "run", watcher=counts, n_episodes=40, env={"delay": 0.01}, eval={"batch_size": 0}
    )
    assert evaluation.error is None
    assert max(counts.workers) > 2
    assert counts.workers[-1] == 2
    assert reference.items() <= digests(evaluation).items()
    assert all(record.attempts == 1 for record in evaluation.records)


def test_a_run_goes_on_with_the_workers_that_there_is_room_for(tmp_path: Path, reference: Digests) -> None:
    """Asked for more than descriptors allow, it says so and is content with fewer."""
    tree = tiny_tree(tmp_path / "run", n_episodes=10, eval={"batch_size": 30})
    command = [
        "sh",
        "-c",
        'ulimit -n 64; exec "$@"',
        "sh",
        sys.executable,
        "-m",
        "proctor",
        "eval",
        *flags(tree),
    ]
    done = subprocess.run([*command, "--display=plain"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "no room for another worker" in done.stdout
    assert "Traceback" not in done.stderr
    assert reference.items() <= digests(tmp_path / "run").items()
