"""What a node tells its driver: gathered while nobody asks, taken as one piece."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from proctor.engine.site import Settled
from proctor.errors import ProctorError
from proctor.store.schema import Attempt, EpisodeRecord, RunningEpisode
from proctor.types import EpisodeKey


@dataclass(frozen=True)
class Result:
    """An episode that ended on a node, with its video's bytes if it has one."""

    record: EpisodeRecord
    video: bytes | None = None


@dataclass(frozen=True)
class Leaving:
    """How a node's part of the run ended. `logs` are the last words of its children, if there was an error."""

    error: ProctorError | None = None
    startup: float = 0.0
    logs: dict[str, bytes] = field(default_factory=dict)


@dataclass
class Mail:
    """All that happened on a node since its last mail, and where it stands."""

    settled: Settled | None = None
    logs: str = ""
    notes: list[str] = field(default_factory=list)
    begun: list[EpisodeKey] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    running: list[RunningEpisode] = field(default_factory=list)
    workers: int = 0
    busy: int = 0
    steps: int = 0
    leaving: Leaving | None = None


class Mailbox:
    """Takes news from the node's engine, in its thread, and gives them to whoever collects, in another."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._mail = Mail()
        self._urgent = False

    def settled(self, settled: Settled, logs: str) -> None:
        """Tell that policy and benchmark are ready, and where their logs lie."""
        with self._urgently():
            self._mail.settled, self._mail.logs = settled, logs

    def note(self, message: str) -> None:
        """Tell something that the user should read."""
        with self._urgently():
            self._mail.notes.append(message)

    def begun(self, key: EpisodeKey) -> None:
        """Tell that a worker has an episode: if the node is lost, that was an attempt."""
        with self._urgently():
            self._mail.begun.append(key)

    def results(self, results: list[Result], attempts: list[Attempt], running: list[RunningEpisode]) -> None:
        """Tell what ended, and how far the others are at that moment."""
        with self._urgently():
            self._mail.results += results
            self._mail.attempts += attempts
            self._mail.running = running

    def standing(self, workers: int, busy: int, steps: int, running: list[RunningEpisode]) -> None:
        """Tell how it goes; that can wait."""
        with self._news:
            self._mail.workers, self._mail.busy, self._mail.steps = workers, busy, steps
            self._mail.running = running

    def leave(self, leaving: Leaving) -> None:
        """Tell that nothing more will come."""
        with self._urgently():
            self._mail.leaving = leaving

    def collect(self, seconds: float) -> Mail:
        """Return what there is, as soon as there is something, at the latest after `seconds`."""
        with self._news:
            self._news.wait_for(lambda: self._urgent, seconds)
            mail = self._mail
            self._mail = Mail(workers=mail.workers, busy=mail.busy, steps=mail.steps)
            self._urgent = False
        return mail

    @contextmanager
    def _urgently(self) -> Iterator[None]:
        """Hold the mail, then wake whoever collects."""
        with self._news:
            yield
            self._urgent = True
            self._news.notify_all()
