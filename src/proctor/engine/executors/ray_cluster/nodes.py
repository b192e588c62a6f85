"""The nodes of the cluster, as the driver sees them: who is there, who has which episodes, what they say."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from proctor.config.settings import DevicePolicySettings, LimitSettings, PolicySettings, Settings
from proctor.engine.executors.protocol import TICK, RunContext, RunFacts
from proctor.engine.executors.ray_cluster.node import Node, NodeOrder, NodeReport
from proctor.engine.interrupts import Interrupts
from proctor.engine.process import wait_readable
from proctor.engine.queue import TaskKey
from proctor.engine.retries import Restarts
from proctor.engine.watchdog import Stillness
from proctor.errors import RunError
from proctor.types import Episode, EpisodeKey

LOOK_SECONDS = 1.0
NEWS_SECONDS = 0.5
"""How long a node waits for something to tell before it tells only how it goes."""


@dataclass(eq=False)
class NodeHandle:
    """One node with an actor of ours.

    Attributes:
        workers: how many episodes it can run at once.
        facts: what it says of the run, once it is ready.
        logs: the folder of its logs, on the node.
        admitted: whether it may have episodes.
        outstanding: the episodes that it has; `begun` are those that a worker has.
        freed: the tasks of the episodes that ended last, whose simulators are still built there.
        answered: how often it has sent its news.
    """

    id: str
    name: str
    workers: int
    actor: Any
    news: Future[NodeReport]
    facts: RunFacts | None = None
    logs: str = ""
    admitted: bool = False
    steps: int = 0
    busy: int = 0
    outstanding: dict[EpisodeKey, Episode] = field(default_factory=dict)
    begun: set[EpisodeKey] = field(default_factory=set)
    freed: deque[TaskKey] = field(default_factory=deque)
    answered: int = 0
    stillness: Stillness = field(default_factory=Stillness)

    def is_silent(self, limits: LimitSettings) -> bool:
        """Whether its actor has stopped answering. Before its first answer it may wait for room on its node."""
        return self.stillness.seconds(self.answered) > limits.respond and self.answered > 0

    @property
    def where(self) -> str:
        """Where to look when something failed there."""
        return f"node {self.name}{f', logs in {self.logs}' if self.logs else ''}"

    def give(self, episodes: Sequence[tuple[Episode, int]]) -> None:
        """Hand out episodes, with how many of its attempts each has used up."""
        self.outstanding.update((episode.key, episode) for episode, _ in episodes)
        self.actor.give.remote([(episode.to_wire(), attempts) for episode, attempts in episodes])


class NodeNews(NamedTuple):
    """What came from a node: its report, or the reason why none will come any more."""

    node: NodeHandle
    report: NodeReport | None = None
    lost: str = ""
    hopeless: bool = False


class NodePool:
    """Starts an actor on every node, also on those that join late, and collects their reports.

    Args:
        settings: how many workers a node gets (0: one per core that Ray has there), how many GPUs the policy
            wants, how often an actor may die without an episode ending in between, and when one counts as hung.
        context: who is told of a node that is left out, and the stop signals, which end the waiting for news.
        order: makes the order for a node from its name and number of workers.
    """

    def __init__(self, settings: Settings, context: RunContext, order: Callable[[str, int], NodeOrder]) -> None:
        self._settings, self._order = settings, order
        self._interrupts, self._tell = context.interrupts, context.watcher.note
        self.nodes: list[NodeHandle] = []
        self._barred: set[str] = set()
        self.restarts = Restarts(settings.eval.max_attempts)
        self._looked = 0.0
        self.deserted = False
        """Whether the last look found no node on which an actor of ours is, or could be started."""

    def look(self) -> None:
        """Start actors on nodes that have none, once a second."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        import ray

        own = ray.get_runtime_context().get_node_id()
        present = {node.id for node in self.nodes}
        try:
            there = ray.nodes()
        except Exception as error:  # Ray has many for it
            raise RunError(
                f"the cluster's head cannot be reached any more: {' '.join(str(error).split())}. "
                "Run it again to continue from here."
            ) from None
        # The driver's own node first: it decides where opinions are divided evenly.
        for one in sorted(there, key=lambda one: one["NodeID"] != own):
            cores = int(one["Resources"].get("CPU", 0)) if one["Alive"] else 0
            identifier = one["NodeID"]
            if not cores or identifier in present or identifier in self._barred:
                continue
            name = f"{one['NodeManagerHostname']} ({identifier[:8]})"
            gpus = gpus_wanted(self._settings.policy, gpus_there := int(one["Resources"].get("GPU", 0)))
            if gpus > gpus_there:
                self._barred.add(identifier)
                self._tell(
                    f"node {name} is left out: --policy.device needs {gpus} GPUs, Ray has {gpus_there} there"
                )
                continue
            self.nodes.append(self._start(identifier, name, cores, gpus))
        self._looked = time.monotonic()
        self.deserted = not self.nodes

    def _start(self, identifier: str, name: str, cores: int, gpus: int) -> NodeHandle:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        workers = self._settings.eval.batch_size or cores
        place = NodeAffinitySchedulingStrategy(identifier, soft=False)
        # The cores are asked for, so that other work on the cluster is waited for and not slowed down.
        options = {"num_cpus": min(workers, cores), "num_gpus": gpus, "scheduling_strategy": place}
        actor = ray.remote(Node).options(max_concurrency=4, max_restarts=0, **options)
        handle = actor.remote(self._order(name, workers))
        return NodeHandle(identifier, name, workers, handle, _ask(handle, self._interrupts))

    def news(self) -> list[NodeNews]:
        """Wait for a report, a signal or the next tick, and return what has come."""
        if not any(node.news.done() for node in self.nodes):
            wait_readable([self._interrupts], TICK)
        self._interrupts.drain()
        found, limits = [], self._settings.limits
        for node in [node for node in self.nodes if node.is_silent(limits)]:
            words = f"it has not answered for {limits.respond:g} s (--limits.respond)"
            found.append(self._lost(node, TimeoutError(words)))
        for node in [node for node in self.nodes if node.news.done()]:
            problem = node.news.exception()
            if problem is not None:
                found.append(self._lost(node, problem))
                continue
            report = node.news.result()
            node.answered += 1
            if report.ending is None:
                node.news = _ask(node.actor, self._interrupts)
            else:
                self.drop(node)
            found.append(NodeNews(node, report))
        return found

    def _lost(self, node: NodeHandle, problem: BaseException) -> NodeNews:
        from ray.exceptions import RayTaskError

        self.drop(node)
        self.restarts.died(node.id)
        # An actor that could not even be made there will not be next time.
        hopeless = isinstance(problem, RayTaskError) or getattr(problem, "actor_init_failed", False)
        lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
        words = (lines[-1] if hopeless else lines[0]) if lines else type(problem).__name__
        return NodeNews(node, lost=words, hopeless=hopeless)

    def drop(self, node: NodeHandle) -> None:
        """End a node's actor, and with it all that it started."""
        import ray

        self.nodes.remove(node)
        with contextlib.suppress(Exception):  # the cluster may be gone, and the actor with it
            ray.kill(node.actor)

    def bar(self, node: NodeHandle) -> None:
        """Start nothing on this node any more."""
        self._barred.add(node.id)


def gpus_wanted(policy: PolicySettings, there: int) -> int:
    """Return how many GPUs an actor needs: Ray shows it those, and no others.

    A policy whose device is left open gets one where there is one.
    """
    if not isinstance(policy, DevicePolicySettings):
        return 0
    if policy.device is None:
        return min(1, there)
    names = [name.strip() for name in str(policy.device).split(",")]
    numbers = [int(name.partition(":")[2] or 0) for name in names if name.startswith("cuda")]
    return max(numbers) + 1 if numbers else 0


def _ask(actor: Any, interrupts: Interrupts) -> Future[NodeReport]:
    future: Future[NodeReport] = actor.collect.remote(NEWS_SECONDS).future()
    future.add_done_callback(lambda _: interrupts.wake())
    return future
