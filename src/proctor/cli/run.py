"""A run as a command carries it out: shown while it goes on, told of at its end, turned into an exit status."""

from __future__ import annotations

import contextlib
import shlex
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from proctor.config.settings import Settings
from proctor.engine.evaluation import evaluate_settings
from proctor.engine.process import be_steady
from proctor.errors import (
    EXIT_EPISODE_ERRORS,
    EXIT_OK,
    EXIT_SIGINT,
    EXIT_SIGTERM,
    BenchmarkError,
    DamagedError,
    PolicyError,
    RunGoneError,
)
from proctor.events import Watcher
from proctor.files import check_output_file
from proctor.replay.run_films import film_run, finish_command
from proctor.report.command_clock import CommandClock
from proctor.report.console import PatientConsole, count
from proctor.report.display import JsonDisplay, make_display
from proctor.report.junit import write_junit
from proctor.report.summary import ReportFile, print_summary, write_run_report
from proctor.report.threshold import Threshold, ThresholdResult, judge
from proctor.results import Evaluation
from proctor.store.run_directory import DATABASE, SHARD_DIRECTORIES
from proctor.trackers.run_trackers import Trackers

_MOST_NAMED = 3
"""Folders of logs in one message."""


def evaluate_here(settings: Settings, command: str) -> int:
    """Evaluate on this machine, or from it on a cluster; returns the exit status. The command is what goes on."""
    if not settings.eval.use_async_envs:
        be_steady()
    return carry_out(
        settings,
        lambda watchers: evaluate_settings(settings, watchers),
        lambda directory: shlex.join(["proctor", command, f"--resume={directory}"]),
    )


def carry_out(
    settings: Settings, run: Callable[[Sequence[Watcher]], Evaluation], resume_command: Callable[[Path], str]
) -> int:
    """Evaluate, show how it goes and what it came to; returns the exit status.

    Args:
        settings: of the run.
        run: evaluates, and tells those who watch.
        resume_command: the command with which the run in a directory goes on.
    """
    if settings.junit is not None:
        check_output_file(settings.junit, "junit")
    console = PatientConsole(quiet=settings.display == "none")
    display, clock = make_display(console, settings), CommandClock()
    with Trackers(settings, display.note) as trackers:
        evaluation = run([clock, display, trackers])
        resume = resume_command(evaluation.directory)
        with after_run(evaluation, resume):
            clock.enter("filming")
            evaluation = film_run(evaluation, settings, display)
            clock.enter("results and report")
            trackers.conclude(evaluation)
    logs = [evaluation.run.directory.logs, *sorted(evaluation.directory.glob(f"{SHARD_DIRECTORIES}/logs"))]
    with after_run(evaluation, resume):
        return _conclude(evaluation, settings, console, display, resume, logs, clock)


@contextlib.contextmanager
def after_run(evaluation: Evaluation, resume: str) -> Iterator[None]:
    """Say what a Ctrl-C means that comes when no episode runs any more: what has ended is stored."""
    try:
        yield
    except KeyboardInterrupt:
        if evaluation.error is not None:
            words = f"after the run had ended: {evaluation.error}"
        elif evaluation.stopped_by is not None:
            words = _how_far(evaluation, resume)
        else:
            words = f"after the last episode; the run is stored in {evaluation.directory}"
        raise KeyboardInterrupt(f"interrupted {words}") from None


def _how_far(evaluation: Evaluation, resume: str) -> str:
    """Say where a run ended that is not complete, and how it goes on, as in "stopped ..."."""
    if evaluation.unfilmed:
        command = finish_command(evaluation.directory)
        videos = count(evaluation.unfilmed, "video")
        return f"while filming, with {videos} to go; the run is complete. To make them: {command}"
    if evaluation.info:
        # Errors are among them: going on tries them again.
        left = len(evaluation.plan) - evaluation.results.ended.finished
        return f"with {count(left, 'episode')} to go. To go on: {resume}"
    if evaluation.run.directory.holds_a_run() or any(evaluation.directory.glob(f"{SHARD_DIRECTORIES}/{DATABASE}")):
        return f"before its next episode. To go on: {resume}"
    return "before the first episode; nothing was stored"


def _conclude(
    evaluation: Evaluation,
    settings: Settings,
    console: Console,
    display: Watcher,
    resume: str,
    logs: Sequence[Path],
    clock: CommandClock,
) -> int:
    """Tell what a run came to, and with which command it goes on; returns the exit status."""
    threshold = _judged(evaluation, settings)
    if settings.junit is not None:
        write_junit(settings.junit, evaluation, threshold)
    report = write_run_report(evaluation)
    if isinstance(display, JsonDisplay):
        for note in (report.problem, _nothing_to_do(evaluation, resume), threshold and str(threshold)):
            if note is not None:
                display.note(note)
        status = _status(_complain(evaluation, settings, resume, logs), threshold)
        display.result(evaluation, status, report.path)
        return status
    if (words := _nothing_to_do(evaluation, resume)) is not None:
        console.print(Text(words), soft_wrap=True)
    if evaluation.info:
        print_summary(console, evaluation, report, clock.words())
    if settings.display == "none":
        _tell_of_lacks(evaluation, report)
    if settings.junit is not None:
        console.print(Text(f"junit:   {settings.junit}"), soft_wrap=True)
    if threshold is not None:
        passed = threshold.decision == "passed"
        (console if passed else Console(stderr=True)).print(Text(str(threshold)), soft_wrap=True)
    return _status(_complain(evaluation, settings, resume, logs), threshold)


def _tell_of_lacks(evaluation: Evaluation, report: ReportFile) -> None:
    """Say what could not be made of a run, where its summary, which would say so, is not shown."""
    errors = Console(stderr=True)
    if report.problem is not None:
        errors.print(Text(report.problem), soft_wrap=True)
    if evaluation.unfilmed and evaluation.stopped_by is None:
        words = f"not filmed: {count(evaluation.unfilmed, 'episode')}. To film them:"
        errors.print(Text(f"{words} {finish_command(evaluation.directory)}"), soft_wrap=True)


def _judged(evaluation: Evaluation, settings: Settings) -> ThresholdResult | None:
    """Return whether the run reaches what is asked of it, if something is."""
    if settings.min_success is None:
        return None
    return judge(evaluation.run, Threshold(settings.min_success, settings.min_success_by))


def _status(status: int, threshold: ThresholdResult | None) -> int:
    """Return the exit status: what ended a run early says more than what its part came to."""
    if threshold is None or status not in (EXIT_OK, EXIT_EPISODE_ERRORS):
        return status
    return threshold.exit_status or status


def _nothing_to_do(evaluation: Evaluation, resume: str) -> str | None:
    """Say that everything had ended before, and which command runs more."""
    if not evaluation.nothing_to_do or evaluation.error is not None or evaluation.stopped_by is not None:
        return None
    if evaluation.run.stopped is not None:
        return "nothing to do: the run had ended before, by its rule"
    each = evaluation.run.per_task
    more = f"For more of each task: {resume} --eval.n_episodes={2 * each}"
    return f"nothing to do: all {count(len(evaluation.plan), 'episode')} had ended before. {more}"


def _complain(evaluation: Evaluation, settings: Settings, resume: str, logs: Sequence[Path]) -> int:
    errors = Console(stderr=True)
    if evaluation.error is not None:
        errors.print(Text(f"proctor: {evaluation.error}"), soft_wrap=True)
        if isinstance(evaluation.error, PolicyError):
            written = [str(folder) for folder in logs if any(file.stat().st_size for file in folder.glob("*.log"))]
            more = " and beside it" if len(written) > _MOST_NAMED else ""
            where = f"The traceback is in {', '.join(written[:_MOST_NAMED])}{more}. " if written else ""
            errors.print(Text(f"{where}A policy that was changed is another one"), soft_wrap=True)
            errors.print(Text(f"and needs a new --output_dir. To go on with this one: {resume}"), soft_wrap=True)
        elif isinstance(evaluation.error, BenchmarkError):
            errors.print("Other settings make another run, which needs a new --output_dir.")
        elif not isinstance(evaluation.error, RunGoneError | DamagedError):
            errors.print(Text(f"To go on: {resume}"), soft_wrap=True)
        return evaluation.error.exit_status
    if evaluation.stopped_by is not None:
        errors.print(Text(f"stopped {_how_far(evaluation, resume)}"), soft_wrap=True)
        return EXIT_SIGINT if evaluation.stopped_by is signal.SIGINT else EXIT_SIGTERM
    stopped = evaluation.info["run"]["stopped"]
    if stopped is not None and stopped["decision"] != "recorded" and settings.display != "none":
        off = "--eval.stop_when=none --eval.until_better_than=none"
        errors.print(Text(f"To run the whole plan: {resume} {off}"), soft_wrap=True)
    if evaluation.results.ended.errors:
        errors.print(Text(f"To try the episodes with errors again: {resume}"), soft_wrap=True)
        return EXIT_EPISODE_ERRORS
    return EXIT_OK
