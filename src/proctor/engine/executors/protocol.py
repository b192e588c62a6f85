"""What every executor offers, and how it tells the store and those who watch."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from proctor.engine.dispatch import Dispatch
from proctor.engine.interrupts import Interrupts
from proctor.engine.stopping import StopRules
from proctor.errors import ProctorError
from proctor.events import Watcher
from proctor.identity import Identity
from proctor.policies.protocol import PolicySpec
from proctor.store.outcomes import Outcomes
from proctor.store.schema import Ledger, RunningEpisode
from proctor.types import Episode, Task

TICK = 0.25
"""Seconds between two looks at a run, and between two pictures of it for the user."""

CHECK_SECONDS = 1.0
"""How often it is made sure that the run directory is still there."""


class RunContext(NamedTuple):
    """What lives as long as a run: what is closed at its end, the stop signals, and who watches."""

    stack: ExitStack
    interrupts: Interrupts
    watcher: Watcher


class RunFacts(NamedTuple):
    """What is known once policy and benchmark are ready, before the first episode."""

    identity: Identity
    policy_spec: PolicySpec
    notes: Sequence[str]


class Workforce(NamedTuple):
    """Who will run the episodes; `nodes` is 0 where there is no cluster.

    `undecided`: copies of the policy may be made, by what its first calls take.
    """

    workers: int
    placement: str
    nodes: int = 0
    undecided: bool = False


@dataclass(frozen=True)
class Ending:
    """How a run ended: complete, stopped by a signal, or by an error."""

    stopped_by: signal.Signals | None = None
    error: ProctorError | None = None
    startup: float = 0.0

    @property
    def words(self) -> str | None:
        """Why it ended before its plan did, for those who were not there; `None` if it did not."""
        if self.error is not None:
            return str(self.error)
        return f"it was stopped by {self.stopped_by.name}" if self.stopped_by is not None else None


class Job(Protocol):
    """The pending episodes of a run, and who will run them."""

    @property
    def workforce(self) -> Workforce:
        """Who runs them, at the start."""

    def run(self, context: RunContext, ledger: Ledger, rules: StopRules | None = None) -> Ending:
        """Run them, and put each into the ledger the moment it ends."""


class PreparedExecutor(Protocol):
    """An executor whose policy and benchmark are ready."""

    @property
    def facts(self) -> RunFacts:
        """What is known before the first episode."""

    def staff(self, before: Outcomes) -> Job:
        """Decide who runs the pending episodes of a plan of which some have ended before."""

    def abandon(self) -> None:
        """End what was started, where nothing will be run."""


class Executor(Protocol):
    """A place where episodes can run."""

    @property
    def tasks(self) -> Sequence[Task]:
        """The tasks, in plan order."""

    def prepare(
        self, context: RunContext, stored: Identity | None, pending: Sequence[Episode] = ()
    ) -> PreparedExecutor:
        """Get policy and benchmark ready.

        Args:
            context: what lives as long as the run.
            stored: the identity of the run that is to be continued, if there is one.
            pending: what will probably run, as far as anybody knows yet: simulators may be built for it meanwhile.

        Raises:
            UsageError: something does not fit or is not there.
            Interrupted: a signal came first.
        """


class Publisher:
    """Stores what a dispatch has decided, and then tells of it."""

    def __init__(self, dispatch: Dispatch, ledger: Ledger, watcher: Watcher) -> None:
        self._dispatch, self._ledger, self._watcher = dispatch, ledger, watcher
        self._began = time.monotonic()
        self._looked = self._checked = 0.0

    def begun(self, episode: Episode) -> None:
        """Tell that an episode was given to a worker."""
        self._watcher.begun(episode)

    def publish(self, running: Callable[[], list[RunningEpisode]], *, last: bool = False) -> None:
        """Make durable what has been decided, all in one commit; only then tell of it.

        Args:
            running: says how far the episodes in flight are; asked only if there is something to store.
            last: store that in any case, for it is the end.
        """
        records, attempts, notes = self._dispatch.decided()
        for note in notes:
            self._watcher.note(note)
        if not records and not attempts and not last:
            return
        in_flight = running()
        if not records and not attempts and not in_flight:
            return
        self._ledger.write(records, attempts, in_flight)
        self._dispatch.stored(records)
        for record in records:
            self._watcher.episode(record)

    def is_due(self) -> bool:
        """Whether it is time to look at the run again, a few times a second."""
        moment = time.monotonic()
        if moment - self._looked < TICK:
            return False
        self._looked = moment
        if moment - self._checked > CHECK_SECONDS:
            self._checked = moment
            self._ledger.check()
        return True

    def show(
        self, steps: int, busy: int, running: Iterable[RunningEpisode] = (), ready: int | None = None
    ) -> None:
        """Tell how far the run is; `ready`: how many workers have built their simulator, where that is known."""
        dispatch, seconds = self._dispatch, time.monotonic() - self._began
        progress = dispatch.tally.progress(steps, busy, dispatch.workers, running, seconds)
        self._watcher.progress(replace(progress, ready=ready))
