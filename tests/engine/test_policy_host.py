"""When a batch that is not full is started, and how several lanes answer one policy's questions."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness import run_tiny
from proctor.engine.eventfd import EventFd
from proctor.engine.policy_host import CELL_BYTES, BatchHold, PolicyServer
from proctor.engine.transport import PhaseCell, Slot, new_memory
from proctor.errors import RunError
from proctor.policies.protocol import Actions, Memory, Policy, PolicySpec, Window
from proctor.types import Episode, Task

# When a batch is started.


def after(passes: int, seconds: float, pause: float, batch: int = 8) -> tuple[BatchHold, float]:
    hold, clock = BatchHold(batch), 100.0
    for _ in range(passes):
        hold.passed(clock, clock + seconds)
        clock += seconds + pause
    return hold, clock


def test_a_device_with_time_to_spare_answers_at_once() -> None:
    hold, now = after(50, seconds=0.005, pause=0.1)
    assert not hold.busy
    assert hold.hold(waiting=1, others=7, oldest=now, now=now) == 0


def test_the_first_question_is_answered_at_once() -> None:
    assert BatchHold(8).hold(waiting=1, others=7, oldest=5.0, now=5.0) == 0


def test_a_device_that_everybody_waits_for_holds_back_for_at_most_a_pass() -> None:
    hold, now = after(50, seconds=0.03, pause=0.001)
    assert hold.hold(waiting=2, others=6, oldest=now, now=now) == pytest.approx(0.03, rel=0.05)
    assert hold.hold(waiting=2, others=6, oldest=now - 0.04, now=now) == 0


def test_a_full_batch_and_a_batch_of_all_there_are_start_at_once() -> None:
    hold, now = after(50, seconds=0.03, pause=0.0)
    assert hold.hold(waiting=8, others=4, oldest=now, now=now) == 0
    assert hold.hold(waiting=3, others=0, oldest=now, now=now) == 0


@given(
    st.lists(st.tuples(st.floats(1e-4, 2), st.floats(0, 2)), max_size=30),
    st.integers(1, 16),
    st.integers(0, 16),
    st.floats(0, 1),
)
def test_nobody_is_held_for_longer_than_the_longest_pass(
    passes: list[tuple[float, float]], waiting: int, others: int, age: float
) -> None:
    hold, clock = BatchHold(8), 0.0
    for seconds, pause in passes:
        hold.passed(clock, clock + seconds)
        clock += seconds + pause
    longest = max((seconds for seconds, _ in passes), default=0.0)
    assert 0 <= hold.hold(waiting, others, clock - age, clock) <= longest + 1e-9


# Lanes: each question is answered once, and in the episode's own order.


LANES, WORKERS, QUESTIONS = 4, 8, 60
# Writing a long chunk takes a while and lets other threads run meanwhile.
CHUNK = 60_000


class Counting(Policy):
    """Answers with the number of the question, by its own count in the episode's memory."""

    def __init__(self) -> None:
        self.calls = 0

    @property
    def spec(self) -> PolicySpec:
        return PolicySpec(observation_keys=("number",), action_size=1, batch=1, lanes=LANES)

    def begin(self, task: Task) -> Memory:
        return [0]

    def act(
        self, windows: Sequence[Window], memories: Sequence[Memory], generators: Sequence[np.random.Generator]
    ) -> Actions:
        chunks: list[NDArray[Any]] = []
        for memory in memories:
            memory[0] += 1
            chunks.append(np.full((CHUNK, 1), float(memory[0])))
        self.calls += len(windows)
        return Actions(chunks, list(memories))


@pytest.fixture
def bell() -> Iterator[EventFd]:
    bell = EventFd()
    yield bell
    bell.close()


def test_no_question_is_answered_twice_however_many_lanes_there_are(bell: EventFd) -> None:
    policy = Counting()
    blamed: list[RunError] = []
    memory = new_memory("proctor-test", CELL_BYTES * LANES)
    cells_map = mmap.mmap(memory, CELL_BYTES * LANES)
    cells = [PhaseCell(cells_map, CELL_BYTES * lane) for lane in range(LANES)]
    server = PolicyServer(policy, 1, bell, generation=0, blame=blamed.append, cells=cells)
    with ExitStack() as stack:
        stack.callback(os.close, memory)
        ends = [Slot.create() for _ in range(WORKERS)]
        for number, end in enumerate(ends):
            stack.callback(end.close)
            server.attach(number, Slot(*map(os.dup, end.descriptors)))
        server.start()
        stack.callback(server.stop, 10.0)

        def ask_all(number: int) -> list[set[float]]:
            task = Task(group="g", task_id=number, name=f"t{number}", prompt="p", max_steps=10)
            header = msgpack.packb(Episode(task, 0, 0).to_wire())
            answers: list[set[float]] = []
            for question in range(QUESTIONS):
                window = [{"number": np.array([float(question)])}]
                chunk = ends[number].ask(header if question == 0 else b"", window, bell, generation=0)
                answers.append(set(chunk.ravel().tolist()))
            return answers

        with ThreadPoolExecutor(WORKERS) as workers:
            told = list(workers.map(ask_all, range(WORKERS)))
    assert not blamed
    assert told == [[{float(question)} for question in range(1, QUESTIONS + 1)]] * WORKERS
    assert policy.calls == WORKERS * QUESTIONS


# How a host ends.

LEAVES_SOMETHING = """
import atexit, threading
from pathlib import Path
from tiny_policies import Thoughtful

class Leaving(Thoughtful):
    pass

def note(word):
    with Path(__file__).with_suffix(".txt").open("a") as file:
        file.write(word + "\\n")

def wait():
    threading.main_thread().join()
    note("thread")

left_open = Path(__file__).with_suffix(".log").open("w")
left_open.write("not flushed")
atexit.register(note, "atexit")
threading.Thread(target=wait).start()
"""


def test_what_a_policy_leaves_for_the_end_of_its_process_is_done(tmp_path: Path) -> None:
    (file := tmp_path / "leaving.py").write_text(LEAVES_SOMETHING)
    evaluation = run_tiny(
        tmp_path / "run", task="a", n_episodes=1, policy={"path": f"{file}:Leaving", "placement": "central"}
    )
    assert evaluation.error is None
    assert file.with_suffix(".txt").read_text().split() == ["thread", "atexit"]
    assert file.with_suffix(".log").read_text() == "not flushed"
