"""Trackers for tests: one that notes everything it is told, and some that harm whatever they can."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from proctor.trackers.protocol import RunOutcome, TrackedRun, Tracker


class Notebook(Tracker):
    """Writes all it is told into the run directory, a line of JSON each."""

    def start(self, run: TrackedRun) -> str | None:
        self._file = run.directory / "told.jsonl"
        self._note(kind="start", pid=os.getpid(), **asdict(run))
        print("a tracker says hello")  # noqa: T201
        return "see told.jsonl"

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._note(kind="log", step=step, values=dict(values))

    def conclude(self, outcome: RunOutcome) -> None:
        self._note(kind="conclude", **asdict(outcome))

    def _note(self, **what: Any) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps(what, default=str) + "\n")


class Raising(Tracker):
    """Raises at every call."""

    def start(self, run: TrackedRun) -> str | None:
        return None

    def log(self, step: int, values: Mapping[str, float]) -> None:
        raise RuntimeError("no log today\nand a second line")

    def conclude(self, outcome: RunOutcome) -> None:
        raise RuntimeError("no end today")


class NeverStarting(Raising):
    def start(self, run: TrackedRun) -> str | None:
        sys.exit("I leave")


class Dying(Raising):
    def log(self, step: int, values: Mapping[str, float]) -> None:
        os._exit(9)


class Hanging(Raising):
    def log(self, step: int, values: Mapping[str, float]) -> None:
        time.sleep(3600)


class HangingAtOnce(Raising):
    def start(self, run: TrackedRun) -> str | None:
        time.sleep(3600)
        return None
