"""How an environment is made: here, or in a worker process that knows nothing but what it is told.

A factory holds plain values only, so it can be sent from a script, a notebook or standard input; the worker loads
the benchmark, and with it whatever package it needs, by its path.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from proctor.benchmarks.protocol import Benchmark
from proctor.config.registry import load_object
from proctor.types import BenchmarkSpec, Task

if TYPE_CHECKING:
    from proctor.vector.env import SimulatorEnv


@dataclass(frozen=True)
class EnvFactory:
    """Makes environment `place` of `stride`. `environment` is what a worker adds to its environment variables."""

    benchmark: str
    settings: dict[str, Any]
    spec: dict[str, Any]
    task: dict[str, Any]
    place: int
    stride: int
    environment: dict[str, str] = field(default_factory=dict)
    maker: int = field(default_factory=os.getpid)

    def __call__(self) -> SimulatorEnv:
        """Make the environment, in a worker after becoming a good one."""
        if os.getpid() != self.maker:
            self._become_worker()
        from proctor.vector.env import SimulatorEnv

        return SimulatorEnv(
            self.load(), BenchmarkSpec.from_wire(self.spec), Task(**self.task), self.place, self.stride
        )

    def load(self) -> Benchmark:
        """Return the benchmark."""
        kind: type[Benchmark] = load_object(self.benchmark)
        return kind(kind.Settings(**self.settings))

    def _become_worker(self) -> None:
        os.environ.update(self.environment)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever steps decides what Ctrl-C means
        threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # A worker that waits for its parent notices its end; one whose simulator hangs would outlive it.
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)
