"""What a node tells its driver: gathered while nobody asks, taken as one piece."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from proctor.engine.executors.protocol import RunFacts
from proctor.errors import ProctorError
from proctor.store.schema import Attempt, EpisodeRecord, RunningEpisode
from proctor.types import EpisodeKey


@dataclass(frozen=True)
class NodeResult:
    """An episode that ended on a node, with its video's bytes and the files of its recording."""

    record: EpisodeRecord
    video: bytes | None = None
    recording: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeExit:
    """How a node's part of the run ended. `logs` are the last words of its children, if there was an error."""

    error: ProctorError | None = None
    startup: float = 0.0
    logs: dict[str, bytes] = field(default_factory=dict)


@dataclass
class NodeReport:
    """All that happened on a node since its last report, and where it stands."""

    facts: RunFacts | None = None
    logs: str = ""
    notes: list[str] = field(default_factory=list)
    begun: list[EpisodeKey] = field(default_factory=list)
    results: list[NodeResult] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    running: list[RunningEpisode] = field(default_factory=list)
    workers: int = 0
    busy: int = 0
    steps: int = 0
    exit: NodeExit | None = None


class ReportBuffer:
    """Takes news from the node's engine, in its thread, and gives them to whoever collects, in another."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._report = NodeReport()
        self._urgent = False

    @contextmanager
    def urgently(self) -> Iterator[NodeReport]:
        """Have the report, to put something in; then wake whoever collects."""
        with self._news:
            yield self._report
            self._urgent = True
            self._news.notify_all()

    def stand(self, workers: int, busy: int, steps: int, running: list[RunningEpisode]) -> None:
        """Tell how it goes; that can wait."""
        with self._news:
            self._report.workers, self._report.busy, self._report.steps = workers, busy, steps
            self._report.running = running

    def collect(self, seconds: float) -> NodeReport:
        """Return what there is, as soon as there is something, at the latest after `seconds`."""
        with self._news:
            self._news.wait_for(lambda: self._urgent, seconds)
            report = self._report
            self._report = NodeReport(workers=report.workers, busy=report.busy, steps=report.steps)
            self._urgent = False
        return report
