"""The queue before the policy: bounded, first come first served, answered in batches across connections.

No fixed wait: a lane takes what is there, up to the policy's batch, and answers it in one call. Several lanes are
several threads around one copy of the weights.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from numpy.typing import NDArray

from proctor.engine.policy_session import PolicySession, answer
from proctor.policies.protocol import Policy
from proctor.serve.session import ClientSession, Question, Refusal
from proctor.types import Episode


class TimedChunk(NamedTuple):
    """A chunk of actions, and the seconds that the policy took for it."""

    chunk: NDArray[Any]
    seconds: float


@dataclass(frozen=True, eq=False)
class _Request:
    session: ClientSession
    question: Question
    future: Future[TimedChunk] = field(default_factory=Future)


class Batcher:
    """Answers questions in threads of this process.

    Args:
        policy: the policy.
        action_size: numbers in one action of the benchmark.
        most_waiting: how many questions may wait for a lane; one more is refused.
    """

    def __init__(self, policy: Policy, action_size: int, most_waiting: int) -> None:
        self._policy, self._action_size, self._most = policy, action_size, most_waiting
        self._batch = policy.spec.batch
        self._waiting: deque[_Request] = deque()
        self._news = threading.Condition()
        self._stopped = False
        self._lanes = [
            threading.Thread(target=self._serve, name=f"proctor-lane-{number}", daemon=True)
            for number in range(policy.spec.lanes)
        ]

    def start(self) -> None:
        """Start the lanes."""
        for lane in self._lanes:
            lane.start()

    def stop(self) -> None:
        """Let the lanes end after what they are doing; nobody waits for a policy that hangs."""
        with self._news:
            self._stopped = True
            self._news.notify_all()

    def ask(self, session: ClientSession, question: Question) -> Future[TimedChunk]:
        """Queue a question. Raises `Refusal` when too many wait already."""
        request = _Request(session, question)
        with self._news:
            if len(self._waiting) >= self._most:
                raise Refusal(
                    f"the server is full: {self._most} questions wait already (--queue). "
                    "Ask from fewer places at once, or start it with a larger --queue"
                )
            self._waiting.append(request)
            self._news.notify()
        return request.future

    def _serve(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._waiting or self._stopped)
                if self._stopped:
                    return
                taken = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
            self._answer([request for request in taken if request.future.set_running_or_notify_cancel()])

    def _answer(self, requests: list[_Request]) -> None:
        ready: list[tuple[_Request, PolicySession]] = []
        for request in requests:
            try:
                ready.append((request, self._episode(request)))
            except Exception as error:
                request.future.set_exception(_told(error))
        if not ready:
            return
        started = time.monotonic()
        try:
            episodes = [episode for _, episode in ready]
            chunks = answer(
                self._policy, self._action_size, episodes, [request.question.window for request, _ in ready]
            )
        except Exception as error:
            told = _told(error)
            for request, _ in ready:
                request.future.set_exception(told)
            return
        seconds = time.monotonic() - started
        for (request, _), chunk in zip(ready, chunks, strict=True):
            request.future.set_result(TimedChunk(chunk, seconds))

    def _episode(self, request: _Request) -> PolicySession:
        start = request.question.start
        if start is not None:
            request.session.episode = PolicySession(self._policy, Episode(start.task, 0, 0))
            request.session.episode.generator = start.generator
        episode = request.session.episode
        assert episode is not None
        if request.question.prompt is not None:
            episode.prompt = request.question.prompt
        return episode


def _told(error: Exception) -> Refusal:
    """Return a policy's error as the client is told it; whoever runs the server sees where it came from."""
    print("".join(traceback.format_exception(error)), file=sys.stderr, flush=True)  # noqa: T201
    # A server does not know which episode of a run it plays.
    # Its first line: where in this machine's files it happened is nothing for whoever is connected.
    return Refusal(str(error).partition("\n")[0].replace(", episode 0, step", ", step"))
