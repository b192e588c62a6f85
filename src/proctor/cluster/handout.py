"""Handing a plan out to nodes: who gets which episodes, what becomes of those of a lost node, what is stored."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil

from proctor.cluster.fleet import Member
from proctor.cluster.mail import Mail
from proctor.engine.coordinator import TICK
from proctor.engine.queue import EpisodeQueue, task_key
from proctor.engine.tally import Tally
from proctor.errors import StoreError
from proctor.events import Watcher
from proctor.plan import Plan
from proctor.store.filesystem import write_bytes
from proctor.store.outcomes import Outcomes
from proctor.store.run_directory import RunDirectory
from proctor.store.schema import Attempt, EpisodeRecord, Ledger, RunningEpisode
from proctor.store.videos import video_place
from proctor.types import Episode, EpisodeKey

ROUND_TRIP = 0.1
"""Seconds from an episode's end on a node to the next one's arrival there; what is given ahead bridges it."""


class HandOut:
    """The episodes of a run, between the plan and the store.

    Args:
        before: what of the plan had ended already.
        pending: the part of the plan that is to run.
        ledger: where results go.
        directory: where videos go.
        watchers: who is told of progress.
        attempts: how many nodes an episode may be lost with before it is stored as an error.
        tell: called with what the user should read.
    """

    def __init__(
        self,
        before: Outcomes,
        pending: Plan,
        ledger: Ledger,
        directory: RunDirectory,
        watchers: Sequence[Watcher],
        attempts: int,
        tell: Callable[[str], None],
    ) -> None:
        self._ledger, self._directory, self._watchers = ledger, directory, watchers
        self._attempts, self._tell = attempts, tell
        self._queue = EpisodeQueue(before.plan, pending)
        self._tally = Tally(before, ledger.running())
        self._running: dict[EpisodeKey, int] = {}
        self._tries: Counter[EpisodeKey] = Counter()
        self._losses: Counter[EpisodeKey] = Counter()
        self._steps_of_the_gone = 0
        self._shown = 0.0

    def __len__(self) -> int:
        """Return how many episodes nobody has."""
        return len(self._queue)

    def serve(self, members: Sequence[Member]) -> None:
        """Give every node what it can start now, and as much ahead as bridges the way to it, one by one."""
        helpings: dict[Member, list[Episode]] = {member: [] for member in members}
        # Few are left: whoever is free first takes the next, and nobody keeps any for later.
        last = len(self._queue) <= sum(member.workers for member in members)

        def room(member: Member) -> float:
            wanted = member.workers + (0 if last else self._ahead(member.workers))
            return (wanted - len(member.outstanding) - len(helpings[member])) / member.workers

        while members and room(freest := max(members, key=room)) > 0:
            held = freest.freed.popleft() if freest.freed else None
            episode = self._queue.take(held)
            if episode is None:
                break
            helpings[freest].append(episode)
        for member, helping in helpings.items():
            if helping:
                member.give(helping)

    def _ahead(self, workers: int) -> int:
        if not self._tally.finished:
            return 0
        return min(workers, ceil(workers * ROUND_TRIP / max(self._tally.mean_episode(), 1e-3)))

    def receive(self, member: Member, mail: Mail) -> None:
        """Store what a node sends; it is durable when this returns."""
        member.workers, member.busy, member.steps = mail.workers or member.workers, mail.busy, mail.steps
        member.begun.update(mail.begun)
        self._running.update(one for one in mail.running if one.key in member.outstanding)
        attempts = [
            self._attempt(attempt.key, attempt.reason, member, attempt.worker) for attempt in mail.attempts
        ]
        records = []
        for result in mail.results:
            episode = member.outstanding.pop(result.record.key, None)
            if episode is None:
                continue
            self._queue.ended(episode)
            member.begun.discard(episode.key)
            member.freed.append(task_key(episode))
            if result.video is not None:
                self._write_video(result.record, result.video)
            tries = self._tries[episode.key] + (result.record.status == "finished")
            self._tally.add_build(result.record.timing.get("build", 0.0))
            error = result.record.error and f"{result.record.error} ({member.where})"
            worker = result.record.worker and f"{member.name}/{result.record.worker}"
            records.append(replace(result.record, attempts=tries, error=error, worker=worker))
        self._write(records, attempts)

    def lose(self, member: Member, reason: str, *, blame: bool = True) -> None:
        """Put a lost node's episodes back. Those that had begun have used up an attempt, if there is `blame`."""
        self._steps_of_the_gone += member.steps
        # Nothing was heard of any: one of them may have ended the node before it could tell.
        charged = set(member.begun & member.outstanding.keys()) or set(member.outstanding)
        records, attempts = [], []
        for key, episode in member.outstanding.items():
            self._queue.ended(episode)
            if blame and key in charged:
                self._losses[key] += 1
                attempts.append(self._attempt(key, reason, member, -1))
                if self._losses[key] >= self._attempts:
                    self._tell(f"{episode}: lost with {self._losses[key]} nodes, given up: {attempts[-1].reason}")
                    records.append(EpisodeRecord.failed(episode, self._tries[key], attempts[-1].reason))
                    continue
            self._queue.put_back(episode)
        member.outstanding.clear()
        self._write(records, attempts)

    def show(self, members: Sequence[Member], force: bool = False) -> None:
        """Tell the watchers how it goes, a few times a second."""
        moment = time.monotonic()
        if not force and moment - self._shown < TICK:
            return
        self._shown = moment
        self._ledger.check()
        if self._tally.build_seconds:
            self._queue.set_costs(self._tally.build_seconds, self._tally.mean_episode())
        steps = self._steps_of_the_gone + sum(member.steps for member in members)
        progress = self._tally.progress(
            steps,
            busy=sum(member.busy for member in members),
            workers=sum(member.workers for member in members),
            running=self._in_flight(),
        )
        for watcher in self._watchers:
            watcher.progress(progress)

    def finish(self) -> None:
        """Store how far the episodes are that were cut short."""
        self._ledger.write([], [], self._in_flight())

    def _in_flight(self) -> list[RunningEpisode]:
        return [RunningEpisode(key, steps) for key, steps in self._running.items()]

    def _attempt(self, key: EpisodeKey, reason: str, member: Member, worker: int) -> Attempt:
        self._tries[key] += 1
        return Attempt(key, self._tries[key], f"{reason} ({member.where})", worker)

    def _write_video(self, record: EpisodeRecord, content: bytes) -> None:
        file = self._directory.path / video_place(record.key)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot write {file}: {error}. The same command goes on from here.") from error
        write_bytes(file, content)

    def _write(self, records: list[EpisodeRecord], attempts: list[Attempt]) -> None:
        if not records and not attempts:
            return
        for record in records:
            self._running.pop(record.key, None)
        self._ledger.write(records, attempts, self._in_flight())
        for record in records:
            self._tally.add(record)
            for watcher in self._watchers:
                watcher.episode(record)
