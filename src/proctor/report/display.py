"""Progress while a run goes on (`--display`): bars on a terminal, plain lines elsewhere, JSON for programs.

The rate is an estimate over all started episodes. The ones that happen to end first are the quick, successful
ones; their rate alone would flatter.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from proctor.config.settings import Settings
from proctor.events import Progress, RunOutline, RunStart, Stage, Watcher
from proctor.report.console import PatientConsole, printable
from proctor.report.progress_line import (
    Fact,
    StageTeller,
    TimeLeft,
    describe_outline,
    describe_start,
    one_line,
    progress_facts,
    stage_words,
)
from proctor.report.task_board import TaskBoard, bar
from proctor.results import Evaluation
from proctor.store.filesystem import finite
from proctor.store.schema import EpisodeRecord

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
    return LiveDisplay(console) if kind == "live" else PlainDisplay(console, not settings.eval.use_async_envs)


def _notebook() -> Any:
    """Return what IPython shows things with, if this is a notebook's kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return ipython.display if shell is not None and hasattr(shell, "kernel") else None  # type: ignore[union-attr]


class PlainDisplay(Watcher):
    """A line every few seconds, for logs and batch jobs.

    Args:
        console: where to.
        quiet: whether what is waited for is told only as it begins: a debugger may have the terminal.
    """

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self._console = console
        self._last = time.monotonic()
        self._left = TimeLeft()
        self._stages = None if quiet else StageTeller(self._print)

    def planned(self, outline: RunOutline) -> None:
        """Print the opening line."""
        self._print(describe_outline(outline))

    def doing(self, stage: Stage) -> None:
        """Print a line if it takes long."""
        if self._stages is not None:
            self._stages.enter(stage)

    def started(self, start: RunStart) -> None:
        """Print where results go, now that there will be some, and who does it."""
        self._end_stage(done=True)
        self._print(f"results go to {start.outline.directory}")
        self._print(describe_start(start))

    def progress(self, progress: Progress) -> None:
        """Print a line if the last one is some seconds old."""
        left = self._left.look(progress)
        if time.monotonic() - self._last >= _PLAIN_SECONDS:
            self._last = time.monotonic()
            self._print(one_line(progress_facts(progress, left)))

    def note(self, message: str) -> None:
        """Print a note."""
        self._print(message)

    def ended(self) -> None:
        """Tell no more."""
        self._end_stage(done=False)

    def _end_stage(self, done: bool) -> None:
        if self._stages is not None:
            self._stages.end(done)

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class NotebookDisplay(Watcher):
    """One line under a notebook's cell, which changes while the run goes on; notes stay above it."""

    def __init__(self, ipython: Any) -> None:
        self._ipython = ipython
        self._line: Any = None
        self._opening = ""
        self._left = TimeLeft()
        self._began = False

    def planned(self, outline: RunOutline) -> None:
        """Show the opening line."""
        self._opening = describe_outline(outline)
        self._line = self._ipython.display(_as_text(self._opening), raw=True, display_id=True)

    def doing(self, stage: Stage) -> None:
        """Show what is waited for, in the same line; at the end that stays as it is."""
        if not self._began:
            self._show(f"{stage.name}{f', {stage.detail}' if stage.detail else ''}")

    def started(self, start: RunStart) -> None:
        """Show who does it."""
        self._opening, self._began = f"{self._opening}; {describe_start(start)}", True

    def progress(self, progress: Progress) -> None:
        """Show how far the run is, in the same line."""
        self._show(one_line(progress_facts(progress, self._left.look(progress))))

    def _show(self, words: str) -> None:
        if self._line is not None:
            self._line.update(_as_text(f"{self._opening}: {words}"), raw=True)

    def note(self, message: str) -> None:
        """Show a note."""
        self._ipython.display(_as_text(message), raw=True)


def _as_text(line: str) -> dict[str, str]:
    return {"text/plain": printable(line).plain}


class LiveDisplay(Watcher):
    """Overall and per-task progress, redrawn in place, on as much of the screen as there is."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._board = TaskBoard()
        self._left = TimeLeft()
        self._stage, self._since = Stage("starting"), time.monotonic()
        self._facts: list[Fact] = []
        self._live = Live(console=console, refresh_per_second=8, transient=True, get_renderable=self._draw)

    def planned(self, outline: RunOutline) -> None:
        """Print the opening line and begin drawing."""
        self._console.print(describe_outline(outline), markup=False, highlight=False)
        self._live.start()

    def doing(self, stage: Stage) -> None:
        """Show what is waited for; its seconds go on by themselves."""
        if stage.name != self._stage.name:
            self._since = time.monotonic()
        self._stage, self._facts = stage, []

    def started(self, start: RunStart) -> None:
        """Print where results go and who does it, and show the tasks."""
        self._console.print(Text(f"results go to {start.outline.directory}", style="dim"), soft_wrap=True)
        self._console.print(describe_start(start), markup=False, highlight=False)
        self._board = TaskBoard.of(start)
        self.doing(Stage("starting workers"))

    def episode(self, record: EpisodeRecord) -> None:
        """Count it."""
        self._board.add(record)

    def progress(self, progress: Progress) -> None:
        """Show which tasks are running, and change the line under them."""
        self._board.look(progress)
        self._facts = progress_facts(progress, self._left.look(progress))

    def note(self, message: str) -> None:
        """Print a note above."""
        self._console.print(Text(message, style="yellow"))

    def ended(self) -> None:
        """Clear the display; the summary follows."""
        self._live.stop()

    def _draw(self) -> Group:
        width, height = self._console.width, self._console.height
        unicode = self._console.encoding.lower().startswith("utf")
        status = one_line(self._facts, width - 1) or stage_words(self._stage, time.monotonic() - self._since)
        last = Text(status[: width - 1], style="dim")
        if not self._board.tasks:
            return Group(last)
        total = self._board.total
        counts = f" {total.ended}/{total.wanted}"
        overall = Text.assemble(
            ("all tasks ", "bold"),
            bar(total.ended, total.wanted, max(10, width - 12 - len(counts)), unicode),
            counts,
        )
        rows = self._board.rows(width - 1, max(1, height - 3), unicode) if len(self._board.tasks) > 1 else []
        return Group(overall, *rows, last)


class JsonDisplay(Watcher):
    """Everything that happens, one JSON object per line, each written out at once.

    Every line has an `event`: `plan`, `stage`, `start`, `episode`, `progress`, `note`, `end` and, last of all,
    `result`. A number that is not finite is null. Whoever reads it needs no Proctor.
    """

    def __init__(self, console: PatientConsole) -> None:
        self._console = console
        self._stage = ""

    def planned(self, outline: RunOutline) -> None:
        """What will be run, and where its results go."""
        self._print(
            "plan",
            benchmark=outline.benchmark,
            policy=outline.policy,
            tasks=list(dict.fromkeys(task.name for task in outline.plan.tasks)),
            episodes=len(outline.plan),
            directory=str(outline.directory),
        )

    def doing(self, stage: Stage) -> None:
        """What is waited for, as it begins."""
        if stage.name != self._stage:
            self._stage = stage.name
            self._print("stage", stage=stage.name)

    def started(self, start: RunStart) -> None:
        """What was done before, and how the rest will be run."""
        self._print(
            "start",
            finished_before=start.before.finished,
            workers=start.workers,
            placement=start.placement,
            nodes=start.nodes,
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
