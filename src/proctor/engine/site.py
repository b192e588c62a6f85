"""Where the episodes of a run are run: this machine, or the nodes of a cluster. The rest of a run is the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import NamedTuple, Protocol

from proctor.engine.interrupts import Interrupts
from proctor.engine.job import Ending
from proctor.events import Watcher
from proctor.plan import Plan
from proctor.store.identity import Identity
from proctor.store.outcomes import Outcomes
from proctor.store.schema import Ledger
from proctor.types import Task


class Settled(NamedTuple):
    """What is known once policy and benchmark are ready, before the first episode."""

    identity: Identity
    reproducible: bool
    notes: Sequence[str]


class Staff(NamedTuple):
    """Who will run the episodes; `nodes` is 0 where there is no cluster."""

    workers: int
    placement: str
    nodes: int = 0


class Site(Protocol):
    """Called in the order of its methods; `abandon` in place of `run` when something fails in between."""

    @property
    def tasks(self) -> Sequence[Task]:
        """The tasks, in plan order."""

    def prepare(
        self,
        stack: ExitStack,
        interrupts: Interrupts,
        stored: Identity | None,
        tell: Callable[[str], None],
    ) -> Settled:
        """Get policy and benchmark ready; what is taken lives as long as `stack`.

        Args:
            stack: closed when the run is over.
            interrupts: what may end the waiting.
            stored: the identity of the run that is to be continued, if there is one.
            tell: called with what the user should read.

        Raises:
            UsageError: something does not fit or is not there.
            Interrupted: a signal came first.
        """

    def staff(self, before: Outcomes, pending: Plan) -> Staff:
        """Decide who runs the pending episodes of a plan of which some have ended before."""

    def run(self, ledger: Ledger, watchers: Sequence[Watcher], interrupts: Interrupts) -> Ending:
        """Run the pending episodes and put each into the ledger the moment it ends."""

    def abandon(self) -> None:
        """End whatever `prepare` has started."""
