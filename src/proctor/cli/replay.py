"""`proctor replay`: run stored episodes again, without their policy, and say whether they are the same."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.text import Text

from proctor.cli.command import Given, RunCommand
from proctor.cli.unforeseen import say
from proctor.config.help import settings_table
from proctor.config.help_pages import FlagList
from proctor.config.settings import AtLeast, AtMost, EnvSettings, LimitSettings, Locates
from proctor.engine.interrupts import Interrupts
from proctor.errors import EXIT_EPISODE_ERRORS, EXIT_FAILED, EXIT_OK, EXIT_SIGINT, EXIT_SIGTERM, UsageError
from proctor.events import Progress, Watcher
from proctor.replay.replayer import Replay, Replayer, check_names_no_code, replayable
from proctor.report.console import PatientConsole, count, duration
from proctor.store.bundles import is_bundle, opened
from proctor.store.stored_run import StoredRun

MOST_LINES = 200
"""Episodes that are named one by one."""

_SECONDS = 5.0

_WORDS = """Run stored episodes again, from their actions alone, and say whether they are the same.

usage: proctor replay RUN [TASK:EPISODE ...] [flags]

  proctor replay outputs/expert
  proctor replay outputs/expert reach-v3:2 reach-v3:0-1

No policy is loaded, no GPU is needed, and nothing is written to the run. What is compared, bit for bit: where an
episode began, what its policy saw, rewards, success, how it ended; pictures where the same renderer draws here.

Exit status: 0 all are the same, 1 some differ, 3 some could not be replayed, 2 there is nothing to replay."""


@dataclass(frozen=True, kw_only=True)
class ReplayFlags:
    """The flags of `proctor replay` besides those of the benchmark."""

    run: Annotated[Path | None, Locates("given"), "run directory or bundle; the first word is taken for it"] = None
    only: Annotated[str, "TASK, TASK:7 or TASK:0-4, a comma list; further words are taken for it [all]"] = ""
    pixels: Annotated[bool, "draw and compare pictures, where the policy looked at some"] = True
    workers: Annotated[int, AtLeast(0), AtMost(10_000), "simulator workers; 0: as for a run"] = 0


def tables() -> list[tuple[str, FlagList]]:
    """Return the tables of settings that a replay takes besides."""
    return [
        ("Where simulators run (as --env.* of the run)", settings_table("env.", EnvSettings)),
        ("Limits", settings_table("limits.", LimitSettings)),
    ]


class ReplayProgress(Watcher):
    """A line every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console, self._last = console, time.monotonic()

    def progress(self, progress: Progress) -> None:
        """Print how far it is, if the last line is some seconds old."""
        if time.monotonic() - self._last < _SECONDS:
            return
        self._last = time.monotonic()
        speed = progress.episodes_here / progress.seconds if progress.seconds else 0.0
        left = f", {duration((progress.total - progress.ended) / speed)} left" if speed else ""
        self.note(
            f"{progress.ended}/{progress.total} episodes, {progress.steps / progress.seconds:.0f} steps/s{left}"
        )

    def note(self, message: str) -> None:
        """Print a note."""
        self._console.print(Text(message), soft_wrap=True)


def named_run(path: Path | None, command: str) -> Path:
    """Return the run that a command line names."""
    if path is None:
        raise UsageError(f"name a run: proctor {command} RUN. See: proctor {command} --help")
    return path


def _replay(given: Given[ReplayFlags]) -> int:
    path = named_run(given.own.run, "replay")
    with opened(path) as directory:
        run = StoredRun.open(directory)
        if is_bundle(path):
            check_names_no_code(run, given.tree)
        plan, without = replayable(run, given.own.only)
        console = PatientConsole(highlight=False)
        settings = {**given.tree, "eval": {"batch_size": given.own.workers}}
        with Interrupts() as interrupts, Replayer(run, settings, given.own.pixels, say) as replayer:
            console.print(Text(f"replaying {count(len(plan), 'episode')} of {path}"), soft_wrap=True)
            watcher = ReplayProgress(Console(stderr=True, highlight=False))
            return conclude(replayer.replay(plan, watcher, interrupts), without, console)


def conclude(replay: Replay, without: Sequence[str], console: Console) -> int:
    """Say what a replay came to; returns the exit status."""
    for line in [*map(str, replay.differing[:MOST_LINES])]:
        console.print(Text(line), soft_wrap=True)
    if len(replay.differing) > MOST_LINES:
        console.print(f"and {len(replay.differing) - MOST_LINES} more")
    if replay.pixels:
        console.print(Text(f"pixels not checkable here: {replay.pixels}"), soft_wrap=True)
    ended = replay.same + len(replay.differing)
    differ = f"{len(replay.differing)} differ; {replay.steps} steps"
    console.print(f"{replay.same} of {count(ended, 'episode')} the same, {differ}")
    return status_of(replay, without, console)


def status_of(replay: Replay, without: Sequence[str], console: Console) -> int:
    """Say what may be behind a difference, and what was not replayed; returns the exit status."""
    if replay.differing and replay.elsewhere:
        words = f"This may come of what is not as in the run: {'; '.join(replay.elsewhere)}"
        console.print(Text(words), soft_wrap=True)
    for line in (*without, *replay.failed)[:MOST_LINES]:
        say(f"not replayed: {line}")
    if replay.ending.error is not None:
        say(str(replay.ending.error))
        return replay.ending.error.exit_status
    if replay.ending.stopped_by is not None:
        left = replay.asked - replay.same - len(replay.differing)
        say(f"stopped with {count(left, 'episode')} to go")
        return EXIT_SIGINT if replay.ending.stopped_by is signal.SIGINT else EXIT_SIGTERM
    if replay.differing:
        return EXIT_FAILED
    return EXIT_EPISODE_ERRORS if without or replay.failed else EXIT_OK


replay_command = RunCommand(
    "replay",
    _replay,
    _WORDS,
    ("Flags", ReplayFlags),
    tables,
    sections=("env", "limits"),
    first="run",
    rest="only",
)
