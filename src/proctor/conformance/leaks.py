"""What is left of a simulator that was closed: descriptors, threads, child processes, memory."""

from __future__ import annotations

import gc
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from proctor.benchmarks.protocol import Benchmark
from proctor.conformance.schedule import actions
from proctor.types import NO_LOOK, Episode, Task

_PATIENCE = 1.0
"""Seconds that threads and processes are given to end."""


@dataclass(frozen=True)
class Holdings:
    """What a process holds after a round of build, play and close; `memory` is in bytes."""

    descriptors: dict[str, int]
    threads: int
    children: int
    memory: int

    @property
    def total(self) -> int:
        """How many things that close should have freed."""
        return sum(self.descriptors.values()) + self.threads + self.children


def count_leaks(benchmark: Benchmark, task: Task, seed: int, rounds: int) -> list[Holdings]:
    """Build, use and close a simulator many times; returns what is held after each."""
    found: list[Holdings] = []
    for _ in range(rounds - 1):
        _use_once(benchmark, task, seed)
        found.append(_count())
    _use_once(benchmark, task, seed)
    return [*found, _settled(found[-1].total)]


def _use_once(benchmark: Benchmark, task: Task, seed: int) -> None:
    simulator = benchmark.make_simulator(task)
    try:
        keys = frozenset(benchmark.spec.every)
        simulator.reset(Episode(task, 0, seed), keys)
        simulator.observe()
        for action in islice(actions(benchmark.spec, (seed, 0)), 2):
            outcome = simulator.step(action, NO_LOOK)
            if outcome.terminated or outcome.truncated:
                break
    finally:
        simulator.close()


def _settled(at_most: int) -> Holdings:
    """Count, and again for a while if there is more than before: threads take a moment to end."""
    deadline = time.monotonic() + _PATIENCE
    while (holdings := _count()).total > at_most and time.monotonic() < deadline:
        time.sleep(0.02)
    return holdings


def _count() -> Holdings:
    gc.collect()
    tasks = list(Path("/proc/self/task").iterdir())
    children = sum(len(_read(task / "children").split()) for task in tasks)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Holdings(_descriptors(), len(tasks), children, pages * os.sysconf("SC_PAGE_SIZE"))


def _descriptors() -> dict[str, int]:
    return dict(Counter(_targets(Path("/proc/self/fd").iterdir())))


def _targets(entries: Iterable[Path]) -> Iterable[str]:
    for entry in entries:
        try:
            # Sockets and pipes carry a number of their own; their kind is what counts.
            yield str(entry.readlink()).partition(":[")[0]
        except OSError:
            continue  # the descriptor of this very listing


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
