"""How far a run is, in a line: what will be done, what is waited for, how much is left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from proctor.events import Progress, RunOutline, RunStart, Stage
from proctor.report.console import count, duration, interval, percent


def describe_outline(outline: RunOutline) -> str:
    """Return the line that opens a run: what will be done."""
    tasks, wanted = len(outline.plan.tasks), outline.demonstrations
    each = "" if tasks == 1 else "each of "
    what = (
        f"{count(wanted, 'demonstration')} of {each}{count(tasks, 'task')}"
        if wanted
        else f"{count(len(outline.plan), 'episode')} of {count(tasks, 'task')}"
    )
    return f"{outline.benchmark}: {what}; policy {outline.policy}"


def describe_start(start: RunStart) -> str:
    """Return the line before the first episode: who will do it."""
    where = {
        "central": "in its own process",
        "worker": "inside the workers",
        "thread": "in this process",
        "inline": "in this process, no workers",
        "nodes": "on every node",
        "shards": "in every shard",
    }[start.placement]
    if start.undecided:
        where += " (placement: auto, decided by its first calls)"
    nodes = f" on {count(start.nodes, 'node')}" if start.nodes else ""
    before = start.before.finished
    resumed = f"; {count(before, 'episode')} finished before" if before else ""
    return f"{count(start.workers, 'worker')}{nodes}, policy {where}{resumed}"


class TimeLeft:
    """How long a run will go on. It is estimated anew when an episode ends, and counts down in between."""

    def __init__(self) -> None:
        self._episodes = self._total = 0
        self._left = self._at = 0.0
        self._building = 0.0

    def look(self, progress: Progress) -> float | None:
        """Return the seconds that are left; `None` where nobody knows, or where an episode is late."""
        if not progress.steps and not progress.episodes_here:
            self._building = progress.seconds  # nothing has moved yet
        if (progress.episodes_here, progress.total) != (self._episodes, self._total):
            self._episodes, self._total, self._at = progress.episodes_here, progress.total, progress.seconds
            pace = (progress.seconds - self._building) / self._episodes if self._episodes else 0.0
            self._left = pace * (progress.total - progress.ended)
        left = self._left - (progress.seconds - self._at)
        return left if left >= 1.0 else None


class Fact(NamedTuple):
    """A part of the line that says how far a run is; what matters less is left out where it does not fit."""

    text: str
    short: str
    matters: int


def progress_facts(progress: Progress, left: float | None) -> list[Fact]:
    """Return what is to be said about a moment of a run."""
    seconds = progress.seconds or 1.0
    rate, ended = progress.rate, f"{progress.ended}/{progress.total}"
    facts = [Fact(f"{ended} episodes", ended, 9)]
    if rate is not None and rate.value is None:
        facts.append(Fact("success not known yet", "", 2))
    elif rate is not None:
        facts.append(Fact(f"success {percent(rate)} ({interval(rate)})", f"{percent(rate)} ({interval(rate)})", 7))
    if progress.errors:
        errors = count(progress.errors, "error")
        facts.append(Fact(errors, errors, 8))
    if progress.ready is not None and progress.ready < progress.workers and not progress.steps:
        building = f"simulators {progress.ready}/{progress.workers}"
        facts.append(Fact(f"building {building}", building, 6))
    else:
        pace = f"{progress.episodes_here / seconds:.2f} episodes/s"
        steps, busy = f"{progress.steps / seconds:.0f} steps/s", f"{progress.busy}/{progress.workers} workers busy"
        facts += [Fact(pace, "", 3), Fact(steps, "", 4), Fact(busy, "", 1)]
    if left is not None and progress.ended < progress.total:
        facts.append(Fact(f"{duration(left)} left", f"{duration(left)} left", 6))
    return facts


def one_line(facts: Sequence[Fact], width: int | None = None) -> str:
    """Return facts as one line that fits into `width` columns: shortened first, the least important then left out.

    >>> facts = [Fact("5/10 episodes", "5/10", 9), Fact("2 workers busy", "", 1), Fact("3 s left", "3 s left", 6)]
    >>> one_line(facts), one_line(facts, 30), one_line(facts, 16), one_line(facts, 10)
    ('5/10 episodes, 2 workers busy, 3 s left', '5/10 episodes, 3 s left', '5/10, 3 s left', '5/10')
    """
    texts = [fact.text for fact in facts]
    order = sorted(range(len(facts)), key=lambda place: facts[place].matters)
    steps = [(place, facts[place].short) for place in order] + [(place, "") for place in order[:-1]]
    for place, text in steps:
        if width is None or len(_joined(texts)) <= width:
            break
        texts[place] = text
    return _joined(texts)[:width]


def _joined(texts: Sequence[str]) -> str:
    return ", ".join(filter(None, texts))


def stage_words(stage: Stage, seconds: float) -> str:
    """Say what is being done, and for how long."""
    detail = f", {stage.detail}" if stage.detail else ""
    return f"{stage.name} {duration(seconds)}{detail}"


_STAGE_SECONDS = (2, 10, 30, 60)
"""After so many seconds a stage is told of; then every minute."""


class StageTeller:
    """A thread that tells in a line, now and then, what takes long; nothing else may be running meanwhile."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._changed = threading.Condition()
        self._stage: Stage | None = None
        self._began = 0.0
        self._told = 0
        self._thread: threading.Thread | None = None

    def enter(self, stage: Stage) -> None:
        """Begin a stage, or note how far it is."""
        with self._changed:
            if self._stage is None or stage.name != self._stage.name:
                self._tell_done()
                self._began = time.monotonic()
            self._stage = stage
            self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="stages", daemon=True)
            self._thread.start()

    def _tell_done(self) -> None:
        if self._stage is not None and self._told > 0:
            self._tell(f"{self._stage.name}: done after {duration(time.monotonic() - self._began)}")
        self._told = 0

    def end(self, done: bool) -> None:
        """Tell of no stage any more; `done`: the last one has come to its end, and was not broken off."""
        with self._changed:
            if done:
                self._tell_done()
            self._stage, self._told = None, 0
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        with self._changed:
            while self._stage is not None:
                passed, early = time.monotonic() - self._began, len(_STAGE_SECONDS)
                due = _STAGE_SECONDS[self._told] if self._told < early else 60 * (self._told - early + 2)
                if passed >= due:
                    self._told += 1
                    self._tell(stage_words(self._stage, passed))
                else:
                    self._changed.wait(due - passed)
