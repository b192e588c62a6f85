"""Real workers that run short spans on command, so that a machine can be measured with what a run will use."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from proctor.config.settings import LimitSettings
from proctor.engine.host_handle import Host, HostHandle
from proctor.engine.interrupts import Interrupts
from proctor.engine.messages import as_error
from proctor.engine.process import wait_readable
from proctor.engine.worker_handle import WorkerHandle, WorkerRecipe
from proctor.errors import Interrupted, PolicyHostError, RunError
from proctor.machine.processes import cpu_seconds, peak_memory
from proctor.policies.protocol import PolicySpec
from proctor.store.schema import EpisodeRecord
from proctor.types import Episode, Task

_POLITE_SECONDS = 2.0
_SPANS = ("simulate", "draw", "wait")


@dataclass(frozen=True)
class TimedSpan:
    """What several workers did in the same while; seconds are averages per worker."""

    step: float
    draw: float
    """Of one drawing; 0 if nothing was drawn."""
    wait: float
    """Of one question to the policy."""
    round: float
    """From one question to the next."""
    core: float
    """Of a core, from one question to the next."""
    chunk: float
    """Steps from one question to the next."""
    draws: float
    """Drawings from one question to the next."""
    asks: int
    """Questions, all in all."""
    workers: int

    @property
    def asks_per_second(self) -> float:
        """Questions a second of all workers together."""
        return self.workers / self.round

    @property
    def frames_per_second(self) -> float:
        """Drawings a second of all workers together."""
        return self.asks_per_second * self.draws


class Probe:
    """Workers of one kind, started as they are needed and ended with the `with` block.

    Args:
        recipe: how they start.
        tasks: what they play, in turn.
        host: who answers them, if not they themselves.
        limits: when one counts as hung.
        interrupts: what stops it all.
    """

    def __init__(
        self,
        recipe: WorkerRecipe,
        tasks: Sequence[Task],
        host: Host | None,
        limits: LimitSettings,
        interrupts: Interrupts,
    ) -> None:
        self._recipe, self._tasks, self._host = recipe, tasks, host
        self._limits, self._interrupts = limits, interrupts
        self._workers: list[WorkerHandle] = []
        self._chunk = PolicySpec.from_wire(recipe.policy_spec).action_steps
        self._seed = 0
        self.startup = self.build = 0.0

    def __enter__(self) -> Probe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.child.ask_to_stop()
        for worker in self._workers:
            if self._host is not None:
                self._host.detach(worker.number)
            worker.child.reap(_POLITE_SECONDS if error is None else 0.0)
            worker.slot.close()

    @property
    def memory(self) -> int:
        """The most bytes that a worker has taken so far."""
        return max((peak_memory(worker.child.process.pid) for worker in self._workers), default=0)

    def run(self, workers: int, seconds: float) -> TimedSpan:
        """Let that many workers play at the same time, for about so long, after a short warm-up."""
        while len(self._workers) < workers:
            self._workers.append(WorkerHandle(len(self._workers), self._recipe, self._host))
        # Whole chunks: part of one would count as a whole question.
        chunk = self._chunk or 1
        first = self._play(2 * chunk)
        self.build = max(record.timing["build"] for record in first)
        warm = _Sum(self._play(2 * chunk))
        longest = max(1, min(task.max_steps for task in self._tasks) // chunk)
        asks = max(2, math.ceil(seconds / warm.per_ask(*_SPANS)))
        spans = math.ceil(asks / longest)
        length = math.ceil(asks / spans) * chunk
        pids = [worker.child.process.pid for worker in self._workers]
        before = sum(map(cpu_seconds, pids))
        # Spread over a round: in step, all would draw at once and ask at once, which no run does for long.
        total = _Sum(self._play(length, spans, spread=warm.per_ask(*_SPANS) / len(self._workers)))
        return TimedSpan(
            step=total.seconds("simulate") / total.steps,
            draw=total.seconds("draw") / total.looks if total.looks else 0.0,
            wait=total.per_ask("wait"),
            round=total.per_ask(*_SPANS),
            core=(sum(map(cpu_seconds, pids)) - before) / total.asks,
            chunk=total.steps / total.asks,
            draws=total.looks / total.asks,
            asks=total.asks,
            workers=len(self._workers),
        )

    def _play(self, steps: int, times: int = 1, spread: float = 0.0) -> list[EpisodeRecord]:
        """Let every worker play so many spans; each begins so many seconds after the one before it."""
        left = {worker.number: times for worker in self._workers}
        for worker in self._workers:
            self._order(worker, steps, left)
            time.sleep(spread)
        records: list[EpisodeRecord] = []
        while any(worker.assigned for worker in self._workers):
            waiting = [worker for worker in self._workers if worker.assigned]
            wait_readable([self._interrupts, *[worker.child.channel for worker in waiting]], 0.25)
            if self._interrupts.count:
                raise Interrupted
            self._check_host()
            for worker in waiting:
                worker.kill_if_hung(self._limits)
                for message in worker.child.channel.receive_all():
                    self._hear(worker, message, records)
                self._order(worker, steps, left)
        return records

    def _order(self, worker: WorkerHandle, steps: int, left: dict[int, int]) -> None:
        """Give a worker what it plays next, one ahead, so that it does not wait for us."""
        task = dataclasses.replace(self._tasks[worker.number % len(self._tasks)], max_steps=steps)
        while left[worker.number] and len(worker.assigned) < 2:
            left[worker.number] -= 1
            worker.give(Episode(task, 0, self._seed))
            self._seed += 1

    def _check_host(self) -> None:
        if not isinstance(self._host, HostHandle):
            return
        for message in self._host.child.channel.receive_all():
            if message["type"] == "closed":
                words = self._host.child.last_words()
                raise PolicyHostError(f"the policy's process died{f': {words}' if words else ''}")
            raise as_error(message)
        reason = self._host.hung(self._limits, any(worker.asks for worker in self._workers))
        if reason is not None:
            raise PolicyHostError(reason)

    def _hear(self, worker: WorkerHandle, message: dict[str, Any], records: list[EpisodeRecord]) -> None:
        match message["type"]:
            case "ready":
                self.startup = max(self.startup, message["startup"])
            case "done":
                worker.assigned.popleft()
                records.append(EpisodeRecord(**message["record"]))
            case "policy_error" | "policy_gone" | "benchmark_error":
                raise as_error(message)
            case "closed":
                raise RunError(
                    f"a simulator could not be measured: {worker.bury().reason} (log: {worker.child.log})"
                )
            case _:
                raise RunError(f"a simulator could not be measured: {message.get('reason', message['type'])}")


class _Sum:
    """Sums over records."""

    def __init__(self, records: Sequence[EpisodeRecord]) -> None:
        self._records = records
        self.steps = sum(record.steps for record in records)
        self.looks = sum(record.looks for record in records)
        self.asks = sum(record.asks for record in records)

    def seconds(self, *spans: str) -> float:
        return sum(record.timing[span] for record in self._records for span in spans)

    def per_ask(self, *spans: str) -> float:
        return self.seconds(*spans) / self.asks
