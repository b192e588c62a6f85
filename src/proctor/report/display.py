"""Progress while a run goes on (`--display`): bars on a terminal, plain lines elsewhere, JSON for programs.

The rate is an estimate over all started episodes. The ones that happen to end first are the quick, successful
ones; their rate alone would flatter.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bars
from rich.text import Text

from proctor.config.settings import Settings
from proctor.events import Progress, RunStart, Watcher
from proctor.report.console import PatientConsole, count, duration, interval, percent, printable
from proctor.results import Evaluation, reporting, task_key
from proctor.store.filesystem import finite
from proctor.store.outcomes import SUCCESS
from proctor.store.schema import EpisodeRecord

_MOST_TASKS = 12
_PLAIN_SECONDS = 5.0


def make_display(console: PatientConsole, settings: Settings) -> Watcher:
    """Return the watcher that `--display` asks for."""
    kind = settings.display
    if kind == "auto" and (notebook := _notebook()) is not None and settings.eval.use_async_envs:
        return NotebookDisplay(notebook)
    if kind == "auto":
        # A display that redraws itself and a debugger's prompt do not go together.
        kind = "live" if console.is_terminal and settings.eval.use_async_envs else "plain"
    if kind == "none":
        return Watcher()
    if kind == "json":
        return JsonDisplay(console)
    return LiveDisplay(console) if kind == "live" else PlainDisplay(console)


def _notebook() -> Any:
    """Return what IPython shows things with, if this is a notebook's kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return ipython.display if shell is not None and hasattr(shell, "kernel") else None  # type: ignore[union-attr]


def describe_start(start: RunStart) -> str:
    """Return the line that opens a run."""
    tasks, before = len(start.plan.tasks), start.before.finished
    resumed = f", {before} finished before" if before else ""
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
    each = "" if tasks == 1 else "each of "
    what = (
        f"{count(start.demonstrations, 'demonstration')} of {each}{count(tasks, 'task')}"
        if start.demonstrations
        else f"{count(len(start.plan), 'episode')} of {count(tasks, 'task')}"
    )
    return (
        f"{start.benchmark}: {what}{resumed}; "
        f"{count(start.workers, 'worker')}{nodes}; policy {start.policy} {where}"
    )


def describe_progress(progress: Progress) -> str:
    """Return one line about a moment of a run."""
    speed = progress.episodes_here / progress.seconds if progress.seconds else 0.0
    left = (progress.total - progress.ended) / speed if speed else None
    rate = progress.rate
    shown = "not known yet" if rate is None or rate.value is None else f"{percent(rate)} ({interval(rate)})"
    parts = [
        f"{progress.ended}/{progress.total} episodes",
        *([] if rate is None else [f"success {shown}"]),
        f"{speed:.2f} episodes/s",
        f"{progress.steps / progress.seconds if progress.seconds else 0:.0f} steps/s",
        f"{progress.busy}/{progress.workers} workers busy",
    ]
    if progress.errors:
        parts.append(count(progress.errors, "error"))
    if left is not None and progress.ended < progress.total:
        parts.append(f"{duration(left)} left")
    return ", ".join(parts)


class PlainDisplay(Watcher):
    """A line every few seconds, for logs and batch jobs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = time.monotonic()

    def started(self, start: RunStart) -> None:
        """Print the opening line and where results go."""
        self._print(describe_start(start))
        self._print(f"results go to {start.directory}")

    def progress(self, progress: Progress) -> None:
        """Print a line if the last one is some seconds old, or if all is done."""
        if time.monotonic() - self._last >= _PLAIN_SECONDS:
            self._last = time.monotonic()
            self._print(describe_progress(progress))

    def note(self, message: str) -> None:
        """Print a note."""
        self._print(message)

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class NotebookDisplay(Watcher):
    """One line under a notebook's cell, which changes while the run goes on; notes stay above it."""

    def __init__(self, ipython: Any) -> None:
        self._ipython = ipython
        self._line: Any = None
        self._opening = ""

    def started(self, start: RunStart) -> None:
        """Show the opening line."""
        self._opening = describe_start(start)
        self._line = self._ipython.display(_as_text(self._opening), raw=True, display_id=True)

    def progress(self, progress: Progress) -> None:
        """Show how far the run is, in the same line."""
        if self._line is not None:
            self._line.update(_as_text(f"{self._opening}: {describe_progress(progress)}"), raw=True)

    def note(self, message: str) -> None:
        """Show a note."""
        self._ipython.display(_as_text(message), raw=True)


def _as_text(line: str) -> dict[str, str]:
    return {"text/plain": printable(line).plain}


class LiveDisplay(Watcher):
    """Overall and per-task progress, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Bars(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
            console=console,
        )  # fmt: skip
        self._overall = TaskID(0)
        self._tasks: dict[tuple[str, int], TaskID] = {}
        self._ended: Counter[tuple[str, int]] = Counter()
        self._successes: Counter[tuple[str, int]] = Counter()
        self._counted = self._ended
        self._wanted: Counter[tuple[str, int]] = Counter()
        self._reporting: set[tuple[str, int]] = set()
        self._names: dict[tuple[str, int], str] = {}
        self._line = Text("starting", style="dim")
        self._live = Live(console=console, refresh_per_second=8, transient=True, get_renderable=self._draw)

    def started(self, start: RunStart) -> None:
        """Print the opening line and begin drawing."""
        self._console.print(describe_start(start), markup=False, highlight=False)
        wanted = np.bincount(start.plan.numbers, minlength=len(start.plan.all_tasks))
        if start.demonstrations:
            # What is wanted are successes, so they are what the bars count.
            self._counted, wanted[:] = self._successes, start.demonstrations
        self._overall = self._bars.add_task("all tasks", total=int(wanted.sum()), rate="")
        for number, task in enumerate(start.plan.all_tasks):
            key, state = task_key(task), start.before["state"][start.before.of_task(number)]
            self._wanted[key] = int(wanted[number])
            self._ended[key], self._successes[key] = len(state), int((state == SUCCESS).sum())
            self._names[key] = escape(printable(task.name).plain)
        self._reporting = reporting(start.plan.tasks)
        self._move_on()
        self._live.start()

    def episode(self, record: EpisodeRecord) -> None:
        """Count it; the bars move on with the next look at the run."""
        key = record.key[:2]
        self._ended[key] += 1
        self._successes[key] += bool(record.success)

    def _move_on(self) -> None:
        done = {key: min(self._counted[key], wanted) for key, wanted in self._wanted.items()}
        self._bars.update(self._overall, completed=sum(done.values()))
        for key, ended in self._ended.items():
            if not ended:
                continue
            if key not in self._tasks:
                self._tasks[key] = self._bars.add_task(f"  {self._names[key]}", total=self._wanted[key], rate="")
            self._bars.update(
                self._tasks[key],
                completed=done[key],
                rate=f"{self._successes[key]}/{ended} succeeded" if key in self._reporting else "",
            )
        self._make_room()

    def _make_room(self) -> None:
        # More tasks than lines: show the unfinished ones, and of those the furthest.
        room = max(3, min(_MOST_TASKS, self._console.height - 6))
        order = sorted(self._tasks, key=lambda key: (self._counted[key] >= self._wanted[key], -self._ended[key]))
        for place, key in enumerate(order):
            self._bars.update(self._tasks[key], visible=place < room)

    def progress(self, progress: Progress) -> None:
        """Move the bars on, and change the line under them."""
        self._move_on()
        self._line = Text(describe_progress(progress), style="dim")

    def note(self, message: str) -> None:
        """Print a note above the bars."""
        self._console.print(Text(message, style="yellow"))

    def ended(self) -> None:
        """Clear the display; the summary follows."""
        self._live.stop()

    def _draw(self) -> Group:
        return Group(self._bars, self._line)


class JsonDisplay(Watcher):
    """Everything that happens, one JSON object per line, each written out at once.

    Every line has an `event`: `start`, `episode`, `progress`, `note`, `end` and, last of all, `result`. A number
    that is not finite is null. Whoever reads it needs no Proctor.
    """

    def __init__(self, console: PatientConsole) -> None:
        self._console = console

    def started(self, start: RunStart) -> None:
        """The plan's size, and how it will be run."""
        self._print(
            "start",
            benchmark=start.benchmark,
            policy=start.policy,
            tasks=list(dict.fromkeys(task.name for task in start.plan.tasks)),
            episodes=len(start.plan),
            finished_before=start.before.finished,
            workers=start.workers,
            placement=start.placement,
            directory=str(start.directory),
        )

    def episode(self, record: EpisodeRecord) -> None:
        """An episode's record, as `per_episode` of eval_info.json and the table `episodes` have it."""
        self._print("episode", **record.to_row())

    def progress(self, progress: Progress) -> None:
        """A moment of the run; `rate` is over all that was started, `running` says what is in flight."""
        rate = progress.rate
        running = [
            {"task_group": key.group, "task_id": key.task_id, "episode_index": key.episode_index, "steps": steps}
            for key, steps in progress.running
        ]
        told = {"rate": rate and {**rate._asdict(), "value": rate.value}, "running": running}
        self._print("progress", **{**asdict(progress), **told})

    def note(self, message: str) -> None:
        """Something a person should read."""
        self._print("note", message=message)

    def ended(self) -> None:
        """No more episodes; the result follows."""
        self._print("end")

    def result(self, evaluation: Evaluation, status: int, report: Path | None) -> None:
        """The outcome, with the exit status that the command is about to end with."""
        error = evaluation.error
        self._print(
            "result",
            status=status,
            complete=bool(evaluation.info) and evaluation.info["run"]["complete"],
            error=error and {"kind": type(error).__name__, "message": str(error)},
            result=str(evaluation.run.directory.result) if evaluation.info else None,
            report=report and str(report),
        )

    def _print(self, event: str, **values: Any) -> None:
        if self._console.quiet:
            return
        try:
            # Not through rich, which would wrap, colour and put emoji into it.
            self._console.file.write(json.dumps({"event": event, **finite(values)}, allow_nan=False) + "\n")
            self._console.file.flush()
        except BrokenPipeError:
            self._console.on_broken_pipe()
