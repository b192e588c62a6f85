"""The coordinator: an event loop over sockets and pidfds. It owns queue, store and display.

It holds no model and no simulator, so Ctrl-C, the watchdog and the display answer at once. Everything that
can happen to a run arrives here as a message, a death, a signal or the passing of time.
"""

from __future__ import annotations

import selectors
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from proctor.engine.child import NO_ROOM
from proctor.engine.crew import Worker
from proctor.engine.feed import Feed
from proctor.engine.headcount import Headcount, Moment
from proctor.engine.hosts import Host, HostProcess, HostThread
from proctor.engine.interrupts import Interrupts
from proctor.engine.job import Ending, Job, stored_path
from proctor.engine.messages import Channel, Message, as_error
from proctor.engine.queue import EpisodeQueue
from proctor.engine.tally import SHORT_EPISODE, Tally
from proctor.engine.transport import HOST_DIED, now
from proctor.errors import PolicyHostError, ProctorError, RunError, StoreError
from proctor.events import Watcher
from proctor.files import reason
from proctor.machine.processes import cpu_seconds, describe_exit
from proctor.machine.resources import usable_cores
from proctor.store.schema import Attempt, EpisodeRecord, Ledger, RunningEpisode
from proctor.types import Episode, EpisodeKey

TICK = 0.25
POLITE_SECONDS = 3.0
CHECK_SECONDS = 1.0
"""How often it is made sure that the run directory is still there."""
HOPELESS = 12
"""Failed attempts, at least, after which a run that has not ended a single episode may be given up."""


class Coordinator:
    """Runs the pending episodes of a plan and stores each the moment it ends."""

    def __init__(
        self,
        job: Job,
        ledger: Ledger,
        watchers: Sequence[Watcher],
        interrupts: Interrupts,
        hosts: Sequence[Host] = (),
        feed: Feed | None = None,
    ) -> None:
        self._job, self._ledger, self._watchers, self._interrupts = job, ledger, watchers, interrupts
        self._feed = feed
        self._hosts = list(hosts)
        self._queue = EpisodeQueue(job.plan, job.pending, job.max_open_tasks)
        self._tally = Tally(job.before, ledger.running())
        self._headcount = Headcount(*job.crew, usable_cores(), job.on_gpu)
        self._workers: dict[int, Worker] = {}
        self._next_number = 0
        self._failures: Counter[EpisodeKey] = Counter()
        self._host_losses: Counter[EpisodeKey] = Counter()
        self._host_deaths = 0
        self._records: list[EpisodeRecord] = []
        self._attempts: list[Attempt] = []
        self._cut_short: list[RunningEpisode] = []
        self._error: ProctorError | None = None
        self._stop_deadline: float | None = None
        self._startup = sum(host.startup for host in hosts)
        self._steps_of_the_gone = 0
        self._cores_of_the_gone = 0.0
        self._looked = self._checked = 0.0
        self._longest_failure = 0.0
        self._selector = selectors.DefaultSelector()

    def serve_live(self, host: HostThread) -> None:
        """Use a live policy of this process, which blames this coordinator when it fails."""
        self._hosts = [host]

    def blame(self, error: RunError) -> None:
        """Take a live policy's error from its thread; the loop sees it at its next turn."""
        self._error = self._error or error
        self._interrupts.wake()

    def run(self) -> Ending:
        """Run to the end, whatever that is, and leave no child behind."""
        self._selector.register(self._interrupts, selectors.EVENT_READ, self._on_signal)
        for host in self._hosts:
            self._watch_host(host)
        try:
            while True:
                # Hand out before committing: a worker must not wait for the disk.
                self._fill()
                self._flush()
                if self._is_over():
                    break
                for key, _ in self._selector.select(TICK):
                    key.data()
                self._look()
            for worker in list(self._workers.values()):
                self._on_messages(worker)  # what has ended by now is kept, whatever ends the run
            self._flush(last=True)
            self._show()
        finally:
            self._shut_down()
        return Ending(
            self._interrupts.first if self._stop_deadline is not None else None,
            self._error,
            self._startup,
        )

    # Handing out.

    def _fill(self) -> None:
        if self._error is not None or self._stop_deadline is not None:
            return
        for episode in self._feed.take() if self._feed is not None else ():
            self._queue.put_back(episode)
        for worker in self._workers.values():
            if not worker.assigned:
                self._assign(worker)
        while len(self._at_work()) < self._headcount.target and self._start_worker():
            pass
        # One ahead, but only of short episodes: the last long ones must be shared evenly.
        if self._tally.mean_episode() < SHORT_EPISODE:
            for worker in self._workers.values():
                if len(worker.assigned) == 1 and len(self._queue) > self._headcount.target:
                    self._assign(worker)

    def _at_work(self) -> list[Worker]:
        return [worker for worker in self._workers.values() if not worker.retiring]

    def _assign(self, worker: Worker) -> None:
        limit = self._job.eval.recycle_after
        if worker.retiring:
            return
        if not worker.assigned and len(self._at_work()) > self._headcount.target:
            worker.retire()
            return
        if limit and worker.finished + len(worker.assigned) >= limit:
            if not worker.assigned:
                worker.retire()
            return
        episode = self._queue.take(worker.held_task)
        if episode is not None:
            self._give(worker, episode)

    def _start_worker(self) -> bool:
        episode = self._queue.take(None)
        if episode is None:
            return False
        try:
            worker = Worker(self._next_number, self._job.recipe, self._least_busy_host())
        except OSError as error:
            self._queue.ended(episode)
            self._queue.put_back(episode)
            self._on_no_room(error)
            return False
        self._next_number += 1
        self._workers[worker.number] = worker
        self._selector.register(worker.child.channel, selectors.EVENT_READ, lambda: self._on_messages(worker))
        self._selector.register(worker.child.pidfd, selectors.EVENT_READ, lambda: self._on_death(worker))
        self._give(worker, episode)
        return True

    def _give(self, worker: Worker, episode: Episode) -> None:
        worker.give(episode, self._job.video_path(episode), self._job.recording_path(episode))
        for watcher in self._watchers:
            watcher.begun(episode)

    def _on_no_room(self, error: OSError) -> None:
        """Go on with the workers that there are: no descriptor, process or memory is left for one more."""
        there = len(self._at_work())
        if error.errno not in NO_ROOM:
            where = f"{error.filename}: " if error.filename else ""
            self._error = self._error or StoreError(
                f"cannot start a worker: {where}{reason(error)}. Mend that, then run the same command again."
            )
            return
        words = f"no room for another worker ({error.strerror or error})"
        if there:
            self._headcount.be_content(there)
            self._tell(f"{words}: going on with {there}. {NO_ROOM[error.errno or 0]} for more")
        else:
            self._error = self._error or RunError(
                f"{words}. {NO_ROOM[error.errno or 0]}, then run the same command again."
            )

    def _least_busy_host(self) -> Host | None:
        served = Counter(id(worker.host) for worker in self._workers.values())
        return min(self._hosts, key=lambda host: served[id(host)], default=None)

    # What workers say.

    def _on_messages(self, worker: Worker) -> None:
        if worker.number not in self._workers:
            return
        before = worker.finished
        for message in worker.child.channel.receive_all():
            self._on_message(worker, message)
        if self._stop_deadline is not None and worker.finished > before:
            self._dismiss(worker)  # it has read its next order already, and nobody will wait for that

    def _on_message(self, worker: Worker, message: Message) -> None:
        match message["type"]:
            case "ready":
                self._startup += message["startup"]
            case "done":
                self._on_done(worker, EpisodeRecord(**message["record"]))
            case "simulator_error":
                worker.verdict = message["reason"]
            case "policy_lost":
                self._on_policy_lost(worker, message["reason"])
            case "policy_error" | "policy_gone" | "benchmark_error" | "changed":
                self._error = self._error or as_error(message)
            case "video_error":
                self._error = self._error or StoreError(
                    f"{message['message']}. Free some space, then run the same command again: "
                    "finished episodes are kept."
                )
            case "closed":
                # Whoever hangs up without dying is of no use; its pidfd tells the rest.
                self._unwatch(worker.child.channel)
                worker.child.kill()

    def _on_done(self, worker: Worker, record: EpisodeRecord) -> None:
        if not worker.assigned or record.key != worker.assigned[0].key:
            worker.verdict = "it told of an episode that it was not given; a copy of it may be running"
            worker.child.kill()
            return
        episode = worker.release()
        self._tally.add_build(record.timing["build"])
        worker.finished += 1
        self._queue.ended(episode)
        video = self._job.video_path(episode)
        tries = 1 + self._failures[episode.key] + self._host_losses[episode.key]
        name = f"{self._job.place}{worker.number}"
        self._records.append(replace(record, attempts=tries, video_path=stored_path(video), worker=name))
        self._host_deaths = 0

    def _on_policy_lost(self, worker: Worker, reason: str) -> None:
        if not worker.assigned:
            return
        episode = worker.release()
        self._queue.ended(episode)
        self._lose_policy(episode, reason, worker.number)

    def _lose_policy(self, episode: Episode, reason: str, worker: int) -> None:
        self._queue.put_back(episode)
        self._host_losses[episode.key] += 1
        number = self._host_losses[episode.key]
        self._attempts.append(Attempt(episode.key, number, reason, worker))
        if number >= self._job.eval.max_attempts:
            self._error = self._error or PolicyHostError(
                f"{episode} lost its policy {number} times, the last time because {reason} "
                f"(see {self._job.recipe.logs}). The same command goes on from here."
            )
        elif reason != HOST_DIED:  # that is told once for all its episodes
            self._tell(
                f"{episode}: attempt {number} of {self._job.eval.max_attempts} failed, trying again: {reason}"
            )

    def _on_death(self, worker: Worker) -> None:
        if worker.number not in self._workers:
            return
        self._on_messages(worker)  # what it said before it died still counts
        if worker.number not in self._workers:
            return  # dismissed: that was its last episode before a stop
        self._forget(worker)
        death = worker.bury()
        for place, episode in enumerate(worker.assigned):
            self._queue.ended(episode)
            if place or self._stop_deadline is not None:
                self._queue.put_back(episode)
            elif death.of_policy:
                self._lose_policy(episode, death.reason, worker.number)
            else:
                self._longest_failure = max(self._longest_failure, death.lasted)
                self._fail(episode, death.reason, worker.number)

    def _fail(self, episode: Episode, reason: str, worker: int) -> None:
        self._failures[episode.key] += 1
        tries = self._failures[episode.key]
        self._attempts.append(Attempt(episode.key, tries, reason, worker))
        if tries >= self._job.eval.max_attempts:
            self._tell(f"{episode}: attempt {tries} of {self._job.eval.max_attempts} failed, given up: {reason}")
            self._records.append(EpisodeRecord.failed(episode, tries, reason))
        else:
            self._tell(
                f"{episode}: attempt {tries} of {self._job.eval.max_attempts} failed, trying again: {reason}"
            )
            self._queue.put_back(episode)
        if self._is_hopeless():
            self._error = self._error or RunError(
                f"{self._failures.total()} attempts failed and not one episode ended. The last reason: {reason}"
            )

    def _is_hopeless(self) -> bool:
        """Whether nothing speaks for going on: every worker has failed twice, and nobody got further than they.

        An episode that has been under way for longer than any that failed may be a healthy one.
        """
        if self._tally.finished or self._failures.total() < max(HOPELESS, 2 * self._headcount.target):
            return False
        return all(now() - worker.begun <= self._longest_failure for worker in self._workers.values())

    def _dismiss(self, worker: Worker) -> None:
        if (next_one := worker.running()) is not None:
            self._cut_short.append(next_one)
        self._forget(worker)
        worker.child.kill()
        worker.child.reap()
        for episode in worker.assigned:
            self._queue.ended(episode)

    def _forget(self, worker: Worker) -> None:
        del self._workers[worker.number]
        self._unwatch(worker.child.channel, worker.child.pidfd)
        self._steps_of_the_gone += worker.slot.counted()[0]
        self._cores_of_the_gone += cpu_seconds(worker.child.process.pid)
        if worker.host is not None:
            worker.host.detach(worker.number)

    def _unwatch(self, *sources: Channel | int) -> None:
        for source in sources:
            if source in self._selector.get_map():
                self._selector.unregister(source)

    # The hosts.

    def _watch_host(self, host: Host) -> None:
        if not isinstance(host, HostProcess):
            return
        self._selector.register(host.child.channel, selectors.EVENT_READ, lambda: self._on_host_messages(host))
        self._selector.register(host.child.pidfd, selectors.EVENT_READ, lambda: self._on_host_death(host))

    def _on_host_messages(self, host: HostProcess) -> None:
        for message in host.child.channel.receive_all():
            if message["type"] in ("policy_error", "policy_gone", "load_error", "changed"):
                self._error = self._error or as_error(message)
            elif message["type"] == "ready":
                self._startup += message["startup"]
            elif message["type"] == "closed":
                self._unwatch(host.child.channel)
                host.child.kill()

    def _on_host_death(self, host: HostProcess) -> None:
        self._on_host_messages(host)  # its last words may say whose fault it was
        self._unwatch(host.child.channel, host.child.pidfd)
        code = host.child.reap()
        ending = host.verdict or f"the policy's process {describe_exit(code)}"
        self._host_deaths += 1
        if self._error is not None:
            return
        if self._host_deaths >= self._job.eval.max_attempts:
            self._error = PolicyHostError(
                f"{ending}, {self._host_deaths} times without an episode ending in between "
                f"(see {host.recipe.log}). The same command goes on from here."
            )
            return
        self._tell(f"{ending}: starting it again, its episodes with it")
        another = host.again()
        self._hosts[self._hosts.index(host)] = another
        self._watch_host(another)
        for worker in self._workers.values():
            if worker.host is host:
                worker.serve_by(another)

    # Signals and time.

    def _on_signal(self) -> None:
        self._interrupts.drain()
        if self._interrupts.count and self._stop_deadline is None:
            grace = self._job.eval.stop_grace
            self._stop_deadline = now() + grace
            busy = sum(bool(worker.assigned) for worker in self._workers.values())
            if not self._interrupts.satisfied:
                self._tell(
                    f"stopping: {busy} episodes in flight have {grace:g} s to finish; Ctrl-C again stops at once"
                )

    def _look(self) -> None:
        """Do what is done a few times a second: see who hangs, and show how far the run is."""
        moment = now()
        if moment - self._looked < TICK:
            return
        self._looked = moment
        for worker in self._workers.values():
            worker.kill_if_hung(self._job.limits)
        for host in self._hosts:
            asked = any(worker.host is host and worker.asks for worker in self._workers.values())
            host.kill_if_hung(self._job.limits, asked)
        if moment - self._checked > CHECK_SECONDS:
            self._checked = moment
            self._ledger.check()
        self._show()

    def _is_over(self) -> bool:
        if self._error is not None:
            return True
        in_flight = any(worker.assigned for worker in self._workers.values())
        if self._stop_deadline is not None:
            late = now() >= self._stop_deadline
            return not in_flight or late or self._interrupts.count > 1
        return not in_flight and not len(self._queue) and (self._feed is None or self._feed.closed)

    # Results.

    def _flush(self, last: bool = False) -> None:
        """Make durable what has ended since the last turn, all in one commit; only then tell of it."""
        records, attempts = self._records, self._attempts
        if not records and not attempts and not last:
            return
        running = self._running()
        if not records and not attempts and not running:
            return
        self._records, self._attempts = [], []
        self._ledger.write(records, attempts, running)
        for record in records:
            self._tally.add(record)
            for watcher in self._watchers:
                watcher.episode(record)

    def _running(self) -> list[RunningEpisode]:
        """Return which episodes are in flight, and how far each is."""
        found = (*(worker.running() for worker in self._workers.values()), *self._cut_short)
        # Of those that have not begun there is nothing to tell.
        return [one for one in found if one is not None and one.steps]

    def _show(self) -> None:
        if self._tally.build_seconds:
            self._queue.set_costs(self._tally.build_seconds, self._tally.mean_episode())
        steps = self._steps_of_the_gone + sum(worker.slot.counted()[0] for worker in self._workers.values())
        if not self._headcount.settled:
            self._headcount.look(self._moment(steps))
        progress = self._tally.progress(
            steps,
            busy=sum(bool(worker.assigned) for worker in self._workers.values()),
            workers=self._headcount.target,
            running=self._running(),
        )
        for watcher in self._watchers:
            watcher.progress(progress)

    def _moment(self, steps: int) -> Moment:
        children = [worker.child for worker in self._workers.values()]
        children += [host.child for host in self._hosts if host.child is not None]
        return Moment(
            now(),
            steps,
            core_seconds=self._cores_of_the_gone + sum(cpu_seconds(child.process.pid) for child in children),
            working=sum(worker.slot.counted()[0] > 0 for worker in self._at_work()),
            waiting=len(self._queue),
        )

    def _tell(self, message: str) -> None:
        for watcher in self._watchers:
            watcher.note(message)

    # The end.

    def _shut_down(self) -> None:
        """End every child: politely if all is done, at once otherwise."""
        workers = list(self._workers.values())
        complete = self._error is None and self._stop_deadline is None
        for worker in workers:
            if complete and not worker.assigned:
                worker.child.ask_to_stop()
            else:
                worker.child.kill()
        deadline = now() + POLITE_SECONDS
        for worker in workers:
            worker.child.reap(max(0.01, deadline - now()))
        self._workers.clear()
        for host in self._hosts:
            host.stop(POLITE_SECONDS if complete else 0.0)
        for worker in workers:
            worker.slot.close()
        self._selector.close()
