"""The driver: finds out which nodes may take part, gives them the plan, and ends them. It runs no episode."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from proctor.benchmarks.facts import learn, make_benchmark
from proctor.config.plain_values import to_plain
from proctor.config.registry import benchmark_path
from proctor.config.settings import Settings
from proctor.engine.dispatch import Dispatch
from proctor.engine.executors.protocol import Ending, RunContext, RunFacts, Workforce
from proctor.engine.executors.ray_cluster.connection import connected
from proctor.engine.executors.ray_cluster.node import NodeOrder, NodeReport
from proctor.engine.executors.ray_cluster.nodes import NodeHandle, NodeNews, NodePool
from proctor.engine.executors.ray_cluster.payload import Payload, pack_files, pack_sources
from proctor.engine.executors.ray_cluster.scheduler import NodeScheduler
from proctor.engine.stopping import StopRules
from proctor.errors import BenchmarkError, Interrupted, PolicyError, ProctorError, RunError, StoreError
from proctor.events import Stage
from proctor.identity import UNKNOWN, Identity, check_identity, differences
from proctor.machine.scratch import scratch_folder
from proctor.store.outcomes import Outcomes
from proctor.store.run_directory import RunDirectory
from proctor.store.schema import Ledger
from proctor.store.videos import file_name
from proctor.types import Episode, Task

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

    def prepare(self, context: RunContext, stored: Identity | None, pending: Sequence[Episode] = ()) -> Driver:
        """Connect, let every node load policy and benchmark, and choose those that agree."""
        settings = self._settings
        assert settings.cluster.address is not None
        context.watcher.doing(Stage("connecting to the cluster"))
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
        self._interrupts, self._tell, self._doing = (
            context.interrupts,
            context.watcher.note,
            context.watcher.doing,
        )
        self.pool = NodePool(settings, context, self._order)
        self._identity: Identity | None = None
        self._scheduler: NodeScheduler | None = None
        """Hands out the episodes, once they run."""
        self._last_refusal: ProctorError | None = None
        self._startup = 0.0
        self._stop_deadline = float("inf")

    # Getting ready.

    def _order(self, name: str, workers: int) -> NodeOrder:
        tree = to_plain(self._settings)
        tree |= {"output_dir": None, "resume": None, "display": "none", "cluster": {}, "exitfirst": False}
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
            ready = [node for node in self.pool.nodes if node.facts is not None]
            self._doing(Stage("loading the policy", f"on {len(ready)}/{len(self.pool.nodes)} nodes"))
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
        return self._stored is None or any(not _deviations(node, self._stored) for node in ready)

    def _vote(self, ready: Sequence[NodeHandle]) -> None:
        """Settle the run's identity: the stored one, else what most nodes have; of equally many, the first's."""
        votes = Counter(_ballot(node) for node in ready)
        winner = max(ready, key=lambda node: votes[_ballot(node)])  # the first of the best
        if self._stored is not None:
            best = next((node for node in ready if not _deviations(node, self._stored)), winner)
            check_identity(self._stored, _identity(best), self._directory.path)
        self._identity = self._stored or _identity(winner)
        for node in ready:
            self._admit(node, self._identity)

    def _admit(self, node: NodeHandle, identity: Identity) -> None:
        if found := _deviations(node, identity):
            words = "; ".join(f"{key}: the run has {before}, the node {now}" for key, before, now in found)
            self._refuse(node, RunError(f"its results would not be the run's: {words}"))
            node.actor.stop.remote(True)
            return
        node.admitted = True
        if self._scheduler is not None:
            self._scheduler.begin(node, self.admitted())
            self._tell(f"node {node.name} joined, with {node.workers} worker{'s' * (node.workers != 1)}")

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
        return ClusterJob(self, before, workforce)

    def run(self, before: Outcomes, context: RunContext, ledger: Ledger, rules: StopRules | None) -> Ending:
        """Run what is pending to the end, whatever that is, and leave nothing on any node."""
        dispatch = Dispatch(
            before,
            before.pending,
            max_attempts=self._settings.eval.max_attempts,
            cut_short=ledger.running(),
            rules=rules,
            demonstrations=self._settings.eval.demonstrations,
            exitfirst=self._settings.exitfirst,
        )
        scheduler = self._scheduler = NodeScheduler(dispatch, ledger, self._directory, context.watcher)
        for node in self.admitted():
            scheduler.begin(node, self.admitted())
        try:
            while not self._is_over(dispatch):
                scheduler.serve(self.admitted())
                self.turn()
                self._watch_signals(dispatch)
                scheduler.publish()
                scheduler.show(self.admitted())
            scheduler.show(self.admitted(), force=True)
        except ProctorError as error:
            dispatch.end(error)
        finally:
            self._dismiss(at_once=dispatch.is_ending)
        if not isinstance(dispatch.error, StoreError):
            scheduler.publish(last=True)
        stopped_by = self._interrupts.first if dispatch.interrupted else None
        return Ending(stopped_by, dispatch.error, self._startup)

    def _is_over(self, dispatch: Dispatch) -> bool:
        if not dispatch.is_over and not dispatch.interrupted and not self.pool.nodes and self.pool.deserted:
            refused = self._last_refusal
            words = f"no node is left{f', the last because {refused}' if refused else ''}."
            dispatch.end(RunError(f"{words} Run it again to continue from here."))
        late = time.monotonic() > self._stop_deadline or self._interrupts.count > 1
        return dispatch.is_over or (dispatch.interrupted and late)

    def _watch_signals(self, dispatch: Dispatch) -> None:
        """Hand out no more after a signal, and let every node give its episodes in flight their grace."""
        if not self._interrupts.count or dispatch.interrupted:
            return
        grace = self._settings.eval.stop_grace
        self._stop_deadline = time.monotonic() + grace + PATIENCE_SECONDS
        dispatch.interrupt(sum(len(node.begun) for node in self.admitted()), grace)
        for node in self.pool.nodes:
            node.actor.stop.remote(False)

    def turn(self) -> None:
        """Wait for something to happen, and see to it."""
        if not self._is_stopping():
            self.pool.look()
        for news in self.pool.news():
            self._read(news)

    def _is_stopping(self) -> bool:
        return self._scheduler is not None and self._scheduler.dispatch.interrupted

    def _read(self, news: NodeNews) -> None:
        node, report = news.node, news.report
        if report is None:
            self._on_loss(news)
            return
        if not self._is_stopping():  # a node that stops says the same as its driver
            for note in report.notes:
                self._tell(f"node {node.name}: {note}")
        if self._scheduler is not None:
            self._scheduler.receive(node, report)
        if report.results:
            self.pool.restarts.progressed(node.id)
        if report.facts is not None:
            node.facts, node.logs = report.facts, report.logs
            if self._identity is not None:
                self._admit(node, self._identity)
        if report.ending is not None:
            self._on_exit(node, report.ending, report.log_ends)

    def _on_loss(self, news: NodeNews) -> None:
        node = news.node
        if news.hopeless:
            self._refuse(node, RunError(f"its part cannot start there: {news.lost}"))
        elif self.pool.restarts.is_given_up(node.id):
            self._refuse(node, RunError(f"its part has died there too often: {news.lost}"))
        elif node.admitted:
            lost = len(node.outstanding)
            episodes = f"{lost} episode{'s' * (lost != 1)}"
            self._tell(f"node {node.name} is lost, with {episodes} to be run elsewhere: {news.lost}")
        else:
            self._tell(f"node {node.name} was lost while it got ready: {news.lost}")
        if self._scheduler is not None:
            self._scheduler.lose(node, "the node was lost")

    def _on_exit(self, node: NodeHandle, ending: Ending, log_ends: Mapping[str, bytes]) -> None:
        self._startup += ending.startup
        error = ending.error
        if self._scheduler is not None:
            self._scheduler.lose(node, "the node left", blame=False, forgive=error is not None)
        if error is None:
            return
        with contextlib.suppress(OSError):  # they are on the node too
            for name, content in log_ends.items():
                self._directory.logs.mkdir(exist_ok=True)
                (self._directory.logs / file_name(f"{node.name}-{name}")).write_bytes(content)
        if isinstance(error, PolicyError | BenchmarkError):
            # Another node would come to the same. It ends the run, or the waiting for it to begin.
            error = type(error)(f"{error} ({node.where})")
            if self._scheduler is None:
                raise error
            self._scheduler.dispatch.end(error)
        else:
            self._refuse(node, error)

    # The end.

    def abandon(self) -> None:
        """End what was started, at once."""
        self._dismiss(at_once=True)

    def _dismiss(self, *, at_once: bool) -> None:
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
            for news in self.pool.news():
                if news.report is not None:
                    self._take_last_words(news.node, news.report)
        for node in list(self.pool.nodes):
            self.pool.drop(node)

    def _take_last_words(self, node: NodeHandle, report: NodeReport) -> None:
        """Take what a node still says when the run is over, as long as it can be stored."""
        if report.ending is not None:
            self._startup += report.ending.startup
        scheduler = self._scheduler
        if scheduler is None or isinstance(scheduler.dispatch.error, StoreError):
            return
        try:
            scheduler.receive(node, report)
        except ProctorError as error:
            scheduler.dispatch.end(error)


@dataclass(frozen=True)
class ClusterJob:
    """The pending episodes of a run, on the nodes of a cluster."""

    driver: Driver
    before: Outcomes
    """What of the plan had ended already."""
    workforce: Workforce

    def run(self, context: RunContext, ledger: Ledger, rules: StopRules | None = None) -> Ending:
        """Hand out until all is stored, a signal comes, or an error ends it."""
        return self.driver.run(self.before, context, ledger, rules)


def _comparable(identity: Identity) -> Identity:
    """Return an identity in which a policy that cannot be known again is the same on every node."""
    policy = identity["policy"]
    unknown = str(policy["fingerprint"]).startswith(UNKNOWN)
    return {**identity, "policy": {**policy, "fingerprint": UNKNOWN}} if unknown else identity


def _identity(node: NodeHandle) -> Identity:
    assert node.facts is not None
    return node.facts.identity


def _deviations(node: NodeHandle, identity: Identity) -> list[tuple[str, str, str]]:
    """Return where what a node has is not what the run has; none: it may take part."""
    return differences(_comparable(identity), _comparable(_identity(node)))


def _ballot(node: NodeHandle) -> str:
    return json.dumps(_comparable(_identity(node)), sort_keys=True)
