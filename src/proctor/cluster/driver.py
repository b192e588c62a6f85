"""The driver: finds out which nodes may take part, gives them the plan, and ends them. It runs no episode."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import ceil

from proctor.benchmarks.facts import learn, make_benchmark
from proctor.cluster.baggage import Baggage, pack_files, pack_sources
from proctor.cluster.connection import connected
from proctor.cluster.fleet import Fleet, Member, News
from proctor.cluster.handout import HandOut
from proctor.cluster.mail import Leaving
from proctor.cluster.node import Order
from proctor.config.registry import benchmark_path
from proctor.config.settings import Settings, to_plain
from proctor.engine.coordinator import TICK
from proctor.engine.interrupts import Interrupts
from proctor.engine.job import Ending
from proctor.engine.site import Settled, Staff
from proctor.errors import BenchmarkError, Interrupted, PolicyError, ProctorError, RunError, StoreError
from proctor.events import Watcher
from proctor.machine.scratch import scratch_folder
from proctor.plan import Plan
from proctor.report.console import count
from proctor.store.identity import UNKNOWN, Identity, check_identity, differences
from proctor.store.outcomes import Outcomes
from proctor.store.run_directory import RunDirectory
from proctor.store.schema import Ledger
from proctor.store.videos import file_name
from proctor.types import Task

SETTLING_SECONDS = 60.0
"""How long a run that could begin waits for the other nodes, so that they have a say in what its identity is."""

PATIENCE_SECONDS = 5.0
"""After how long the user is told what is being waited for, and how long a node may take to leave."""


class Nodes:
    """The nodes of a cluster as the place where episodes run.

    Args:
        settings: all settings, validated.
        directory: where the run lies, on the driver.
    """

    def __init__(self, settings: Settings, directory: RunDirectory) -> None:
        self._settings, self._directory = settings, directory
        # What the benchmark needs has to be on the nodes, and is looked for there.
        path = benchmark_path(settings.env.type)
        benchmark = make_benchmark(path, settings.env)
        self.tasks: Sequence[Task] = (
            learn(path, settings.env).tasks if benchmark.opens_to_tell else benchmark.tasks()
        )
        self._identity: Identity | None = None
        self._handout: HandOut | None = None
        self._error: ProctorError | None = None
        self._last_refusal: ProctorError | None = None
        self._deadline: float | None = None
        self._startup = 0.0

    # Getting ready.

    def prepare(
        self,
        stack: ExitStack,
        interrupts: Interrupts,
        stored: Identity | None,
        tell: Callable[[str], None],
    ) -> Settled:
        """Connect, let every node load policy and benchmark, and choose those that agree."""
        assert self._settings.cluster.address is not None
        code = stack.enter_context(scratch_folder("proctor-"))
        sources = pack_sources(self._settings, code)
        stack.enter_context(connected(self._settings.cluster.address, code))
        s = self._settings
        self._tell, self._stored, self._interrupts = tell, stored, interrupts
        self._baggage = Baggage(sources, pack_files(s))
        self._fleet = Fleet(self._order, s.eval.batch_size, s.policy, s.eval.max_attempts, s.limits)
        try:
            self._wait_for_nodes()
        except BaseException:
            self.abandon()
            raise
        chosen = self._admitted()[0].settled
        assert chosen is not None
        assert self._identity is not None
        return chosen._replace(identity=self._identity)

    def _order(self, name: str, workers: int) -> Order:
        tree = to_plain(self._settings)
        tree |= {"output_dir": None, "resume": None, "display": "none", "cluster": {}}
        tree["eval"]["batch_size"] = workers
        return Order(
            name=file_name(f"{self._directory.path.name}-{name}"),
            settings=tree,
            stored=self._identity or self._stored,
            baggage=self._baggage,
        )

    def _wait_for_nodes(self) -> None:
        least = self._settings.cluster.min_nodes
        began, enough_since, told = time.monotonic(), None, False
        while len(self._admitted()) < least:
            self._turn()
            if self._interrupts.count:
                raise Interrupted
            ready = [member for member in self._fleet.members if member.settled is not None]
            moment = time.monotonic()
            if self._identity is None and len(ready) >= least:
                enough_since = enough_since or moment
                late = moment - enough_since > SETTLING_SECONDS and self._has_a_choice(ready)
                if late or len(ready) == len(self._fleet.members):
                    self._vote(ready)
            if not self._fleet.members and self._last_refusal is not None:
                raise self._last_refusal
            if not told and moment - began > PATIENCE_SECONDS and len(self._admitted()) < least:
                told = True
                self._tell(
                    f"waiting for nodes: {len(ready)} of {len(self._fleet.members)} are ready, "
                    f"{least} are needed; the others load the policy, or do other work"
                )

    def _has_a_choice(self, ready: Sequence[Member]) -> bool:
        """Whether one of these can run: a run that goes on has its identity already, and waits for who has it."""
        return self._stored is None or any(self._agrees(member, self._stored) for member in ready)

    def _vote(self, ready: Sequence[Member]) -> None:
        """Settle the run's identity: the stored one, else what most nodes have; of equally many, the first's."""
        votes = Counter(_ballot(member) for member in ready)
        winner = max(ready, key=lambda member: votes[_ballot(member)])  # the first of the best
        assert winner.settled is not None
        if self._stored is not None:
            best = next((member for member in ready if self._agrees(member, self._stored)), winner)
            assert best.settled is not None
            check_identity(self._stored, best.settled.identity, self._directory.path)
        self._identity = self._stored or winner.settled.identity
        for member in ready:
            self._admit(member)

    def _agrees(self, member: Member, identity: Identity) -> bool:
        assert member.settled is not None
        return not differences(_comparable(identity), _comparable(member.settled.identity))

    def _admit(self, member: Member) -> None:
        assert self._identity is not None
        assert member.settled is not None
        if self._agrees(member, self._identity):
            member.admitted = True
            if self._handout is not None:
                self._begin(member)
                self._tell(f"node {member.name} joined, with {count(member.workers, 'worker')}")
            return
        found = differences(_comparable(self._identity), _comparable(member.settled.identity))
        words = "; ".join(f"{key}: the run has {before}, the node {now}" for key, before, now in found)
        self._refuse(member, RunError(f"its results would not be the run's: {words}"))
        member.actor.stop.remote(True)

    def _refuse(self, member: Member, reason: ProctorError) -> None:
        self._fleet.bar(member)
        self._last_refusal = type(reason)(f"{reason} ({member.where})")
        self._tell(f"node {member.name} is refused: {reason}")

    def _admitted(self) -> list[Member]:
        return [member for member in self._fleet.members if member.admitted]

    # Running.

    def staff(self, before: Outcomes, pending: Plan) -> Staff:
        """Say who will run the pending episodes."""
        self._before, self._pending = before, pending
        members = self._admitted()
        share = max(1, ceil(len(pending) / len(members)))
        for member in members:
            member.workers = min(member.workers, share)
        return Staff(sum(member.workers for member in members), "nodes", len(members))

    def run(self, ledger: Ledger, watchers: Sequence[Watcher], interrupts: Interrupts) -> Ending:
        """Hand out until all is stored, a signal comes, or an error ends it."""
        self._handout = handout = HandOut(
            self._before,
            self._pending,
            ledger,
            self._directory,
            watchers,
            self._settings.eval.max_attempts,
            self._tell,
        )
        for member in self._admitted():
            self._begin(member)
        try:
            while not self._is_over(handout):
                if self._deadline is None:
                    handout.serve(self._admitted())
                self._turn()
                self._watch_signals()
                handout.show(self._admitted())
            handout.show(self._admitted(), force=True)
        except ProctorError as error:
            self._error = error
        finally:
            self._dismiss(at_once=self._error is not None or self._deadline is not None)
        if not isinstance(self._error, StoreError):
            handout.finish()
        stopped_by = interrupts.first if self._deadline is not None else None
        return Ending(stopped_by, self._error, self._startup)

    def _begin(self, member: Member) -> None:
        assert self._handout is not None
        members = self._admitted()
        left = len(self._handout) + sum(len(other.outstanding) for other in members)
        member.actor.begin.remote(max(1, ceil(left / len(members))))

    def _turn(self) -> None:
        """Wait for something to happen, and see to it."""
        if self._deadline is None:
            self._fleet.look(self._interrupts, self._tell)
        for news in self._fleet.news(self._interrupts, TICK):
            self._read(news)

    def _read(self, news: News) -> None:
        member, mail = news.member, news.mail
        if mail is None:
            self._on_loss(news)
            return
        if self._deadline is None:  # a node that stops says the same as its driver
            for note in mail.notes:
                self._tell(f"node {member.name}: {note}")
        if self._handout is not None:
            self._handout.receive(member, mail)
        if mail.settled is not None:
            member.settled, member.logs = mail.settled, mail.logs
            if self._identity is not None:
                self._admit(member)
        if mail.leaving is not None:
            self._on_leaving(member, mail.leaving)

    def _on_loss(self, news: News) -> None:
        member = news.member
        if news.hopeless:
            self._refuse(member, RunError(f"its part cannot start there: {news.lost}"))
        elif self._fleet.is_barred(member):
            self._refuse(member, RunError(f"its part has died there too often: {news.lost}"))
        elif member.admitted:
            lost = count(len(member.outstanding), "episode")
            self._tell(f"node {member.name} is lost, with {lost} to be run elsewhere: {news.lost}")
        else:
            self._tell(f"node {member.name} was lost while it got ready: {news.lost}")
        if self._handout is not None:
            self._handout.lose(member, "the node was lost", blame=self._deadline is None)

    def _on_leaving(self, member: Member, leaving: Leaving) -> None:
        self._startup += leaving.startup
        error = leaving.error
        if self._handout is not None:
            self._handout.lose(member, "the node left", blame=False)
        if error is None:
            return
        with contextlib.suppress(OSError):  # they are on the node too
            for name, content in leaving.logs.items():
                self._directory.logs.mkdir(exist_ok=True)
                (self._directory.logs / file_name(f"{member.name}-{name}")).write_bytes(content)
        if isinstance(error, PolicyError | BenchmarkError):
            # Another node would come to the same.
            self._error = self._error or type(error)(f"{error} ({member.where})")
        else:
            self._refuse(member, error)

    def _is_over(self, handout: HandOut) -> bool:
        members = self._admitted()
        outstanding = any(member.outstanding for member in members)
        if self._error is not None:
            return True
        if self._deadline is not None:
            return not members or time.monotonic() > self._deadline or self._interrupts.count > 1
        if not len(handout) and not outstanding:
            return True
        if not self._fleet.members and self._fleet.deserted:
            refused = self._last_refusal
            words = f"no node is left{f', the last because {refused}' if refused else ''}."
            self._error = RunError(f"{words} The same command goes on from here.")
        return self._error is not None

    def _watch_signals(self) -> None:
        if not self._interrupts.count or self._deadline is not None:
            return
        grace = self._settings.eval.stop_grace
        self._deadline = time.monotonic() + grace + PATIENCE_SECONDS
        busy = sum(len(member.begun) for member in self._admitted())
        if not self._interrupts.satisfied:
            self._tell(
                f"stopping: {busy} episodes in flight have {grace:g} s to finish; Ctrl-C again stops at once"
            )
        for member in self._fleet.members:
            member.actor.stop.remote(False)

    # The end.

    def abandon(self) -> None:
        """End what `prepare` has started."""
        self._dismiss(at_once=True)

    def _dismiss(self, *, at_once: bool) -> None:
        """Let every node end and clean up, and kill what does not."""
        fleet = self._fleet
        for member in list(fleet.members):
            if member.settled is None:
                fleet.drop(member)  # it may be waiting for its turn on that node
            elif at_once:
                member.actor.stop.remote(True)
            else:
                member.actor.close.remote()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while fleet.members and time.monotonic() < deadline:
            for news in fleet.news(self._interrupts, TICK):
                if news.mail is not None and not isinstance(self._error, StoreError):
                    self._take_last_words(news)
        for member in list(fleet.members):
            fleet.drop(member)

    def _take_last_words(self, news: News) -> None:
        assert news.mail is not None
        try:
            if self._handout is not None:
                self._handout.receive(news.member, news.mail)
        except ProctorError as error:
            self._error = self._error or error
        if news.mail.leaving is not None:
            self._startup += news.mail.leaving.startup


def _comparable(identity: Identity) -> Identity:
    """Return an identity in which a policy that cannot be known again is the same on every node."""
    policy = identity["policy"]
    unknown = str(policy["fingerprint"]).startswith(UNKNOWN)
    return {**identity, "policy": {**policy, "fingerprint": UNKNOWN}} if unknown else identity


def _ballot(member: Member) -> str:
    assert member.settled is not None
    return json.dumps(_comparable(member.settled.identity), sort_keys=True)
