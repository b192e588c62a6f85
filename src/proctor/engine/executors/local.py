"""Worker processes of this machine: an event loop over sockets and pidfds, which drives a dispatch.

It holds no model and no simulator, so Ctrl-C, the watchdog and the display answer at once. Everything that
can happen to a run arrives here as a message, a death, a signal or the passing of time.
"""

from __future__ import annotations

import selectors
from collections.abc import Sequence

from proctor.engine.copies import CallMeter, HostLoad, Room, choose_copies
from proctor.engine.dispatch import SHORT_EPISODE
from proctor.engine.executors.policy_hosts import PolicyHosts
from proctor.engine.executors.protocol import TICK, Ending, Publisher, RunContext
from proctor.engine.executors.run_order import RunOrder
from proctor.engine.host_handle import Host, HostThread
from proctor.engine.messages import Channel, Message, as_error
from proctor.engine.process import NO_ROOM
from proctor.engine.retries import Cause, Failure
from proctor.engine.stopping import StopRules
from proctor.engine.transport import HOST_DIED, now
from proctor.engine.worker_handle import WorkerHandle
from proctor.engine.workforce import WorkerAutoscaler, WorkerLoad
from proctor.errors import RunError, StoreError
from proctor.files import reason
from proctor.machine.gpu_use import GpuWatch
from proctor.machine.processes import bond_of, cpu_seconds, peak_memory
from proctor.machine.resources import available_memory, usable_cores
from proctor.store.schema import EpisodeRecord, Ledger, RunningEpisode
from proctor.types import Episode

POLITE_SECONDS = 3.0


class Coordinator:
    """Runs the pending episodes of a plan and stores each the moment it ends."""

    def __init__(
        self,
        order: RunOrder,
        context: RunContext,
        ledger: Ledger,
        rules: StopRules | None = None,
        hosts: Sequence[Host] = (),
    ) -> None:
        self._order, self._interrupts = order, context.interrupts
        self._dispatch = order.dispatch(ledger, rules)
        self._publisher = Publisher(self._dispatch, ledger, context.watcher)
        self._autoscaler = WorkerAutoscaler(*order.workers, usable_cores(), order.prepared.on_gpu)
        self._dispatch.workers = self._autoscaler.target
        self._workers: dict[int, WorkerHandle] = {}
        self._next_number = 0
        self._cut_short: list[RunningEpisode] = []
        self._stop_deadline = float("inf")
        self._startup = 0.0
        self._steps_of_the_gone = 0
        self._cores_of_the_gone = 0.0
        self._selector = selectors.DefaultSelector()
        self._hosts = PolicyHosts(hosts, self._dispatch, self._selector, self._workers.values)
        self._recipe = order.recipe
        self._calls = CallMeter() if order.may_be_copied else None

    def serve_live(self, host: HostThread) -> None:
        """Use a live policy of this process, which blames this coordinator when it fails."""
        self._hosts.serve_live(host)

    def blame(self, error: RunError) -> None:
        """Take a live policy's error from its thread; the loop sees it at its next turn."""
        self._dispatch.end(error)
        self._interrupts.wake()

    def run(self) -> Ending:
        """Run to the end, whatever that is, and leave no child behind."""
        self._selector.register(self._interrupts, selectors.EVENT_READ, self._on_signal)
        self._hosts.begin()
        with GpuWatch(self._order.prepared.on_gpu) as gpus:
            try:
                self._run(gpus)
            finally:
                self._shut_down()
        stopped_by = self._interrupts.first if self._dispatch.interrupted else None
        return Ending(stopped_by, self._dispatch.error, self._startup + self._hosts.startup)

    def _run(self, gpus: GpuWatch) -> None:
        self._fill()
        if (early := self._order.prepared.policy.early) is not None:
            early.close(0.0)  # those that nobody has taken
        while True:
            # Hand out before committing: a worker must not wait for the disk.
            self._fill()
            self._publisher.publish(self._running)
            if self._is_over():
                break
            for key, _ in self._selector.select(TICK):
                key.data()
            self._look()
        for worker in list(self._workers.values()):
            self._on_messages(worker)  # what has ended by now is kept, whatever ends the run
        for seen in gpus.stop():
            self._dispatch.tell(seen)
        self._publisher.publish(self._running, last=True)
        self._show()

    # Handing out.

    def _fill(self) -> None:
        if self._dispatch.is_ending:
            return
        if self._order.feed is not None:
            self._order.feed.pour(self._dispatch)
        for worker in self._workers.values():
            if not worker.assigned:
                self._assign(worker)
        while len(self._at_work()) < self._autoscaler.target and self._start_worker():
            pass
        # One ahead, but only of short episodes: the last long ones must be shared evenly.
        if self._dispatch.tally.mean_episode() < SHORT_EPISODE and not self._hosts.several:
            for worker in self._workers.values():
                if len(worker.assigned) == 1 and self._dispatch.waiting > self._autoscaler.target:
                    self._assign(worker)

    def _at_work(self) -> list[WorkerHandle]:
        return [worker for worker in self._workers.values() if not worker.retiring]

    def _assign(self, worker: WorkerHandle) -> None:
        limit = self._order.settings.eval.recycle_after
        if worker.retiring:
            return
        if not worker.assigned and len(self._at_work()) > self._autoscaler.target:
            worker.retire()
            return
        if limit and worker.finished + len(worker.assigned) >= limit:
            if not worker.assigned:
                worker.retire()
            return
        episode = self._dispatch.take(worker.held_task)
        if episode is not None:
            if self._hosts.several and not worker.assigned:
                self._hosts.share_out(worker)
            self._give(worker, episode)

    def _start_worker(self) -> bool:
        early = self._order.prepared.policy.early
        episode = self._dispatch.take(None if early is None else early.next_task)
        if episode is None:
            return False
        try:
            worker = self._new_worker()
        except OSError as error:
            self._dispatch.put_back(episode)
            self._on_no_room(error)
            return False
        self._next_number += 1
        self._workers[worker.number] = worker
        self._selector.register(worker.child.channel, selectors.EVENT_READ, lambda: self._on_messages(worker))
        self._selector.register(worker.child.pidfd, selectors.EVENT_READ, lambda: self._on_death(worker))
        self._give(worker, episode)
        return True

    def _new_worker(self) -> WorkerHandle:
        what = self._next_number, self._recipe, self._next_host()
        for pool in (self._order.prepared.policy.early, self._order.warm):
            if pool is not None and (worker := pool.worker(*what)) is not None:
                return worker
        return WorkerHandle(*what)

    def _give(self, worker: WorkerHandle, episode: Episode) -> None:
        worker.give(episode, *self._order.sinks(episode), self._order.trajectory(episode))
        self._publisher.begun(episode)

    def _on_no_room(self, error: OSError) -> None:
        """Go on with the workers that there are: no descriptor, process or memory is left for one more."""
        there = len(self._at_work())
        if error.errno not in NO_ROOM:
            where = f"{error.filename}: " if error.filename else ""
            self._dispatch.end(
                StoreError(f"cannot start a worker: {where}{reason(error)}. Fix that, then run it again.")
            )
            return
        words = f"no room for another worker ({error.strerror or error})"
        if there:
            self._autoscaler.be_content(there)
            self._dispatch.tell(f"{words}: going on with {there}. {NO_ROOM[error.errno or 0]} for more")
        else:
            self._dispatch.end(RunError(f"{words}. {NO_ROOM[error.errno or 0]}, then run it again."))

    def _next_host(self) -> Host | None:
        return None if self._recipe.policy is not None else self._hosts.least_busy()

    # What workers say.

    def _on_messages(self, worker: WorkerHandle) -> None:
        if worker.number not in self._workers:
            return
        before = worker.finished
        for message in worker.child.channel.receive_all():
            self._on_message(worker, message)
        if self._dispatch.interrupted and worker.finished > before:
            self._dismiss(worker)  # it has read its next order already, and nobody will wait for that

    def _on_message(self, worker: WorkerHandle, message: Message) -> None:
        match message["type"]:
            case "ready":
                self._startup += message["startup"]
            case "done":
                self._on_done(worker, EpisodeRecord(**message["record"]))
            case "copied":
                worker.own_copy(self._recipe)
                self._hosts.retire_unused()
            case "no_copy":
                self._do_without_copies(message["reason"])
            case "simulator_error":
                worker.verdict = message["reason"]
            case "policy_lost":
                if worker.assigned:
                    lasted, lost = now() - worker.begun, message["reason"]
                    self._fail(worker.release(), Failure(Cause.POLICY, lost, worker.number, lasted))
            case "policy_error" | "policy_gone" | "benchmark_error" | "changed":
                self._dispatch.end(as_error(message))
            case "video_error":
                self._dispatch.end(
                    StoreError(
                        f"{message['message']}. Free some space, then run it again: finished episodes are kept."
                    )
                )
            case "closed":
                # Whoever hangs up without dying is of no use; its pidfd tells the rest.
                self._unwatch(worker.child.channel)
                worker.child.kill()

    def _on_done(self, worker: WorkerHandle, record: EpisodeRecord) -> None:
        if not worker.assigned or record.key != worker.assigned[0].key:
            worker.verdict = "it reported an episode that it was not given; a copy of it may be running"
            worker.child.kill()
            return
        worker.finished += 1
        self._dispatch.finish(self._order.completed(record, worker.release(), worker.number))

    def _on_death(self, worker: WorkerHandle) -> None:
        if worker.number not in self._workers:
            return
        self._on_messages(worker)  # what it said before it died still counts
        if worker.number not in self._workers:
            return  # dismissed: that was its last episode before a stop
        self._forget(worker)
        failure = worker.bury()
        if not worker.assigned:
            return
        first, *others = worker.assigned
        for episode in others:
            self._dispatch.put_back(episode)
        self._fail(first, failure)

    def _fail(self, episode: Episode, failure: Failure) -> None:
        eldest = max((now() - worker.begun for worker in self._workers.values()), default=0.0)
        # That the host died is told once for all its episodes.
        self._dispatch.fail(episode, failure._replace(told=failure.reason == HOST_DIED), eldest)

    def _dismiss(self, worker: WorkerHandle) -> None:
        if (next_one := worker.running()) is not None:
            self._cut_short.append(next_one)
        self._forget(worker)
        worker.child.kill()
        worker.child.reap()
        for episode in worker.assigned:
            self._dispatch.put_back(episode)

    def _forget(self, worker: WorkerHandle) -> None:
        del self._workers[worker.number]
        self._unwatch(worker.child.channel, worker.child.pidfd)
        self._steps_of_the_gone += worker.steps
        self._cores_of_the_gone += cpu_seconds(worker.child.process.pid)
        worker.leave()

    def _unwatch(self, *sources: Channel | int) -> None:
        for source in sources:
            if source in self._selector.get_map():
                self._selector.unregister(source)

    # Where the policy runs.

    def _consider_copies(self) -> None:
        """See whether copies of the policy would finish the run sooner than the one host that it began with."""
        host = self._hosts.alone
        if self._calls is None or host is None or self._dispatch.is_ending:
            return
        cost = self._calls.look(HostLoad(now(), *host.answered(), self._steps()))
        if cost is None:
            return
        workers, pid = len(self._at_work()), host.child.process.pid
        memory = max(1, peak_memory(pid))
        room = Room(
            workers,
            usable_cores(),
            host.startup,
            available_memory() // 2 // memory,
            self._order.copying is not None,
        )
        copies = choose_copies(cost, self._dispatch.waiting * self._order.mean_limit, room)
        if copies == 1:
            return  # the next window may say otherwise
        self._calls = None
        if (bond := bond_of(pid)) is not None:
            self._dispatch.tell(f"the policy is asked in one process, because it has {bond}")
            return
        what = f"a call of the policy takes {cost.act * 1e3:.3g} ms"
        if self._order.copying is not None and copies == workers:
            self._dispatch.tell(f"{what}: every worker loads a copy of its own")
            self._recipe = self._order.copying
            self._autoscaler.be_content(self._autoscaler.target)  # each more would load it again
            for worker in self._at_work():
                worker.load_copy(self._recipe)
        else:
            self._dispatch.tell(f"{what}: {copies} processes answer for it")
            self._hosts.grow(copies)

    def _do_without_copies(self, reason: str) -> None:
        """Go on with the host where it is needed: the policy could not be loaded a second time."""
        if self._recipe.policy is not None:
            self._recipe = self._order.recipe
            self._dispatch.tell(f"workers ask the one process that has the policy: {reason}")

    # Signals and time.

    def _on_signal(self) -> None:
        self._interrupts.drain()
        if self._interrupts.count and not self._dispatch.interrupted:
            grace = self._order.settings.eval.stop_grace
            self._stop_deadline = now() + grace
            self._dispatch.interrupt(self._busy(), grace)

    def _look(self) -> None:
        """Do what is done a few times a second: see who hangs, and show how far the run is."""
        if not self._publisher.is_due():
            return
        for worker in self._workers.values():
            worker.kill_if_hung(self._order.settings.limits)
        self._hosts.look(self._order.settings.limits)
        self._consider_copies()
        self._show()

    def _is_over(self) -> bool:
        late = now() >= self._stop_deadline or self._interrupts.count > 1
        return self._dispatch.is_over or (self._dispatch.interrupted and late)

    # Results.

    def _busy(self) -> int:
        return sum(bool(worker.assigned) for worker in self._workers.values())

    def _running(self) -> list[RunningEpisode]:
        """Return which episodes are in flight, and how far each is."""
        found = (*(worker.running() for worker in self._workers.values()), *self._cut_short)
        # Of those that have not begun there is nothing to tell.
        return [one for one in found if one is not None and one.steps]

    def _steps(self) -> int:
        return self._steps_of_the_gone + sum(worker.steps for worker in self._workers.values())

    def _show(self) -> None:
        steps = self._steps()
        if not self._autoscaler.settled:
            self._autoscaler.look(self._load(steps))
        self._dispatch.workers = self._autoscaler.target
        ready = sum(worker.is_ready for worker in self._workers.values())
        self._publisher.show(steps, self._busy(), self._running(), ready)

    def _load(self, steps: int) -> WorkerLoad:
        used = sum(cpu_seconds(worker.child.process.pid) for worker in self._workers.values())
        return WorkerLoad(
            now(),
            steps,
            core_seconds=self._cores_of_the_gone + used + self._hosts.core_seconds(),
            working=sum(worker.steps > 0 for worker in self._at_work()),
            waiting=self._dispatch.waiting,
        )

    # The end.

    def _shut_down(self) -> None:
        """End every child: politely if all is done, at once otherwise; or keep it for another run."""
        complete = not self._dispatch.is_ending
        if self._order.warm is not None and complete:
            self._order.warm.keep_workers([one for one in self._at_work() if not one.assigned])
            self._order.warm.keep_hosts(self._hosts.hand_over())
            self._workers = {number: one for number, one in self._workers.items() if one.assigned or one.retiring}
        workers = list(self._workers.values())
        for worker in workers:
            if complete and not worker.assigned:
                worker.child.ask_to_stop()
            else:
                worker.child.kill()
        if complete:
            self._hosts.ask_to_stop()  # all end at once, each in its own time
        deadline = now() + POLITE_SECONDS
        for worker in workers:
            worker.child.reap(max(0.01, deadline - now()))
        self._workers.clear()
        self._hosts.stop(POLITE_SECONDS if complete else 0.0)
        for worker in workers:
            worker.slot.close()
        self._selector.close()
