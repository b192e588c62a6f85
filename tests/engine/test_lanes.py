"""Several lanes answer one policy's questions: each question once, and in the episode's own order."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import msgpack
import numpy as np
import pytest
from numpy.typing import NDArray

from proctor.engine.eventfd import EventFd
from proctor.engine.policy_host import CELL_BYTES, PolicyServer
from proctor.engine.transport import PhaseCell, Slot, new_memory
from proctor.errors import RunError
from proctor.policies.protocol import Actions, Memory, Policy, PolicySpec, Window
from proctor.types import Episode, Task

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
