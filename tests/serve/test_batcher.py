"""Questions of many connections share calls of the policy, and nobody waits for company."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np
import pytest

from proctor.policies.protocol import Actions, Memory, Policy, PolicySpec, Window
from proctor.serve.batcher import Batcher, TimedChunk
from proctor.serve.session import ClientSession, PolicyNeeds, Refusal
from proctor.types import BenchmarkSpec, Task

BENCHMARK = BenchmarkSpec(name="bench", features={}, action_size=2)


class Slow(Policy):
    """Waits for its gate, notes how many rows each call had, and counts each episode's calls in its memory."""

    def __init__(self, batch: int, lanes: int = 1) -> None:
        self._spec = PolicySpec(batch=batch, lanes=lanes)
        self.entered, self.gate = threading.Semaphore(0), threading.Event()
        self.rows: list[int] = []

    @property
    def spec(self) -> PolicySpec:
        return self._spec

    def begin(self, task: Task) -> Memory:
        if task.name == "impossible":
            raise ValueError("no such task")
        return 0

    def act(
        self, windows: Sequence[Window], memories: Sequence[Memory], generators: Sequence[np.random.Generator]
    ) -> Actions:
        self.rows.append(len(windows))
        self.entered.release()
        self.gate.wait(60)
        return Actions(
            [np.full((1, 2), float(memory)) for memory in memories], [memory + 1 for memory in memories]
        )


class Crowd:
    """Some sessions at one batcher."""

    def __init__(self, policy: Policy, sessions: int, queue: int = 100) -> None:
        self.batcher = Batcher(policy, 2, queue)
        self.sessions = [ClientSession(PolicyNeeds.of(policy.spec, BENCHMARK, ())) for _ in range(sessions)]
        self.batcher.start()

    def ask(self, number: int, prompt: str = "go") -> Future[TimedChunk]:
        session = self.sessions[number]
        return self.batcher.ask(session, session.read({"prompt": prompt}))


def test_what_waits_is_answered_together_up_to_the_policys_batch() -> None:
    policy = Slow(batch=4)
    crowd = Crowd(policy, 8)
    first = crowd.ask(0)
    policy.entered.acquire()
    others = [crowd.ask(number) for number in range(1, 8)]
    policy.gate.set()
    assert [future.result(60).chunk.tolist() for future in [first, *others]] == [[[0.0, 0.0]]] * 8
    assert policy.rows == [1, 4, 3]
    crowd.batcher.stop()


def test_lanes_answer_side_by_side() -> None:
    policy = Slow(batch=1, lanes=3)
    crowd = Crowd(policy, 3)
    futures = [crowd.ask(number) for number in range(3)]
    for _ in futures:
        assert policy.entered.acquire(timeout=60)  # all three are inside the policy at once
    policy.gate.set()
    for future in futures:
        future.result(60)
    crowd.batcher.stop()


def test_each_session_has_its_own_memory_whoever_shares_its_calls() -> None:
    policy = Slow(batch=4)
    policy.gate.set()
    crowd = Crowd(policy, 2)
    for asked in range(3):
        assert crowd.ask(0).result(60).chunk[0, 0] == asked
    assert crowd.ask(1).result(60).chunk[0, 0] == 0
    assert crowd.ask(0).result(60).chunk[0, 0] == 3
    crowd.batcher.stop()


def test_an_episode_that_cannot_begin_fails_alone() -> None:
    policy = Slow(batch=4)
    crowd = Crowd(policy, 3)
    first = crowd.ask(0)
    policy.entered.acquire()
    bad, good = crowd.ask(1, "impossible"), crowd.ask(2)
    policy.gate.set()
    first.result(60)
    assert good.result(60).chunk.shape == (1, 2)
    with pytest.raises(Refusal, match=r"begin\(\) raised ValueError: no such task"):
        bad.result(60)
    crowd.batcher.stop()


def test_a_question_whose_client_left_is_not_asked() -> None:
    policy = Slow(batch=4)
    crowd = Crowd(policy, 3)
    first = crowd.ask(0)
    policy.entered.acquire()
    gone, waiting = crowd.ask(1), crowd.ask(2)
    assert gone.cancel()
    policy.gate.set()
    first.result(60)
    waiting.result(60)
    assert policy.rows == [1, 1]
    crowd.batcher.stop()
