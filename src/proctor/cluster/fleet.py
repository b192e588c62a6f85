"""The nodes of the cluster, as the driver sees them: who is there, who has which episodes, what they say."""

from __future__ import annotations

import contextlib
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from proctor.cluster.mail import Mail
from proctor.cluster.node import Node, Order
from proctor.config.settings import DevicePolicySettings, LimitSettings, PolicySettings
from proctor.engine.interrupts import Interrupts
from proctor.engine.queue import TaskKey
from proctor.engine.site import Settled
from proctor.engine.waiting import wait_readable
from proctor.engine.watchdog import Stillness
from proctor.errors import RunError
from proctor.types import Episode, EpisodeKey

LOOK_SECONDS = 1.0
NEWS_SECONDS = 0.5
"""How long a node waits for something to tell before it tells only how it goes."""


@dataclass(eq=False)
class Member:
    """One node with an actor of ours.

    Attributes:
        workers: how many episodes it can run at once.
        settled: what it says of the run, once it is ready.
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
    news: Future[Mail]
    settled: Settled | None = None
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

    def give(self, episodes: Sequence[Episode]) -> None:
        """Hand out episodes."""
        self.outstanding.update((episode.key, episode) for episode in episodes)
        self.actor.give.remote([episode.to_wire() for episode in episodes])


class News(NamedTuple):
    """What came from a member: its mail, or the reason why none will come any more."""

    member: Member
    mail: Mail | None = None
    lost: str = ""
    hopeless: bool = False


class Fleet:
    """Starts an actor on every node, also on those that join late, and collects their mail.

    Args:
        order: makes the order for a node from its name and number of workers.
        workers: how many workers a node gets; 0: one per core that Ray has there.
        policy: decides how many GPUs an actor asks Ray for.
        attempts: how often an actor may die before its node is left alone.
        limits: when one counts as hung.
    """

    def __init__(
        self,
        order: Callable[[str, int], Order],
        workers: int,
        policy: PolicySettings,
        attempts: int,
        limits: LimitSettings,
    ) -> None:
        self._order, self._workers, self._policy, self._attempts = order, workers, policy, attempts
        self._limits = limits
        self.members: list[Member] = []
        self._barred: set[str] = set()
        self._deaths: Counter[str] = Counter()
        self._looked = 0.0
        self.deserted = False
        """Whether the last look found no node on which an actor of ours is, or could be started."""

    def look(self, interrupts: Interrupts, tell: Callable[[str], None]) -> None:
        """Start actors on nodes that have none, once a second."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        import ray

        own = ray.get_runtime_context().get_node_id()
        present = {member.id for member in self.members}
        try:
            nodes = ray.nodes()
        except Exception as error:  # Ray has many for it
            raise RunError(
                f"the cluster's head cannot be reached any more: {' '.join(str(error).split())}. "
                "The same command goes on from here."
            ) from None
        # The driver's own node first: it decides where opinions are divided evenly.
        for node in sorted(nodes, key=lambda node: node["NodeID"] != own):
            cores = int(node["Resources"].get("CPU", 0)) if node["Alive"] else 0
            identifier = node["NodeID"]
            if not cores or identifier in present or identifier in self._barred:
                continue
            name = f"{node['NodeManagerHostname']} ({identifier[:8]})"
            gpus = gpus_wanted(self._policy, there := int(node["Resources"].get("GPU", 0)))
            if gpus > there:
                self._barred.add(identifier)
                tell(f"node {name} is left out: --policy.device needs {gpus} GPUs, Ray has {there} there")
                continue
            self.members.append(self._start(identifier, name, cores, gpus, interrupts))
        self._looked = time.monotonic()
        self.deserted = not self.members

    def _start(self, identifier: str, name: str, cores: int, gpus: int, interrupts: Interrupts) -> Member:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        workers = self._workers or cores
        place = NodeAffinitySchedulingStrategy(identifier, soft=False)
        # The cores are asked for, so that other work on the cluster is waited for and not slowed down.
        options = {"num_cpus": min(workers, cores), "num_gpus": gpus, "scheduling_strategy": place}
        actor = ray.remote(Node).options(max_concurrency=4, max_restarts=0, **options)
        handle = actor.remote(self._order(name, workers))
        return Member(identifier, name, workers, handle, _ask(handle, interrupts))

    def news(self, interrupts: Interrupts, seconds: float) -> list[News]:
        """Wait for mail, a signal or the time, and return what has come."""
        if not any(member.news.done() for member in self.members):
            wait_readable([interrupts], seconds)
        interrupts.drain()
        found = []
        for member in [member for member in self.members if member.is_silent(self._limits)]:
            words = f"it has not answered for {self._limits.respond:g} s (--limits.respond)"
            found.append(self._lost(member, TimeoutError(words)))
        for member in [member for member in self.members if member.news.done()]:
            problem = member.news.exception()
            if problem is not None:
                found.append(self._lost(member, problem))
                continue
            mail = member.news.result()
            member.answered += 1
            if mail.leaving is None:
                member.news = _ask(member.actor, interrupts)
            else:
                self.drop(member)
            found.append(News(member, mail))
        return found

    def _lost(self, member: Member, problem: BaseException) -> News:
        from ray.exceptions import RayTaskError

        self.drop(member)
        self._deaths[member.id] += 1
        # An actor that could not even be made there will not be next time.
        hopeless = isinstance(problem, RayTaskError) or getattr(problem, "actor_init_failed", False)
        if hopeless or self._deaths[member.id] >= self._attempts:
            self.bar(member)
        lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
        words = (lines[-1] if hopeless else lines[0]) if lines else type(problem).__name__
        return News(member, lost=words, hopeless=hopeless)

    def drop(self, member: Member) -> None:
        """End a member's actor, and with it all that it started."""
        import ray

        self.members.remove(member)
        with contextlib.suppress(Exception):  # the cluster may be gone, and the actor with it
            ray.kill(member.actor)

    def is_barred(self, member: Member) -> bool:
        """Whether nothing will be started on this node any more."""
        return member.id in self._barred

    def bar(self, member: Member) -> None:
        """Start nothing on this node any more."""
        self._barred.add(member.id)


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


def _ask(actor: Any, interrupts: Interrupts) -> Future[Mail]:
    future: Future[Mail] = actor.collect.remote(NEWS_SECONDS).future()
    future.add_done_callback(lambda _: interrupts.wake())
    return future
