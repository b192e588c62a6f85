"""A node of the cluster: the ordinary engine in a Ray actor, fed by the driver, whose results go to it as mail."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proctor.cluster.baggage import Baggage, Tree
from proctor.cluster.folder import NodeFolder, node_folder
from proctor.cluster.mail import Leaving, Mail, Mailbox, Result
from proctor.config.load import build_settings
from proctor.engine.evaluation import check_interpreter
from proctor.engine.feed import Feed
from proctor.engine.interrupts import Interrupts
from proctor.engine.local import ThisMachine
from proctor.errors import Interrupted, ProctorError, RunError
from proctor.events import Progress, Watcher
from proctor.plan import make_plan
from proctor.store.identity import Identity
from proctor.store.outcomes import Outcomes
from proctor.store.schema import Attempt, EpisodeRecord, Ledger, RunningEpisode
from proctor.store.videos import video_place
from proctor.types import Episode


@dataclass(frozen=True)
class Order:
    """What a node is told at its start.

    Attributes:
        name: names the node's folder.
        settings: all settings, as plain values; `eval.batch_size` is this node's.
        stored: the identity that the run has, where it has one already.
        baggage: what was sent along.
    """

    name: str
    settings: Tree
    stored: Identity | None
    baggage: Baggage


class Node:
    """The actor. One thread is the engine for the actor's whole life: its children die with that thread."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._mailbox = Mailbox()
        self._interrupts = Interrupts()
        self._feed = Feed(self._interrupts.wake)
        self._expected = 0
        self._begin = threading.Event()
        threading.Thread(target=self._live, name="engine", daemon=True).start()

    # What the driver calls, from threads of Ray's.

    def collect(self, seconds: float) -> Mail:
        """Return the news, as soon as there are any."""
        return self._mailbox.collect(seconds)

    def begin(self, expected: int) -> None:
        """Start to work, on about so many episodes."""
        self._expected = expected
        self._begin.set()

    def give(self, episodes: list[dict[str, Any]]) -> None:
        """Take episodes to run."""
        self._feed.give(map(Episode.from_wire, episodes))

    def close(self) -> None:
        """End after what was given."""
        self._feed.close()

    def stop(self, at_once: bool) -> None:
        """Give the episodes in flight their grace, or none."""
        self._interrupts.stop(2 if at_once else 1)
        self._begin.set()

    # The engine's thread.

    def _live(self) -> None:
        try:
            with ExitStack() as stack:
                stack.enter_context(self._interrupts)
                folder = stack.enter_context(node_folder(f"{self._order.name}-{os.getpid()}"))
                leaving = self._work(stack, folder)
        except ProctorError as error:
            leaving = Leaving(error)
        except Exception as error:  # whatever it is, the driver must hear of it
            traceback.print_exc()
            leaving = Leaving(RunError(f"{type(error).__name__}: {error}"))
        self._mailbox.leave(leaving)

    def _work(self, stack: ExitStack, folder: NodeFolder) -> Leaving:
        settings = build_settings(self._order.baggage.unpack(self._order.settings, Path.cwd(), folder.files))
        check_interpreter(settings)
        machine = ThisMachine(settings, folder.run, feed=self._feed)
        plan = make_plan(machine.tasks, settings.eval.n_episodes, settings.seed)
        try:
            settled = machine.prepare(stack, self._interrupts, self._order.stored, self._mailbox.note)
        except Interrupted:
            return Leaving()
        except ProctorError as error:
            return Leaving(error, logs=folder.log_ends())
        self._mailbox.settled(settled, str(folder.run.logs))
        self._begin.wait()
        if self._interrupts.count:
            machine.abandon()
            return Leaving()
        machine.staff(Outcomes(plan), plan[: self._expected])
        ending = machine.run(_Post(self._mailbox, folder), [_Reporter(self._mailbox)], self._interrupts)
        return Leaving(ending.error, ending.startup, folder.log_ends() if ending.error is not None else {})


class _Post(Ledger):
    """The ledger of a node: it keeps nothing and sends everything."""

    def __init__(self, mailbox: Mailbox, folder: NodeFolder) -> None:
        self._mailbox, self._folder = mailbox, folder

    def running(self) -> list[RunningEpisode]:
        """The same of what was started."""
        return []

    def write(
        self,
        records: Iterable[EpisodeRecord],
        attempts: Iterable[Attempt] = (),
        running: Iterable[RunningEpisode] = (),
    ) -> None:
        """Send results, with their videos."""
        results = [Result(record, self._video(record)) for record in records]
        self._mailbox.results(results, list(attempts), list(running))

    def check(self) -> None:
        """Nothing is kept here that could be lost."""

    def _video(self, record: EpisodeRecord) -> bytes | None:
        if record.video_path is None:
            return None
        file = self._folder.run.path / video_place(record.key)
        content = file.read_bytes()
        file.unlink()
        return content


class _Reporter(Watcher):
    """Sends what a display would show."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    def begun(self, episode: Episode) -> None:
        """Send that it is in flight."""
        self._mailbox.begun(episode.key)

    def progress(self, progress: Progress) -> None:
        """Send how it goes."""
        self._mailbox.standing(progress.workers, progress.busy, progress.steps, list(progress.running))

    def note(self, message: str) -> None:
        """Send the note."""
        self._mailbox.note(message)
