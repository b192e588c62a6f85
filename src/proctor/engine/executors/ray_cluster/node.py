"""A node of the cluster: the ordinary engine in a Ray actor, fed by the driver, to which it reports."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proctor.config.load import build_settings
from proctor.engine.evaluation import check_interpreter
from proctor.engine.executors.protocol import Ending, RunContext, RunFacts
from proctor.engine.executors.ray_cluster.payload import Payload, Tree
from proctor.engine.executors.run_order import Feed
from proctor.engine.executors.this_machine import ThisMachine
from proctor.engine.interrupts import Interrupts
from proctor.errors import Interrupted, ProctorError, RunError, UsageError
from proctor.events import Progress, Watcher
from proctor.identity import Identity
from proctor.plan import make_plan
from proctor.store.lock import RunLock
from proctor.store.outcomes import Outcomes
from proctor.store.run_directory import RunDirectory
from proctor.store.schema import Attempt, EpisodeRecord, Ledger, RunningEpisode
from proctor.store.videos import video_place
from proctor.types import Episode, EpisodeKey

_MOST_LOG = 1 << 16
_DAYS = 7
"""How long the logs of a run stay on a node."""


@dataclass(frozen=True)
class NodeOrder:
    """What a node is told at its start.

    Attributes:
        name: names the node's folder.
        settings: all settings, as plain values; `eval.batch_size` is this node's.
        stored: the identity that the run has, where it has one already.
        payload: what was sent along.
    """

    name: str
    settings: Tree
    stored: Identity | None
    payload: Payload


@dataclass(frozen=True)
class NodeResult:
    """An episode that ended on a node, with its video's bytes and the files of its recording."""

    record: EpisodeRecord
    video: bytes | None = None
    recording: Mapping[str, bytes] = field(default_factory=dict)


@dataclass
class NodeReport:
    """All that happened on a node since its last report, and where it stands.

    Attributes:
        ending: how its part of the run ended, in its last report.
        log_ends: the last words of its children, if it ended by an error.
    """

    facts: RunFacts | None = None
    logs: str = ""
    notes: list[str] = field(default_factory=list)
    begun: list[EpisodeKey] = field(default_factory=list)
    results: list[NodeResult] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    running: list[RunningEpisode] = field(default_factory=list)
    workers: int = 0
    busy: int = 0
    steps: int = 0
    ending: Ending | None = None
    log_ends: Mapping[str, bytes] = field(default_factory=dict)


class ReportBuffer(Watcher):
    """Takes news from the node's engine, in its thread, and gives them to whoever collects, in another."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._report = NodeReport()
        self._urgent = False

    @contextmanager
    def urgently(self) -> Iterator[NodeReport]:
        """Have the report, to put something in; then wake whoever collects."""
        with self._news:
            yield self._report
            self._urgent = True
            self._news.notify_all()

    def begun(self, episode: Episode) -> None:
        """Send that a worker has an episode: if the node is lost, that was an attempt."""
        with self.urgently() as report:
            report.begun.append(episode.key)

    def progress(self, progress: Progress) -> None:
        """Send how it goes; that can wait."""
        with self._news:
            report = self._report
            report.workers, report.busy, report.steps = progress.workers, progress.busy, progress.steps
            report.running = list(progress.running)

    def note(self, message: str) -> None:
        """Send what a display would show."""
        with self.urgently() as report:
            report.notes.append(message)

    def collect(self, seconds: float) -> NodeReport:
        """Return what there is, as soon as there is something, at the latest after `seconds`."""
        with self._news:
            self._news.wait_for(lambda: self._urgent, seconds)
            report = self._report
            self._report = NodeReport(workers=report.workers, busy=report.busy, steps=report.steps)
            self._urgent = False
        return report


class Node:
    """The actor. One thread is the engine for the actor's whole life: its children die with that thread."""

    def __init__(self, order: NodeOrder) -> None:
        self._order = order
        self._reporter = ReportBuffer()
        self._interrupts = Interrupts()
        self._feed = Feed(self._interrupts.wake)
        self._expected = 0
        self._begin = threading.Event()
        threading.Thread(target=self._live, name="engine", daemon=True).start()

    # What the driver calls, from threads of Ray's.

    def collect(self, seconds: float) -> NodeReport:
        """Return the news, as soon as there are any."""
        return self._reporter.collect(seconds)

    def begin(self, expected: int) -> None:
        """Start to work, on about so many episodes."""
        self._expected = expected
        self._begin.set()

    def give(self, episodes: list[tuple[dict[str, Any], int]]) -> None:
        """Take episodes to run, and how many of its attempts each has used up elsewhere."""
        self._feed.give((Episode.from_wire(wire), attempts) for wire, attempts in episodes)

    def close(self) -> None:
        """End after what was given."""
        self._feed.close()

    def stop(self, at_once: bool) -> None:
        """Give the episodes in flight their grace, or none."""
        self._interrupts.stop(2 if at_once else 1)
        self._begin.set()

    # The engine's thread.

    def _live(self) -> None:
        log_ends: dict[str, bytes] = {}
        try:
            with ExitStack() as stack:
                stack.enter_context(self._interrupts)
                folder = stack.enter_context(node_folder(f"{self._order.name}-{os.getpid()}"))
                ending = self._work(stack, folder)
                if ending.error is not None:
                    log_ends = folder.log_ends()
        except ProctorError as error:
            ending = Ending(error=error)
        except Exception as error:  # whatever it is, the driver must hear of it
            traceback.print_exc()
            ending = Ending(error=RunError(f"{type(error).__name__}: {error}"))
        with self._reporter.urgently() as report:
            report.ending, report.log_ends = ending, log_ends

    def _work(self, stack: ExitStack, folder: NodeFolder) -> Ending:
        settings = build_settings(self._order.payload.unpack(self._order.settings, Path.cwd(), folder.files))
        check_interpreter(settings)
        machine = ThisMachine(settings, folder, feed=self._feed)
        plan = make_plan(machine.tasks, settings.eval.n_episodes, settings.seed)
        try:
            context = RunContext(stack, self._interrupts, self._reporter)
            prepared = machine.prepare(context, self._order.stored)
        except Interrupted:
            return Ending()
        except ProctorError as error:
            return Ending(error=error)  # while the logs are there
        with self._reporter.urgently() as report:
            report.facts, report.logs = prepared.facts, str(folder.logs)
        self._begin.wait()
        if self._interrupts.count:
            prepared.abandon()
            return Ending()
        job = prepared.staff(Outcomes(plan), plan[: self._expected])
        return job.run(context, NodeLedger(self._reporter, folder))


class NodeLedger(Ledger):
    """The ledger of a node: it keeps nothing and sends everything."""

    def __init__(self, reporter: ReportBuffer, run: RunDirectory) -> None:
        self._reporter, self._run = reporter, run

    def running(self) -> list[RunningEpisode]:
        """Return nothing: the driver knows which episodes earlier sessions left unfinished."""
        return []

    def write(
        self,
        records: Iterable[EpisodeRecord],
        attempts: Iterable[Attempt] = (),
        running: Iterable[RunningEpisode] = (),
    ) -> None:
        """Send results, with their videos and recordings."""
        results = [NodeResult(record, self._video(record), self._recording(record)) for record in records]
        with self._reporter.urgently() as report:
            report.results += results
            report.attempts += attempts
            report.running = list(running)

    def check(self) -> None:
        """Nothing is kept here that could be lost."""

    def _video(self, record: EpisodeRecord) -> bytes | None:
        if record.video_path is None:
            return None
        file = self._run.path / video_place(record.key)
        content = file.read_bytes()
        file.unlink()
        return content

    def _recording(self, record: EpisodeRecord) -> dict[str, bytes]:
        folder = self._run.recording(record.key)
        files = {file.name: file.read_bytes() for file in folder.glob("*")} if record.status == "finished" else {}
        shutil.rmtree(folder, ignore_errors=True)
        return files


class NodeFolder(RunDirectory):
    """A run directory without a store, and with `files`."""

    @property
    def files(self) -> Path:
        """Where what was sent along is unpacked."""
        return self.path / "files"

    def clear(self) -> None:
        """Remove all but logs that say something."""
        for kept in ("files", "videos", "recording"):  # what is there was sent, or belongs to no ended episode
            shutil.rmtree(self.path / kept, ignore_errors=True)
        self.remove_leftovers()
        if not list(self.logs.glob("*")):
            shutil.rmtree(self.path, ignore_errors=True)

    def log_ends(self) -> dict[str, bytes]:
        """Return the end of every log that says something, by its name."""
        logs = [log for log in self.logs.glob("*.log") if log.stat().st_size]
        return {log.name: log.read_bytes()[-_MOST_LOG:] for log in logs}


@contextmanager
def node_folder(name: str) -> Iterator[NodeFolder]:
    """Have a folder of this name, held by this process; cleared at the end, with those of processes that died."""
    home = Path(tempfile.gettempdir()) / f"proctor-nodes-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    with ExitStack() as stack:
        # One at a time: a folder that is made but not yet held looks like a dead process's.
        with (home / "door").open("w") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            for other in home.iterdir():
                _clear_if_dead(other)
            path = home / name
            path.mkdir()
            stack.enter_context(RunLock(path))
        folder = NodeFolder(path)
        try:
            yield folder
        finally:
            folder.clear()


def _clear_if_dead(path: Path) -> None:
    try:
        old = time.time() - path.stat().st_mtime > _DAYS * 86400
        with RunLock(path):
            NodeFolder(path).clear()
            if old:
                shutil.rmtree(path)
    except (UsageError, OSError):
        pass  # somebody's, no folder, or no locks here
