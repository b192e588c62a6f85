"""The driver: finds out which nodes may take part, gives them the plan, and ends them. It runs no episode."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from proctor.benchmarks.facts import learn, make_benchmark
from proctor.config.plain_values import to_plain
from proctor.config.registry import benchmark_path
from proctor.config.settings import Settings
from proctor.engine.dispatch import Dispatch
from proctor.engine.executors.protocol import TICK, Ending, RunContext, RunFacts, Workforce
from proctor.engine.executors.ray_cluster.connection import connected
from proctor.engine.executors.ray_cluster.node import NodeExit, NodeOrder
from proctor.engine.executors.ray_cluster.nodes import NodeHandle, NodeNews, NodePool
from proctor.engine.executors.ray_cluster.payload import Payload, pack_files, pack_sources
from proctor.engine.executors.ray_cluster.scheduler import NodeScheduler
from proctor.engine.interrupts import Interrupts
from proctor.engine.stopping import StopRules
from proctor.errors import BenchmarkError, Interrupted, PolicyError, ProctorError, RunError, StoreError
from proctor.identity import UNKNOWN, Identity, check_identity, differences
from proctor.machine.scratch import scratch_folder
from proctor.store.outcomes import Outcomes
from proctor.store.run_directory import RunDirectory
from proctor.store.schema import Ledger
from proctor.store.videos import file_name
from proctor.types import Task

SETTLING_SECONDS = 60.0
"""How long a run that could begin waits for the other nodes, so that they have a say in what its identity is."""

PATIENCE_SECONDS = 5.0
"""After how long the user is told what is being waited for, and how long a node may take to leave."""


class RayCluster:
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

    def prepare(self, context: RunContext, stored: Identity | None) -> Driver:
        """Connect, let every node load policy and benchmark, and choose those that agree."""
        settings = self._settings
        assert settings.cluster.address is not None
        code = context.stack.enter_context(scratch_folder("proctor-"))
        sources = pack_sources(settings, code)
        context.stack.enter_context(connected(settings.cluster.address, code))
        payload = Payload(sources, pack_files(settings))
        driver = Driver(settings, self._directory, payload, stored, context)
        try:
            driver.wait_for_nodes()
        except BaseException:
            driver.abandon()
            raise
        return driver


class Driver:
    """A run on a cluster, from its nodes' side: who is there, who may have episodes, what they say.

    Args:
        settings: all settings, validated.
        directory: where the run lies.
        payload: what is sent to every node.
        stored: the identity of the run that is to be continued, if there is one.
        context: what lives as long as the run.
    """

    def __init__(
        self,
        settings: Settings,
        directory: RunDirectory,
        payload: Payload,
        stored: Identity | None,
        context: RunContext,
    ) -> None:
        self._settings, self._directory, self._payload, self._stored = settings, directory, payload, stored
        self._interrupts, self._tell = context.interrupts, context.watcher.note
        s = settings
        self.pool = NodePool(self._order, s.eval.batch_size, s.policy, s.eval.max_attempts, s.limits)
        self._identity: Identity | None = None
        self._run: ClusterRun | None = None
        self._last_refusal: ProctorError | None = None
        self._error: ProctorError | None = None
        self.startup = 0.0

    # Getting ready.

    def _order(self, name: str, workers: int) -> NodeOrder:
        tree = to_plain(self._settings)
        tree |= {"output_dir": None, "resume": None, "display": "none", "cluster": {}}
        tree["eval"]["batch_size"] = workers
        return NodeOrder(
            name=file_name(f"{self._directory.path.name}-{name}"),
            settings=tree,
            stored=self._identity or self._stored,
            payload=self._payload,
        )

    def wait_for_nodes(self) -> None:
        """Wait until enough nodes agree on what the run depends on.

        Raises:
            Interrupted: a signal came first.
            ProctorError: no node can run this, and why.
        """
        least = self._settings.cluster.min_nodes
        began, enough_since, told = time.monotonic(), None, False
        while len(self.admitted()) < least:
            self.turn()
            if self._interrupts.count:
                raise Interrupted
            if self._error is not None:
                raise self._error
            ready = [node for node in self.pool.nodes if node.facts is not None]
            moment = time.monotonic()
            if self._identity is None and len(ready) >= least:
                enough_since = enough_since or moment
                late = moment - enough_since > SETTLING_SECONDS and self._has_a_choice(ready)
                if late or len(ready) == len(self.pool.nodes):
                    self._vote(ready)
            if not self.pool.nodes and self._last_refusal is not None:
                raise self._last_refusal
            if not told and moment - began > PATIENCE_SECONDS and len(self.admitted()) < least:
                told = True
                self._tell(
                    f"waiting for nodes: {len(ready)} of {len(self.pool.nodes)} are ready, "
                    f"{least} are needed; the others load the policy, or do other work"
                )

    def _has_a_choice(self, ready: Sequence[NodeHandle]) -> bool:
        """Whether one of these can run: a run that goes on has its identity already, and waits for who has it."""
        return self._stored is None or any(self._agrees(node, self._stored) for node in ready)

    def _vote(self, ready: Sequence[NodeHandle]) -> None:
        """Settle the run's identity: the stored one, else what most nodes have; of equally many, the first's."""
        votes = Counter(_ballot(node) for node in ready)
        winner = max(ready, key=lambda node: votes[_ballot(node)])  # the first of the best
        assert winner.facts is not None
        if self._stored is not None:
            best = next((node for node in ready if self._agrees(node, self._stored)), winner)
            assert best.facts is not None
            check_identity(self._stored, best.facts.identity, self._directory.path)
        self._identity = self._stored or winner.facts.identity
        for node in ready:
            self._admit(node)

    def _agrees(self, node: NodeHandle, identity: Identity) -> bool:
        assert node.facts is not None
        return not differences(_comparable(identity), _comparable(node.facts.identity))

    def _admit(self, node: NodeHandle) -> None:
        assert self._identity is not None
        assert node.facts is not None
        if self._agrees(node, self._identity):
            node.admitted = True
            if self._run is not None:
                self._run.begin(node)
                self._tell(f"node {node.name} joined, with {node.workers} worker{'s' * (node.workers != 1)}")
            return
        found = differences(_comparable(self._identity), _comparable(node.facts.identity))
        words = "; ".join(f"{key}: the run has {before}, the node {now}" for key, before, now in found)
        self._refuse(node, RunError(f"its results would not be the run's: {words}"))
        node.actor.stop.remote(True)

    def _refuse(self, node: NodeHandle, reason: ProctorError) -> None:
        self.pool.bar(node)
        self._last_refusal = type(reason)(f"{reason} ({node.where})")
        self._tell(f"node {node.name} is refused: {reason}")

    def admitted(self) -> list[NodeHandle]:
        """Return the nodes that may have episodes."""
        return [node for node in self.pool.nodes if node.admitted]

    @property
    def facts(self) -> RunFacts:
        """What the nodes agree on."""
        facts = self.admitted()[0].facts
        assert facts is not None
        assert self._identity is not None
        return facts._replace(identity=self._identity)

    # Running.

    def staff(self, before: Outcomes) -> ClusterJob:
        """Say who will run the pending episodes."""
        nodes = self.admitted()
        share = max(1, ceil(len(before.pending) / len(nodes)))
        for node in nodes:
            node.workers = min(node.workers, share)
        workforce = Workforce(sum(node.workers for node in nodes), "nodes", len(nodes))
        return ClusterJob(self, self._settings, self._directory, before, workforce)

    def turn(self) -> None:
        """Wait for something to happen, and see to it."""
        if self._run is None or not self._run.dispatch.interrupted:
            self.pool.look(self._interrupts, self._tell)
        for news in self.pool.news(self._interrupts, TICK):
            self._read(news)

    def _read(self, news: NodeNews) -> None:
        node, report = news.node, news.report
        if report is None:
            self._on_loss(news)
            return
        if (
            self._run is None or not self._run.dispatch.interrupted
        ):  # a node that stops says the same as its driver
            for note in report.notes:
                self._tell(f"node {node.name}: {note}")
        if self._run is not None:
            self._run.scheduler.receive(node, report)
        if report.results:
            self.pool.restarts.progressed(node.id)
        if report.facts is not None:
            node.facts, node.logs = report.facts, report.logs
            if self._identity is not None:
                self._admit(node)
        if report.exit is not None:
            self._on_exit(node, report.exit)

    def _on_loss(self, news: NodeNews) -> None:
        node = news.node
        if news.hopeless:
            self._refuse(node, RunError(f"its part cannot start there: {news.lost}"))
        elif self.pool.is_barred(node):
            self._refuse(node, RunError(f"its part has died there too often: {news.lost}"))
        elif node.admitted:
            lost = len(node.outstanding)
            episodes = f"{lost} episode{'s' * (lost != 1)}"
            self._tell(f"node {node.name} is lost, with {episodes} to be run elsewhere: {news.lost}")
        else:
            self._tell(f"node {node.name} was lost while it got ready: {news.lost}")
        if self._run is not None:
            self._run.scheduler.lose(node, "the node was lost")

    def _on_exit(self, node: NodeHandle, ended: NodeExit) -> None:
        self.startup += ended.startup
        error = ended.error
        if self._run is not None:
            self._run.scheduler.lose(node, "the node left", blame=False, forgive=error is not None)
        if error is None:
            return
        with contextlib.suppress(OSError):  # they are on the node too
            for name, content in ended.logs.items():
                self._directory.logs.mkdir(exist_ok=True)
                (self._directory.logs / file_name(f"{node.name}-{name}")).write_bytes(content)
        if isinstance(error, PolicyError | BenchmarkError):
            # Another node would come to the same.
            self._end(type(error)(f"{error} ({node.where})"))
        else:
            self._refuse(node, error)

    def _end(self, error: ProctorError) -> None:
        """End the run, or the waiting for it to begin."""
        self._error = self._error or error
        if self._run is not None:
            self._run.dispatch.end(error)

    def desertion(self) -> RunError | None:
        """Return the error that no node is left, if that is so."""
        if self.pool.nodes or not self.pool.deserted:
            return None
        refused = self._last_refusal
        words = f"no node is left{f', the last because {refused}' if refused else ''}."
        return RunError(f"{words} Run it again to continue from here.")

    # The end.

    def begin(self, run: ClusterRun) -> None:
        """Let the nodes that are ready, and those that will be, have the episodes of a run."""
        self._run = run
        for node in self.admitted():
            run.begin(node)

    def stop(self) -> None:
        """Let every node give its episodes in flight their grace."""
        for node in self.pool.nodes:
            node.actor.stop.remote(False)

    def abandon(self) -> None:
        """End what was started, at once."""
        self.dismiss(at_once=True)

    def dismiss(self, *, at_once: bool) -> None:
        """Let every node end and clean up, and kill what does not."""
        for node in list(self.pool.nodes):
            if node.facts is None:
                self.pool.drop(node)  # it may be waiting for its turn on that node
            elif at_once:
                node.actor.stop.remote(True)
            else:
                node.actor.close.remote()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.pool.nodes and time.monotonic() < deadline:
            for news in self.pool.news(self._interrupts, TICK):
                if news.report is not None:
                    self._take_last_words(news)
        for node in list(self.pool.nodes):
            self.pool.drop(node)

    def _take_last_words(self, news: NodeNews) -> None:
        assert news.report is not None
        if self._run is not None:
            self._run.receive_late(news)
        if news.report.exit is not None:
            self.startup += news.report.exit.startup


@dataclass(frozen=True)
class ClusterJob:
    """The pending episodes of a run, on the nodes of a cluster."""

    driver: Driver
    settings: Settings
    directory: RunDirectory
    before: Outcomes
    """What of the plan had ended already."""
    workforce: Workforce

    def run(self, context: RunContext, ledger: Ledger, rules: StopRules | None = None) -> Ending:
        """Hand out until all is stored, a signal comes, or an error ends it."""
        dispatch = Dispatch(
            self.before,
            self.before.pending,
            max_attempts=self.settings.eval.max_attempts,
            cut_short=ledger.running(),
            rules=rules,
        )
        scheduler = NodeScheduler(dispatch, ledger, self.directory, context.watcher)
        return ClusterRun(
            self.driver, dispatch, scheduler, context.interrupts, self.settings.eval.stop_grace
        ).run()


class ClusterRun:
    """The event loop of the driver.

    Args:
        driver: knows the nodes.
        dispatch: the state of the run.
        scheduler: between the two.
        interrupts: the stop signals.
        grace: seconds for episodes in flight after the first of them.
    """

    def __init__(
        self, driver: Driver, dispatch: Dispatch, scheduler: NodeScheduler, interrupts: Interrupts, grace: float
    ) -> None:
        self._driver, self._interrupts, self._grace = driver, interrupts, grace
        self.dispatch, self.scheduler = dispatch, scheduler
        self._deadline = float("inf")

    def run(self) -> Ending:
        """Run to the end, whatever that is, and leave nothing on any node."""
        driver, dispatch, scheduler = self._driver, self.dispatch, self.scheduler
        driver.begin(self)
        try:
            while not self._is_over():
                scheduler.serve(driver.admitted())
                driver.turn()
                self._watch_signals()
                scheduler.publish()
                scheduler.show(driver.admitted())
            scheduler.show(driver.admitted(), force=True)
        except ProctorError as error:
            dispatch.end(error)
        finally:
            driver.dismiss(at_once=dispatch.is_ending)
        if not isinstance(dispatch.error, StoreError):
            scheduler.publish(last=True)
        stopped_by = self._interrupts.first if dispatch.interrupted else None
        return Ending(stopped_by, dispatch.error, driver.startup)

    def begin(self, node: NodeHandle) -> None:
        """Let a node start to work, and know about how much there is for it."""
        nodes = self._driver.admitted()
        left = self.dispatch.waiting + sum(len(other.outstanding) for other in nodes)
        node.actor.begin.remote(max(1, ceil(left / len(nodes))))

    def receive_late(self, news: NodeNews) -> None:
        """Take what a node still says when the run is over, as long as it can be stored."""
        if news.report is None or isinstance(self.dispatch.error, StoreError):
            return
        try:
            self.scheduler.receive(news.node, news.report)
        except ProctorError as error:
            self.dispatch.end(error)

    def _is_over(self) -> bool:
        if not self.dispatch.is_over and not self.dispatch.interrupted:
            deserted = self._driver.desertion()
            if deserted is not None:
                self.dispatch.end(deserted)
        late = time.monotonic() > self._deadline or self._interrupts.count > 1
        return self.dispatch.is_over or (self.dispatch.interrupted and late)

    def _watch_signals(self) -> None:
        if not self._interrupts.count or self.dispatch.interrupted:
            return
        self._deadline = time.monotonic() + self._grace + PATIENCE_SECONDS
        self.dispatch.interrupt(sum(len(node.begun) for node in self._driver.admitted()), self._grace)
        self._driver.stop()


def _comparable(identity: Identity) -> Identity:
    """Return an identity in which a policy that cannot be known again is the same on every node."""
    policy = identity["policy"]
    unknown = str(policy["fingerprint"]).startswith(UNKNOWN)
    return {**identity, "policy": {**policy, "fingerprint": UNKNOWN}} if unknown else identity


def _ballot(node: NodeHandle) -> str:
    assert node.facts is not None
    return json.dumps(_comparable(node.facts.identity), sort_keys=True)
