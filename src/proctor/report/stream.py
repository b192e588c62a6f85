"""Progress for programs: one JSON object per line, each written out at once (`--display=json`).

Every line has an `event`: `start`, `episode`, `progress`, `note`, `end` and, last of all, `result`. A number that
is not finite is null. Whoever reads it needs no Proctor.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from proctor.engine.evaluation import Evaluation
from proctor.events import Progress, RunStart, Watcher
from proctor.report.console import PatientConsole
from proctor.store.filesystem import finite
from proctor.store.schema import EpisodeRecord


class Stream(Watcher):
    """Tells everything that happens, in the words of the store."""

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
            result=str(evaluation.run.result) if evaluation.info else None,
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
