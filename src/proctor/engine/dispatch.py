"""What runs next, what is stored and said, and when a run is over: a state machine that every executor drives.

It has no process, no clock and no file. An executor (one process, worker processes, nodes of a cluster) tells it
what happened; it says which episode to start, what to store, what the user should read, and when to stop. So the
rules for retries and giving up (`retries.py`) hold wherever episodes run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from proctor.engine.demonstrations import DemonstrationQuota
from proctor.engine.queue import EpisodeQueue, TaskKey
from proctor.engine.retries import Attempts, Cause, Failure, Restarts
from proctor.engine.stopping import Stop, StopRules
from proctor.errors import ExitFirstError, PolicyHostError, ProctorError, RunError
from proctor.events import Progress
from proctor.results import Results, reporting, started_rate
from proctor.stats.intervals import Rate
from proctor.store.outcomes import ERROR, SUCCESS, Outcomes, state_of
from proctor.store.schema import Attempt, EpisodeRecord, RunningEpisode
from proctor.types import Episode, EpisodeKey

SHORT_EPISODE = 0.5
"""Seconds below which an episode is short: the coordinator's turn-round matters, and orders are given ahead."""

_LAST_BUILDS = 99


class Batch(NamedTuple):
    """What has been decided since the last time, to be told and stored in one commit."""

    records: list[EpisodeRecord]
    attempts: list[Attempt]
    notes: list[str]


class Tally:
    """What a run has come to so far: counts, costs, and the rate over all that was started.

    Args:
        before: the episodes that ended in earlier sessions, of the whole plan.
        cut_short: those that were running when earlier sessions ended, and how far they had come.
    """

    def __init__(self, before: Outcomes, cut_short: Iterable[RunningEpisode] = ()) -> None:
        self._plan = before.plan
        self._reporting = reporting(self._plan.tasks)
        self._states = bytearray(before["state"].tobytes())
        self._ended, self._errors = before.ended, before.errors
        self._endings = Results(before).endings(self._reporting)
        self._running = {key: steps for key, steps in cut_short if not before.state(key)}
        self.total = len(before.plan)
        """How many episodes there will be, as far as is known."""
        self._episode_seconds = 0.0
        self.finished = 0
        """How many episodes have finished in this session."""
        self._builds = deque[float](maxlen=_LAST_BUILDS)

    @property
    def ended(self) -> int:
        """How many episodes have ended, in all sessions."""
        return self._ended

    def knows(self, record: EpisodeRecord) -> bool:
        """Whether it has been told of this ending before, or of a better one."""
        place = self._plan.place_of(record.key)
        return place is not None and self._states[place] > (0 if record.status == "error" else ERROR)

    def add(self, record: EpisodeRecord) -> None:
        """Note an episode that ended in this session and is durable."""
        self._count(record)
        if record.status == "finished":
            self.finished += 1
            self._episode_seconds += record.seconds - record.timing.get("build", 0.0)

    def add_build(self, seconds: float) -> None:
        """Note what building a simulator took."""
        if seconds:
            self._builds.append(seconds)

    @property
    def build_seconds(self) -> float:
        """Seconds of a switch to another task, as most take it: a worker's first pays for imports, too."""
        return sorted(self._builds)[len(self._builds) // 2] if self._builds else 0.0

    def mean_episode(self) -> float:
        """Seconds of an episode so far; not short, as long as nothing is known."""
        return self._episode_seconds / self.finished if self.finished else SHORT_EPISODE

    def progress(
        self, steps: int, busy: int, workers: int, running: Iterable[RunningEpisode] = (), seconds: float = 0.0
    ) -> Progress:
        """Return this moment, so many seconds after the start; `running` are the episodes in flight."""
        for key, age in running:
            place = self._plan.place_of(key)
            if place is None or self._states[place] <= ERROR:  # what is told of it may be older than its end
                # One that starts again comes to where it was: what was seen of it before still holds.
                self._running[key] = max(age, self._running.get(key, 0))
        started = [RunningEpisode(key, age) for key, age in self._running.items()]
        return Progress(
            ended=self._ended,
            total=self.total,
            errors=self._errors,
            rate=self._rate(started) if self._reporting else None,
            running=started,
            steps=steps,
            seconds=seconds,
            busy=busy,
            workers=workers,
            episodes_here=self.finished,
        )

    def _rate(self, started: Iterable[RunningEpisode]) -> Rate:
        return started_rate(self._endings, [one.steps for one in started if one.key[:2] in self._reporting])

    def _count(self, record: EpisodeRecord) -> None:
        key = record.key
        self._running.pop(key, None)
        place = self._plan.place_of(key)
        if place is None or self._states[place] > ERROR:
            return
        state = state_of(record.status, record.success)
        self._ended += self._states[place] == 0
        self._errors += (state == ERROR) - (self._states[place] == ERROR)
        self._states[place] = state
        if state != ERROR and key[:2] in self._reporting:
            self._endings.add(record.steps, state == SUCCESS)


class Dispatch:
    """The state of a run between its plan and its store. An episode waits, is in flight, or has ended, once.

    Args:
        before: what of the plan had ended already.
        pending: the part of the plan that is to run.
        max_attempts: how many attempts an episode has.
        max_open_tasks: how many tasks may be in flight at once; 0: no limit.
        cut_short: what was running when earlier sessions ended.
        rules: what may end the run before its plan does.
        demonstrations: successes of every task after which the rest of its episodes is not needed; 0: all are.
        logs: where to look when the policy was lost; "" where nothing is kept.
        more: whether episodes will be added while it runs, until `close`.
        exitfirst: whether the first episode that ends in an error ends the run.
    """

    def __init__(
        self,
        before: Outcomes,
        pending: Iterable[Episode],
        *,
        max_attempts: int,
        max_open_tasks: int = 0,
        cut_short: Iterable[RunningEpisode] = (),
        rules: StopRules | None = None,
        demonstrations: int = 0,
        logs: str = "",
        more: bool = False,
        exitfirst: bool = False,
    ) -> None:
        self._queue = EpisodeQueue(before.plan, pending, max_open_tasks)
        self.tally = Tally(before, cut_short)
        self._rules, self._logs, self._more, self._planned = rules, logs, more, len(before.plan)
        self._exitfirst = exitfirst
        self._in_flight: dict[EpisodeKey, Episode] = {}
        self._attempts = Attempts(max_attempts)
        self._batch = Batch([], [], [])
        self.restarts = Restarts(max_attempts)
        self._demonstrations = DemonstrationQuota(before, demonstrations) if demonstrations else None
        if self._demonstrations is not None:
            self._demonstrations.restrict_all(self._queue)
            self._foresee()
        self.workers = 1
        """How many are at work, or will be."""
        self.error: ProctorError | None = None
        self.interrupted = False

    # What is to run.

    @property
    def waiting(self) -> int:
        """How many episodes nobody has."""
        return len(self._queue)

    @property
    def stop(self) -> Stop | None:
        """Where a rule has ended the run, if one has."""
        return None if self._rules is None else self._rules.stop

    @property
    def is_ending(self) -> bool:
        """Whether nothing more is handed out."""
        return self.interrupted or self.error is not None or self.stop is not None

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to wait for."""
        if self.error is not None or self.stop is not None:
            return True
        return not self._in_flight and (self.interrupted or not (self.waiting or self._more))

    def add(self, episode: Episode, attempts: int = 0) -> None:
        """Take an episode that is to run too, at which so many attempts came to nothing elsewhere."""
        self._attempts.set(episode.key, attempts)
        self._queue.put_back(episode)

    def close(self) -> None:
        """Note that no more will be added."""
        self._more = False

    def take(self, held: TaskKey | None) -> Episode | None:
        """Return the next episode for whoever has a simulator for `held`; `None`: there is none for it now."""
        episode = None if self.is_ending else self._queue.take(held)
        if episode is not None:
            self._in_flight[episode.key] = episode
            self._attempts.handed_out(episode.key)
        return episode

    def attempts(self, episode: Episode) -> int:
        """Return how many of its attempts an episode has used up."""
        return self._attempts.used(episode.key)

    def put_back(self, episode: Episode, *, forgive: bool = False) -> None:
        """Let an episode in flight wait again: it was not begun, or its run is stopping, or its node is left out.

        Args:
            episode: the episode.
            forgive: let what failed since it was handed out not count: whoever had it is to blame.
        """
        self._land(episode)
        if forgive:
            self._attempts.forgive(episode.key)
        self._queue.put_back(episode)

    # What came of it.

    def finish(self, record: EpisodeRecord) -> None:
        """Take the record of an episode in flight, which has ended."""
        self._land(self._in_flight[record.key])
        self.tally.add_build(record.timing.get("build", 0.0))
        tries = self._attempts.number(record.key) + (record.status == "finished")
        self._batch.records.append(replace(record, attempts=tries))
        self.restarts.progressed()
        if self._demonstrations is not None and self._demonstrations.add(record):
            self._demonstrations.restrict(self._queue, record.key[:2])

    def note_attempt(self, key: EpisodeKey, reason: str, worker: int) -> None:
        """Take an attempt that came to nothing at an episode which is still where it was."""
        self._batch.attempts.append(Attempt(key, self._attempts.failed(key), reason, worker))

    def fail(self, episode: Episode, failure: Failure, eldest: float = 0.0) -> None:
        """Take that an attempt at an episode in flight came to nothing, and decide whether it is tried again.

        Args:
            episode: the episode.
            failure: what happened.
            eldest: for how many seconds the others have been under way that have been so the longest.
        """
        if self.interrupted:
            self.put_back(episode)
            return
        self._land(episode)
        self.note_attempt(episode.key, failure.reason, failure.worker)
        number = self._attempts.used(episode.key)
        words = f"{episode}: attempt {number} of {self._attempts.most} failed"
        if self._attempts.may_try_again(episode.key):
            if not failure.told:
                self.tell(f"{words}, trying again: {failure.reason}")
            self._queue.put_back(episode)
        elif failure.cause is Cause.POLICY:
            # Not the episode's fault, and not the next one's: whoever is asked later may find the policy well.
            self._queue.put_back(episode)
            self.end(
                PolicyHostError(
                    f"{number} attempts at {episode} failed; the last one lost its policy: {failure.reason}"
                    f"{f' (see {self._logs})' if self._logs else ''}. Run it again to continue from here."
                )
            )
        else:
            self.tell(f"{words}, given up: {failure.reason}")
            self._batch.records.append(
                EpisodeRecord.failed(episode, self._attempts.number(episode.key), failure.reason)
            )
        if failure.cause is Cause.SIMULATOR and not self.tally.finished:
            failures = self._attempts.find_hopeless(failure, self.workers, eldest)
            if failures:
                words = f"{failures} attempts failed and not one episode ended."
                self.end(RunError(f"{words} The last reason: {failure.reason}"))

    def lose_host(self, ending: str, log: str) -> bool:
        """Take that a policy's process has died, and how; returns whether it is to be started again."""
        deaths = self.restarts.died()
        if self.error is not None:
            return False
        if self.restarts.is_given_up():
            self.end(
                PolicyHostError(
                    f"{ending}, {deaths} times without an episode ending in between (see {log}). "
                    "Run it again to continue from here."
                )
            )
            return False
        self.tell(f"{ending}: starting it again, its episodes with it")
        return True

    def _land(self, episode: Episode) -> None:
        del self._in_flight[episode.key]
        self._queue.ended(episode)

    # How it ends.

    def end(self, error: ProctorError) -> None:
        """End the run because of an error; the first counts."""
        self.error = self.error or error

    def interrupt(self, busy: int, grace: float) -> None:
        """Hand out no more: a signal came. Those in flight have `grace` seconds."""
        if not self.interrupted:
            self.interrupted = True
            episodes = "1 episode in flight has" if busy == 1 else f"{busy} episodes in flight have"
            self.tell(f"stopping: {episodes} {grace:g} s to finish; Ctrl-C again stops at once")

    # What is stored and said.

    def tell(self, message: str) -> None:
        """Have the user read something."""
        self._batch.notes.append(message)

    def decided(self) -> Batch:
        """Return what has been decided since the last call."""
        batch, self._batch = self._batch, Batch([], [], [])
        return batch

    def stored(self, records: Iterable[EpisodeRecord]) -> None:
        """Count records that are durable now; the rules may find that they are enough."""
        records = list(records)
        for record in records:
            self.tally.add(record)
            self.exit_on(record)
        if self.tally.build_seconds:
            self._queue.set_costs(self.tally.build_seconds, self.tally.mean_episode())
        if self._rules is not None and self._rules.stop is None:
            self._rules.add(records)
        self._foresee()

    def exit_on(self, record: EpisodeRecord) -> None:
        """End the run if this is an error, and the first is to end it."""
        if self._exitfirst and record.status == "error":
            words = f"{record.task} episode {record.episode_index} ended in an error: {record.error}"
            self.end(ExitFirstError(f"stopped at the first error (--exitfirst): {words}"))

    def _foresee(self) -> None:
        """Say how many episodes there will be if the rest succeeds, where the run ends with its demonstrations."""
        if self._demonstrations is not None:
            lacking = sum(self._demonstrations.lacking.values())
            self.tally.total = min(self._planned, self.tally.ended + lacking)
