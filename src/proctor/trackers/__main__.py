"""A tracker's process: reads what happens in a run, tells its tracker, and ends with the run.

python -m proctor.trackers PATH, where PATH is the tracker's class. Lines of JSON come on standard input, and go to
standard output for the user. Everything else that is printed goes to the log.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from proctor.config.registry import load_object
from proctor.trackers.protocol import RunOutcome, TrackedRun, Tracker

_GRACE = 20
"""Seconds after the run's end, however that came, after which this process is gone."""


class _Listener:
    """Passes messages on; the first that the tracker cannot take is told, the others are only counted."""

    def __init__(self, path: str, user: TextIO) -> None:
        self._path, self._user = path, user
        self._tracker: Tracker | None = None
        self._complained = False

    def hear(self, message: dict[str, Any]) -> None:
        try:
            self._pass_on(message)
        except BaseException as error:  # whatever a tracker does, SystemExit included, is no matter of the run
            traceback.print_exc()
            if not self._complained:
                words = str(error).strip().rstrip(".").splitlines() or [""]
                self._say(trouble=f"could not {message['type']}: {type(error).__name__}: {words[0][:300]}")
            self._complained = True

    def _pass_on(self, message: dict[str, Any]) -> None:
        kind = message.pop("type")
        try:
            if kind == "start":
                self._start(message)
            elif self._tracker is not None and kind == "log":
                self._tracker.log(message["step"], message["values"])
            elif self._tracker is not None:
                self._tracker.conclude(_outcome(message))
        finally:
            message["type"] = kind

    def _start(self, message: dict[str, Any]) -> None:
        directory = Path(message.pop("directory"))
        tracker: Tracker = load_object(self._path)()
        where = tracker.start(TrackedRun(directory=directory, **message))
        self._tracker = tracker
        if where is not None:
            self._say(news=where)

    def _say(self, **words: str) -> None:
        self._user.write(json.dumps(words) + "\n")
        self._user.flush()


def _outcome(message: dict[str, Any]) -> RunOutcome:
    episodes = []
    if message["result"] is not None:
        episodes = json.loads(Path(message["result"]).read_text())["per_episode"]
    return RunOutcome(
        step=message["step"],
        status=message["status"],
        values=message["values"],
        episodes=episodes,
        videos=[Path(video) for video in message["videos"]],
        error=message["error"],
    )


def _messages(source: TextIO) -> Iterator[dict[str, Any]]:
    for line in source:
        message: dict[str, Any] = json.loads(line)
        if message["type"] == "conclude":
            signal.alarm(_GRACE)
        yield message
    signal.alarm(_GRACE)  # the run was killed, or is over


def main() -> None:
    """Be a tracker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Packages print and ask questions; neither is for the run, whose lines come and go elsewhere.
    source, user = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    listener = _Listener(sys.argv[1], user)
    for message in _messages(source):
        listener.hear(message)


if __name__ == "__main__":
    main()
