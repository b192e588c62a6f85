"""The hosts that answer for a policy: watched, replaced when they die, and joined by more where that helps."""

from __future__ import annotations

import selectors
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from proctor.config.settings import LimitSettings
from proctor.engine.dispatch import Dispatch
from proctor.engine.host_handle import Host, HostHandle
from proctor.engine.messages import Channel, as_error
from proctor.engine.process import NO_ROOM
from proctor.engine.worker_handle import WorkerHandle
from proctor.machine.processes import cpu_seconds, describe_exit

_FAULTS = ("policy_error", "policy_gone", "load_error", "changed")


class PolicyHosts:
    """The hosts of a run, as its event loop drives them.

    Args:
        hosts: those that it begins with; their policies are loaded.
        dispatch: what is told of their ends.
        selector: where their messages and deaths are waited for.
        workers: says who there is to be served.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        dispatch: Dispatch,
        selector: selectors.BaseSelector,
        workers: Callable[[], Collection[WorkerHandle]],
    ) -> None:
        self._hosts, self._coming = list(hosts), list[HostHandle]()
        self._dispatch, self._selector, self._workers = dispatch, selector, workers
        self.startup = sum(host.startup for host in hosts)
        """Seconds that their starts took, of all together."""

    def begin(self) -> None:
        """Watch those that there are."""
        for host in self._hosts:
            self._watch(host)

    def serve_live(self, host: Host) -> None:
        """Use a live policy of this process."""
        self._hosts = [host]

    @property
    def alone(self) -> HostHandle | None:
        """The one process that answers, where it is one."""
        only = self._hosts[0] if len(self._hosts) == 1 and not self._coming else None
        return only if isinstance(only, HostHandle) else None

    @property
    def several(self) -> bool:
        """Whether there is a choice of hosts."""
        return len(self._hosts) > 1

    def least_busy(self) -> Host | None:
        """Return the host that serves the fewest workers; `None`: nobody needs one."""
        served = self._served()
        return min(self._hosts, key=lambda host: served[id(host)], default=None)

    def share_out(self, worker: WorkerHandle) -> None:
        """Let a worker that has nothing to do be served by another host, if that has less to do."""
        host = self.least_busy()
        served = self._served()
        if host is not None and worker.host is not None and served[id(worker.host)] > served[id(host)] + 1:
            worker.move_to(host)

    def _served(self) -> Counter[int]:
        return Counter(id(worker.host) for worker in self._workers())

    def grow(self, number: int) -> None:
        """Start more, until there are so many; they serve as soon as they have loaded the policy."""
        first = self._hosts[0]
        assert isinstance(first, HostHandle)
        for place in range(len(self._hosts), number):
            try:
                host = first.one_more(place)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                self._dispatch.tell(f"no room for another copy of the policy: going on with {place}")
                return
            self._coming.append(host)
            self._watch(host)

    def retire_unused(self) -> None:
        """End those that serve nobody any more, because every worker has a copy of its own."""
        if any(worker.host is not None for worker in self._workers()):
            return
        for host in self._hosts:
            if isinstance(host, HostHandle):
                self._unwatch(host.child.channel, host.child.pidfd)
            host.stop(0.0)
        self._hosts = []

    def look(self, limits: LimitSettings) -> None:
        """See who hangs."""
        for host in (*self._hosts, *self._coming):
            asked = any(worker.host is host and worker.asks for worker in self._workers())
            host.kill_if_hung(limits, asked)

    def core_seconds(self) -> float:
        """Return what they have used of the cores."""
        children = [host.child for host in (*self._hosts, *self._coming) if host.child is not None]
        return sum(cpu_seconds(child.process.pid) for child in children)

    def hand_over(self) -> list[HostHandle]:
        """Return those that another run may use, which are no longer this one's."""
        processes = [host for host in self._hosts if isinstance(host, HostHandle)]
        self._hosts = [host for host in self._hosts if not isinstance(host, HostHandle)]
        return processes

    def ask_to_stop(self) -> None:
        """Ask all that are processes of their own to end; `stop` waits."""
        for host in (*self._hosts, *self._coming):
            if isinstance(host, HostHandle):
                host.child.ask_to_stop()

    def stop(self, patience: float) -> None:
        """End them all."""
        for host in (*self._hosts, *self._coming):
            host.stop(patience)

    # What they say, and how they end.

    def _watch(self, host: Host) -> None:
        if not isinstance(host, HostHandle):
            return
        self._selector.register(host.child.channel, selectors.EVENT_READ, lambda: self._on_messages(host))
        self._selector.register(host.child.pidfd, selectors.EVENT_READ, lambda: self._on_death(host))

    def _unwatch(self, *sources: Channel | int) -> None:
        for source in sources:
            if source in self._selector.get_map():
                self._selector.unregister(source)

    def _on_messages(self, host: HostHandle) -> None:
        for message in host.child.channel.receive_all():
            kind = message["type"]
            if kind == "load_error" and host in self._coming:
                host.verdict = f"could not load it ({message['message']})"
            elif kind in _FAULTS:
                self._dispatch.end(as_error(message))
            elif kind == "ready":
                self.startup += message["startup"]
                if host in self._coming:
                    self._coming.remove(host)
                    self._hosts.append(host)
            elif kind == "closed":
                self._unwatch(host.child.channel)
                host.child.kill()

    def _on_death(self, host: HostHandle) -> None:
        self._on_messages(host)  # its last words may say whose fault it was
        self._unwatch(host.child.channel, host.child.pidfd)
        code = host.child.reap()
        if host in self._coming:
            ending = host.verdict or describe_exit(code)
            self._coming.remove(host)
            host.stop(0.0)
            self._dispatch.tell(f"another copy of the policy {ending}: going on with {len(self._hosts)}")
            return
        ending = host.verdict or f"the policy's process {describe_exit(code)}"
        if not self._dispatch.lose_host(ending, str(host.recipe.log)):
            return
        another = host.again()
        self._hosts[self._hosts.index(host)] = another
        self._watch(another)
        for worker in self._workers():
            if worker.host is host:
                worker.serve_by(another)
