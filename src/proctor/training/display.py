"""A training on the terminal (`--display`): the trainer's lines, a line per evaluation, the curve as a table."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from proctor.report.console import interval, percent, printable
from proctor.store.filesystem import finite
from proctor.training.curve import Curve, CurvePoint

_TICK = 0.2


class TrainingDisplay:
    """Who is told how a training goes; this one says nothing (`--display=none`)."""

    def trainer_line(self, line: str) -> None:
        """The trainer has printed something."""

    def note(self, message: str) -> None:
        """Something the user should read."""

    def evaluation_began(self, step: int, waiting: int) -> None:
        """A checkpoint is being evaluated, and so many wait behind it."""

    def evaluation_ended(self, point: CurvePoint, curve: Curve) -> None:
        """It has been."""

    def evaluation_failed(self, step: int, words: str) -> None:
        """It could not be."""

    def ended(self, curve: Curve, report: Path | None) -> None:
        """There is nothing left to do."""


class TextDisplay(TrainingDisplay):
    """Lines for people."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def trainer_line(self, line: str) -> None:
        """Show it as it is."""
        self._console.print(printable(line), soft_wrap=True)

    def note(self, message: str) -> None:
        """Show it."""
        self._console.print(Text(message, style="yellow"), soft_wrap=True)

    def evaluation_began(self, step: int, waiting: int) -> None:
        """Say which, and how many wait."""
        behind = "" if not waiting else f" ({waiting} more {'waits' if waiting == 1 else 'wait'})"
        self._console.print(Text(f"evaluating step {step:,}{behind}", style="dim"), soft_wrap=True)

    def evaluation_ended(self, point: CurvePoint, curve: Curve) -> None:
        """Say what it came to, and whether it is the best so far."""
        words = (
            f"step {point.step:,}: success {point.rate}"
            if point.episodes
            else f"step {point.step:,}: {reward(point)}"
        )
        errors = f", {point.errors} could not be run" if point.errors else ""
        best = ", the best so far" if curve.best == point and len(curve.points) > 1 else ""
        self._console.print(Text(f"{words}{errors}{best}", style="bold"), soft_wrap=True)

    def evaluation_failed(self, step: int, words: str) -> None:
        """Say why."""
        self.note(f"step {step:,} could not be evaluated: {words}")

    def ended(self, curve: Curve, report: Path | None) -> None:
        """Print the curve."""
        if curve.points:
            self._console.print(curve_table(curve))
        if report is not None:
            self._console.print(Text(f"report: {report}"), soft_wrap=True)


class JsonTrainingDisplay(TrainingDisplay):
    """A JSON object per line, for programs; its `event` says what it is about."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def trainer_line(self, line: str) -> None:
        """What the trainer has printed."""
        self._print("trainer", line=line)

    def note(self, message: str) -> None:
        """Something a person should read."""
        self._print("note", message=message)

    def evaluation_began(self, step: int, waiting: int) -> None:
        """Which, and how many wait."""
        self._print("evaluation_began", step=step, waiting=waiting)

    def evaluation_ended(self, point: CurvePoint, curve: Curve) -> None:
        """The point, as `training.json` has it."""
        best = curve.best
        (told,) = Curve((point,)).to_json()
        self._print("evaluation", **told, best=None if best is None else best.step)

    def evaluation_failed(self, step: int, words: str) -> None:
        """Why there is no point."""
        self._print("failure", step=step, error=words)

    def ended(self, curve: Curve, report: Path | None) -> None:
        """The whole curve."""
        best = curve.best
        self._print(
            "result",
            evaluations=curve.to_json(),
            best=None if best is None else best.step,
            report=None if report is None else str(report),
        )

    def _print(self, event: str, **told: Any) -> None:
        text = json.dumps(finite({"event": event, **told}), allow_nan=False)
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def make_training_display(kind: str, console: Console) -> TrainingDisplay:
    """Return what `--display` asks for."""
    if kind == "none":
        return TrainingDisplay()
    return JsonTrainingDisplay(console) if kind == "json" else TextDisplay(console)


def curve_table(curve: Curve) -> Table:
    """Return the curve, a row per checkpoint, the best one marked."""
    table = Table(header_style="bold")
    rated = any(point.episodes for point in curve.points)
    heads = ("step", "success", "95 %", "k/n") if rated else ("step", "mean reward")
    for head in (*heads, "errors"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("")
    best = curve.best
    for point in curve.points:
        rate = point.rate
        shown = (
            (f"{point.step:,}", percent(rate), interval(rate), f"{point.successes}/{point.episodes}")
            if rated
            else (f"{point.step:,}", "" if point.mean_reward is None else f"{point.mean_reward:.3g}")
        )
        errors = str(point.errors) if point.errors else ""
        table.add_row(*shown, errors, "best" if point == best else "", style="bold" if point == best else "")
    return table


def reward(point: CurvePoint) -> str:
    """Say what is known of a checkpoint where no task reports success."""
    return "no rate" if point.mean_reward is None else f"no success flag, mean reward {point.mean_reward:.3g}"


class LogReader:
    """Passes on what a process prints into its log, without the process ever waiting for that.

    Args:
        log: the file.
        display: who is told, line by line.
    """

    def __init__(self, log: Path, display: TrainingDisplay) -> None:
        self._log, self._display = log, display
        self._place = log.stat().st_size if log.exists() else 0
        self._rest = b""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trainer-log", daemon=True)

    def __enter__(self) -> LogReader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(_TICK):
            self._read()
        self._read()

    def _read(self) -> None:
        try:
            with self._log.open("rb") as file:
                file.seek(self._place)
                found = file.read()
        except OSError:
            return
        self._place += len(found)
        *lines, self._rest = (self._rest + found).split(b"\n")
        for line in lines:
            self._display.trainer_line(line.decode(errors="replace"))
