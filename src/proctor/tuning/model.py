"""A small queueing model of a run: workers, cores, a GPU and the policy's lanes, played through in no time.

Every worker goes round in a circle: it simulates a chunk of actions, draws, asks the policy and waits. Cores and
the GPU are shared evenly among whoever needs them at a moment. The policy answers in batches of a fixed
shape, held back by the rule that the host itself uses. Formulas for such networks take times to be exponential,
which ours are not at all; so the circle is played through, event by event.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from proctor.engine.policy_host import BatchHold

_ROUNDS = 24
"""Asks per worker that are played; the first quarter is not counted."""

_SPREAD = 0.2
"""By how much a worker's own work varies from chunk to chunk; without that all would march in step."""


@dataclass(frozen=True)
class Round:
    """What a worker does between two answers, in seconds: of a core, of the GPU, and of waiting for neither."""

    core: float
    gpu: float = 0.0
    delay: float = 0.0

    def with_more(self, core: float) -> Round:
        """Return a round that takes so many seconds more of a core."""
        return replace(self, core=self.core + core)


@dataclass(frozen=True)
class Service:
    """The policy's process.

    Attributes:
        rows: rows in a pass.
        lanes: passes that may run at once.
        core: seconds of a core in a pass.
        gpu: seconds of the GPU in a pass.
        delay: seconds that a pass takes besides.
    """

    rows: int
    lanes: int
    core: float = 0.0
    gpu: float = 0.0
    delay: float = 0.0


class _Shared:
    """Something that everybody gets an equal share of: `capacity` at most 1 for each, and no more in all."""

    def __init__(self, capacity: float) -> None:
        self._capacity = capacity
        # Served: how much each of those present has been given so far; it only grows.
        self._served = self._since = 0.0
        self._present: list[tuple[float, int, Callable[[], None]]] = []
        self._tickets = 0

    def _rate(self) -> float:
        return min(1.0, self._capacity / len(self._present))

    def _catch_up(self, now: float) -> None:
        if self._present:
            self._served += (now - self._since) * self._rate()
        self._since = now

    def enter(self, now: float, seconds: float, then: Callable[[], None]) -> None:
        """Take `seconds` of it, from now on, then go on."""
        self._catch_up(now)
        self._tickets += 1
        heapq.heappush(self._present, (self._served + seconds, self._tickets, then))

    def next_end(self) -> float:
        """When the next one is done, if nobody comes or goes before."""
        if not self._present:
            return float("inf")
        return self._since + max(0.0, self._present[0][0] - self._served) / self._rate()

    def finish(self, now: float) -> None:
        """Let the next one go on, whose end is now."""
        self._catch_up(now)
        _, _, then = heapq.heappop(self._present)
        then()


def asks_per_second(work: Round, service: Service | None, workers: int, cores: int) -> float:
    """Return how many chunks of actions all workers together use up in a second.

    Args:
        work: what a worker does between two answers; a policy inside the workers is part of it.
        service: the policy's own process, if it has one.
        workers: how many go round.
        cores: how many can be served at once.
    """
    return _Play(work, service, workers, cores).run()


class _Play:
    def __init__(self, work: Round, service: Service | None, workers: int, cores: int) -> None:
        self._work, self._service, self._workers = work, service, workers
        self._now = 0.0
        self._cores, self._gpu, self._nowhere = _Shared(cores), _Shared(1.0), _Shared(float("inf"))
        self._random = random.Random(workers)
        self._waiting: deque[float] = deque()
        self._computing = 0
        self._asks = 0
        self._patience = BatchHold(service.rows if service else 1)
        self._wake_at = float("inf")

    def run(self) -> float:
        for _ in range(self._workers):
            # Anywhere on its way at the start.
            self._cores.enter(0.0, self._work.core * self._random.random(), self._draw)
        enough = _ROUNDS * self._workers
        begun: tuple[float, int] | None = None
        while self._asks < enough:
            places = (self._cores, self._gpu, self._nowhere)
            first = min(places, key=_Shared.next_end)
            end = first.next_end()
            if self._wake_at < end:
                self._now, self._wake_at = self._wake_at, float("inf")
                self._start_passes()
            else:
                self._now = end
                first.finish(self._now)
            if begun is None and self._asks >= enough // 4:
                begun = (self._now, self._asks)
        assert begun is not None
        return (self._asks - begun[1]) / (self._now - begun[0])

    def _simulate(self) -> None:
        seconds = self._work.core * self._random.uniform(1 - _SPREAD, 1 + _SPREAD)
        self._cores.enter(self._now, seconds, self._draw)

    def _draw(self) -> None:
        self._in_turn([(self._gpu, self._work.gpu), (self._nowhere, self._work.delay)], self._ask)

    def _ask(self) -> None:
        if self._service is None:
            self._asks += 1
            self._simulate()
            return
        self._waiting.append(self._now)
        self._start_passes()

    def _start_passes(self) -> None:
        s = self._service
        assert s is not None
        while self._waiting and self._computing < s.lanes:
            if s.rows > 1 and len(self._waiting) < s.rows:
                if self._computing:
                    return  # the host fills up a batch while another lane computes
                others = self._workers - len(self._waiting)
                hold = self._patience.hold(len(self._waiting), others, self._waiting[0], self._now)
                if hold > 0:
                    self._wake_at = self._now + hold
                    return
            rows = min(s.rows, len(self._waiting))
            for _ in range(rows):
                self._waiting.popleft()
            self._computing += 1
            start = self._now

            def answered(rows: int = rows, start: float = start) -> None:
                self._computing -= 1
                self._patience.passed(start, self._now)
                self._asks += rows
                for _ in range(rows):
                    self._simulate()
                self._start_passes()

            self._in_turn([(self._cores, s.core), (self._gpu, s.gpu), (self._nowhere, s.delay)], answered)

    def _in_turn(self, stages: list[tuple[_Shared, float]], then: Callable[[], Any]) -> None:
        if not stages:
            then()
            return
        (place, seconds), *rest = stages
        if seconds > 0:
            place.enter(self._now, seconds, lambda: self._in_turn(rest, then))
        else:
            self._in_turn(rest, then)
