"""The videos that a run was asked for (`--eval.video`), made by replay once its results are stored."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from proctor.config.combinations import chosen_videos
from proctor.config.settings import Settings
from proctor.engine.interrupts import Interrupts
from proctor.errors import Interrupted, ProctorError
from proctor.events import Progress, Watcher
from proctor.plan import Plan
from proctor.replay.film import FilmedRun, film, film_into_run, lacking_videos
from proctor.replay.replayer import Replay
from proctor.report.console import count
from proctor.results import Evaluation

_SECONDS = 5.0
_MOST_LINES = 3


class FilmProgress(Watcher):
    """Tells how many videos there are, every few seconds."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell, self._last = tell, time.monotonic()

    def progress(self, progress: Progress) -> None:
        """Tell it, if the last time is some seconds ago."""
        if time.monotonic() - self._last >= _SECONDS:
            self._last = time.monotonic()
            self._tell(f"filmed {progress.ended} of {progress.total}")

    def note(self, message: str) -> None:
        """Pass it on."""
        self._tell(message)


def finish_command(run: Path) -> str:
    """Return the command that makes the videos which a run was asked for and does not have."""
    return shlex.join(["proctor", "film", str(run), "--which=missing"])


def film_run(evaluation: Evaluation, settings: Settings, watcher: Watcher) -> Evaluation:
    """Make the videos that a run was asked for and does not have. What its episodes came to stays as it is.

    A run that was stopped or ended by an error is not filmed: whoever goes on with it gets the videos too.

    Args:
        evaluation: what the run came to; everything of it is stored.
        settings: of the run.
        watcher: who is told of it.

    Returns:
        The evaluation with its videos. If a signal came meanwhile, it is in `stopped_by`.
    """
    choice, run = chosen_videos(settings.eval), evaluation.run
    if not choice or not evaluation.info or evaluation.error is not None or evaluation.stopped_by is not None:
        return evaluation
    plan = lacking_videos(run, choice)
    if not plan:
        return evaluation
    if not settings.eval.use_async_envs:  # of an earlier session; here everything stays in this process
        watcher.note(f"{count(len(plan), 'episode')} left to film: {finish_command(run.path)}")
        return replace(evaluation, unfilmed=len(plan))
    with Interrupts() as interrupts:
        try:
            filmed = _film(evaluation, plan, settings, watcher, interrupts)
        except Interrupted:
            return replace(evaluation, unfilmed=len(plan), stopped_by=interrupts.first)
        except Exception as error:  # whatever it is, it must not cost anybody a run
            words = str(error) if isinstance(error, ProctorError) else f"{type(error).__name__}: {error}."
            watcher.note(f"no videos: {words} To make them later: {finish_command(run.path)}")
            return replace(evaluation, unfilmed=len(plan))
    replay = filmed.replay
    _tell_of(replay, watcher)
    left = len(plan) - len(replay.filmed)
    return replace(
        evaluation, run=filmed.run, info=filmed.info, unfilmed=left, stopped_by=replay.ending.stopped_by
    )


def _film(
    evaluation: Evaluation, plan: Plan, settings: Settings, watcher: Watcher, interrupts: Interrupts
) -> FilmedRun:
    run, results = evaluation.run, evaluation.results
    rate = f", success {results.overall}" if results.reporting else ""
    watcher.note(
        f"{count(len(evaluation.records), 'episode')} stored{rate}. Filming "
        f"{count(len(plan), 'episode')} from stored actions; Ctrl-C ends that and loses no result"
    )
    given = {"eval": {"batch_size": settings.eval.batch_size, "video_fps": settings.eval.video_fps}}
    progress = FilmProgress(watcher.note)
    return film_into_run(run, lambda: film(run, plan, given, run.path, progress, interrupts, watcher.note))


def _tell_of(replay: Replay, watcher: Watcher) -> None:
    """Say which episodes have no video, and why."""
    if replay.differing:
        for one in replay.differing[:_MOST_LINES]:
            watcher.note(f"{one} (no video: it would show another episode)")
        watcher.note(
            f"{count(len(replay.differing), 'episode')} came out differently when replayed. If this simulator "
            "cannot be replayed, a new run with --eval.store_actions=false films as it goes on"
        )
    for line in replay.failed[:_MOST_LINES]:
        watcher.note(f"no video: {line}")
    if replay.ending.error is not None:
        watcher.note(f"filming ended early: {replay.ending.error}")
