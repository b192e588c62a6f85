"""Progress while a run goes on: a live display on a terminal, plain lines elsewhere.

The rate is an estimate over all started episodes. The ones that happen to end first are the quick, successful
ones; their rate alone would flatter.
"""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.text import Text

from proctor.config.settings import Settings
from proctor.events import Progress as RunProgress
from proctor.events import RunStart, Watcher
from proctor.report.console import PatientConsole, count, printable
from proctor.report.stream import Stream
from proctor.results import reporting, task_key
from proctor.stats.intervals import Rate
from proctor.store.outcomes import SUCCESS
from proctor.store.schema import EpisodeRecord

_MOST_TASKS = 12
_PLAIN_SECONDS = 5.0


def make_display(console: PatientConsole, settings: Settings) -> Watcher:
    """Return the watcher that `--display` asks for."""
    kind = settings.display
    if kind == "auto":
        # A display that redraws itself and a debugger's prompt do not go together.
        kind = "live" if console.is_terminal and settings.eval.use_async_envs else "plain"
    if kind == "none":
        return Watcher()
    if kind == "json":
        return Stream(console)
    return LiveDisplay(console) if kind == "live" else PlainDisplay(console)


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
    nodes = f" on {count(start.nodes, 'node')}" if start.nodes else ""
    return (
        f"{start.benchmark}: {count(len(start.plan), 'episode')} of {count(tasks, 'task')}{resumed}; "
        f"{count(start.workers, 'worker')}{nodes}; policy {start.policy} {where}"
    )


def describe_progress(progress: RunProgress) -> str:
    """Return one line about a moment of a run."""
    speed = progress.episodes_here / progress.seconds if progress.seconds else 0.0
    left = (progress.total - progress.ended) / speed if speed else None
    parts = [
        f"{progress.ended}/{progress.total} episodes",
        *([] if progress.rate is None else [f"success {_rate(progress.rate)}"]),
        f"{speed:.2f} episodes/s",
        f"{progress.steps / progress.seconds if progress.seconds else 0:.0f} steps/s",
        f"{progress.busy}/{progress.workers} workers busy",
    ]
    if progress.errors:
        parts.append(count(progress.errors, "error"))
    if left is not None and progress.ended < progress.total:
        parts.append(f"{duration(left)} left")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Return seconds as people say them.

    >>> duration(75)
    '1 min 15 s'
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _rate(rate: Rate) -> str:
    if rate.value is None:
        return "not known yet"
    estimate = "~" if rate.running else ""
    return f"{estimate}{100 * rate.value:.1f} % ({100 * rate.low:.1f}–{100 * rate.high:.1f})"


class PlainDisplay(Watcher):
    """A line every few seconds, for logs and batch jobs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = time.monotonic()

    def started(self, start: RunStart) -> None:
        """Print the opening line and where results go."""
        self._print(describe_start(start))
        self._print(f"results go to {start.directory}")

    def progress(self, progress: RunProgress) -> None:
        """Print a line if the last one is some seconds old, or if all is done."""
        if time.monotonic() - self._last >= _PLAIN_SECONDS:
            self._last = time.monotonic()
            self._print(describe_progress(progress))

    def note(self, message: str) -> None:
        """Print a note."""
        self._print(message)

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class LiveDisplay(Watcher):
    """Overall and per-task progress, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
            console=console,
        )  # fmt: skip
        self._overall = TaskID(0)
        self._tasks: dict[tuple[str, int], TaskID] = {}
        self._ended: Counter[tuple[str, int]] = Counter()
        self._successes: Counter[tuple[str, int]] = Counter()
        self._wanted: Counter[tuple[str, int]] = Counter()
        self._reporting: set[tuple[str, int]] = set()
        self._names: dict[tuple[str, int], str] = {}
        self._line = Text("starting", style="dim")
        self._live = Live(console=console, refresh_per_second=8, transient=True, get_renderable=self._draw)

    def started(self, start: RunStart) -> None:
        """Print the opening line and begin drawing."""
        self._console.print(describe_start(start), markup=False, highlight=False)
        self._overall = self._bars.add_task("all tasks", total=len(start.plan), rate="")
        wanted = np.bincount(start.plan.numbers, minlength=len(start.plan.all_tasks))
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
        self._bars.update(self._overall, completed=self._ended.total())
        for key, ended in self._ended.items():
            if not ended:
                continue
            if key not in self._tasks:
                self._tasks[key] = self._bars.add_task(f"  {self._names[key]}", total=self._wanted[key], rate="")
            self._bars.update(
                self._tasks[key],
                completed=ended,
                rate=f"{self._successes[key]}/{ended} succeeded" if key in self._reporting else "",
            )
        self._make_room()

    def _make_room(self) -> None:
        # More tasks than lines: show the unfinished ones, and of those the furthest.
        room = max(3, min(_MOST_TASKS, self._console.height - 6))
        order = sorted(self._tasks, key=lambda key: (self._ended[key] >= self._wanted[key], -self._ended[key]))
        for place, key in enumerate(order):
            self._bars.update(self._tasks[key], visible=place < room)

    def progress(self, progress: RunProgress) -> None:
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
