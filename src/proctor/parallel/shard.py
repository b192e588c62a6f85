"""One shard: the process that runs it, what it says, and what its end means."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from proctor import errors
from proctor.engine.process import ChildProcess, module_command
from proctor.engine.watchdog import Stillness
from proctor.errors import (
    EXIT_EPISODE_ERRORS,
    EXIT_OK,
    EXIT_USAGE,
    PolicyHostError,
    ProctorError,
    RunError,
    StoreError,
    UsageError,
)
from proctor.eval_info import write_eval_info
from proctor.machine.processes import describe_exit, is_stopped
from proctor.plan import Plan
from proctor.report.summary import write_run_report
from proctor.results import Evaluation, ScoredRun
from proctor.store.episodes import EpisodeTable
from proctor.store.run_directory import DATABASE, RunDirectory
from proctor.store.schema import EpisodeRecord, RunningEpisode
from proctor.types import EpisodeKey

ShardEvent = dict[str, Any]
ShardOutcome = Literal["done", "died", "hopeless"]

_PIPE_BYTES = 1 << 20


@dataclass(frozen=True)
class ShardRecipe:
    """All that is needed to start a shard, and to start it again."""

    name: str
    run: RunDirectory
    plan: Plan
    flags: Sequence[str]
    environment: Mapping[str, str]
    log: Path

    def records(self) -> Iterator[EpisodeRecord]:
        """Go through what is stored of it by now."""
        path = self.run.path / DATABASE
        # One that cannot be read has not begun yet.
        with contextlib.suppress(StoreError), EpisodeTable(path, read_only=True) as table:
            yield from table.records()

    def say_why_it_ended(self, words: str) -> None:
        """Put other words in the place of those that its last session, which is over, had for its end."""
        with contextlib.suppress(ProctorError):  # there is none yet, or it can no longer be written
            with EpisodeTable(self.run.path / DATABASE) as table:
                sessions = table.sessions()
                table.end_session(len(sessions), sessions[-1].startup if sessions else 0.0, words)
            if sessions and self.run.result.exists():
                run = ScoredRun(self.run.path, self.plan)
                write_run_report(Evaluation(run, write_eval_info(run)))


class ShardProcess(ChildProcess):
    """The launcher's handle on one start of a shard."""

    def __init__(self, recipe: ShardRecipe) -> None:
        self.recipe = recipe
        self.steps = self.busy = self.workers = 0
        self.running: list[RunningEpisode] = []
        self.result: ShardEvent | None = None
        self.hung_up = False
        self._verdict: str | None = None
        self._in_loop = False
        self._heard = 0
        self._stillness = Stillness()
        self._rest = b""
        self.pipe, theirs = os.pipe2(os.O_CLOEXEC)
        try:
            command = module_command("proctor.cli.child", str(os.getpid()), "eval", *recipe.flags)
            super().__init__(command, log=recipe.log, env=recipe.environment, stdout=theirs)
        except BaseException:
            os.close(self.pipe)
            raise
        finally:
            os.close(theirs)
        os.set_blocking(self.pipe, False)

    def listen(self) -> list[ShardEvent]:
        """Return what it has said since the last time, and remember what it says of itself."""
        events = []
        for line in self._lines():
            try:
                event = json.loads(line)
                kind = event["event"]
            except (ValueError, TypeError, KeyError):
                continue  # something in its process has printed
            self._heard += 1
            if kind == "progress":
                self._in_loop = True
                self.steps, self.busy, self.workers = event["steps"], event["busy"], event["workers"]
                self.running = [
                    RunningEpisode(
                        EpisodeKey(one["task_group"], one["task_id"], one["episode_index"]), one["steps"]
                    )
                    for one in event["running"]
                ]
            elif kind == "end":
                self._in_loop = False  # what it writes now may be large
            elif kind == "result":
                self.result = event
            events.append(event)
        return events

    def _lines(self) -> list[bytes]:
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.pipe, _PIPE_BYTES):
                self._rest += chunk
            self.hung_up = True
        *lines, self._rest = self._rest.split(b"\n")
        return lines

    def interrupt(self) -> None:
        """Ask it to stop as Ctrl-C would: episodes in flight may finish, unless it is asked again."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGINT)

    def kill_if_still(self, limit: float) -> None:
        """End it if it was stopped, or said nothing in its loop, for longer than so many seconds.

        In its loop it speaks several times a second. Before and after that it may be silent for as long as a
        policy loads or a dataset is written, and only the kernel knows whether it is well.
        """
        stopped = is_stopped(self.process.pid)
        seconds = self._stillness.seconds((self._heard, stopped))
        if self._verdict is None and seconds > limit and (stopped or self._in_loop):
            what = "was stopped" if stopped else "said nothing"
            self._verdict = f"{what} for longer than {limit:g} s (--limits.respond)"
            self.kill()

    def reap(self, patience: float | None = None) -> int | None:
        """Wait for its end and return its exit code, if that can be known; its workers and policy end with it."""
        code = super().reap(patience)
        os.close(self.pipe)
        return code

    @property
    def complaint(self) -> dict[str, str] | None:
        """The error of its own that it told of, if it did: its kind and its message."""
        return self.result and self.result["error"]

    def describe_end(self, code: int | None) -> str:
        """Say in words how it ended, as in "the shard ..."."""
        if self._verdict is not None:
            return self._verdict
        words = self.last_words()
        if self.complaint:
            return f"ended: {words}"
        return describe_exit(code) + (f": {words}" if words else "")

    def last_words(self) -> str:
        """Return its own complaint, or the last line that it printed where errors go."""
        if self.complaint:
            return self.complaint["message"]
        _, complaint, words = "\n".join(self.printed()).rpartition("proctor: ")
        return words if complaint else super().last_words()


def judge(code: int | None, result: ShardEvent | None) -> tuple[ShardOutcome, type[ProctorError]]:
    """Return what a shard's end means, and the kind of error that it is.

    >>> judge(0, {"status": 0, "error": None})[0]
    'done'
    >>> judge(-9, None)[0]
    'died'
    >>> judge(1, {"status": 1, "error": {"kind": "PolicyError", "message": "the policy raised"}})[0]
    'hopeless'
    """
    if code is None and result is not None:
        code = result["status"]  # its own word for it
    if code in (EXIT_OK, EXIT_EPISODE_ERRORS):
        return "done", RunError
    if code == EXIT_USAGE:
        return "hopeless", UsageError
    error = (result or {}).get("error")
    kind = getattr(errors, error["kind"], RunError) if error else RunError
    # Whoever has lost its policy's process may find it well next time. A policy that raises will raise again, and
    # so it is with a full disk and with simulators of which none works.
    return "died" if error is None or kind is PolicyHostError else "hopeless", kind
