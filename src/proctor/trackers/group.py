"""All trackers of a run or a training, so that none of them can do it any harm."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from proctor.config.combinations import TRACKERS
from proctor.config.registry import load_object
from proctor.errors import UsageError
from proctor.store.videos import file_name
from proctor.trackers.process import TrackerProcess

PATIENCE = 15.0
"""Seconds that trackers are given at the end, all together."""


class TrackerGroup:
    """The trackers that `--report_to` names, each in a process of its own.

    Args:
        names: of the trackers.
        tell: called with what the user should read.
        subject: what is tracked, in a word: "run" or "training".

    Raises:
        UsageError: a tracker's package is missing; says how to get it.
    """

    def __init__(self, names: Sequence[str], tell: Callable[[str], None], subject: str = "run") -> None:
        self.names, self._tell, self._subject = names, tell, subject
        self._safe = f"The {subject} and its results are not affected."
        for name in names:
            _check_installed(name)
        self._processes: list[TrackerProcess] = []

    @property
    def is_running(self) -> bool:
        """Whether anybody is told anything."""
        return bool(self._processes)

    def start(self, directory: Path, ids: Mapping[str, str], message: Mapping[str, Any]) -> None:
        """Start the trackers' processes; nobody waits for them.

        Args:
            directory: of what is tracked; logs go there.
            ids: under which each tracker knows it.
            message: the rest of `TrackedRun`.
        """
        for name in self.names:
            path, _ = TRACKERS.get(name, (name, ""))
            log = directory / "logs" / f"tracker-{file_name(name.rpartition(':')[2])}.log"
            first = {**message, "directory": str(directory), "id": ids[name]}
            try:
                self._processes.append(TrackerProcess(name, path, log, first))
            except OSError as error:
                self._tell(f"{name}: could not be started: {error}. The {self._subject} goes on without it.")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Tell numbers at a step."""
        for process in self._processes:
            process.log(step, values)

    def conclude(self, message: Mapping[str, Any]) -> None:
        """Tell the result and give the trackers a few seconds to make it theirs."""
        for process in self._processes:
            process.conclude(message)
        deadline = time.monotonic() + PATIENCE
        for process in self._processes:
            in_time = process.wait(deadline)
            self.pass_notes()
            ending = process.close()
            if not in_time:
                self._tell(
                    f"{process.name}: not done {PATIENCE:g} s after the {self._subject}, left behind. {self._safe}"
                )
            elif ending is not None:
                self._tell(f"{process.name}: {ending}. {self._safe}")

    def pass_notes(self) -> None:
        """Tell the user what the trackers have to say."""
        for process in self._processes:
            for words in process.words():
                trouble = words.get("trouble")
                self._tell(f"{process.name}: {words['news'] if trouble is None else f'{trouble}. {self._safe}'}")

    def harmless(self, do: Callable[[], None]) -> None:
        """Do something for the trackers; whatever goes wrong is told, and no more."""
        try:
            do()
        except Exception as error:  # a mistake here is no reason to lose a run
            self._tell(f"trackers: {type(error).__name__}: {error}. {self._safe}")

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.close()


def _check_installed(name: str) -> None:
    if name not in TRACKERS:
        load_object(name)  # a user's own: says itself what is wrong with it
        return
    _, package = TRACKERS[name]
    if importlib.util.find_spec(package) is None:
        raise UsageError(f"--report_to={name} needs {package}. Run: pip install {package}")
