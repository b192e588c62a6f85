"""From `--report_to` to the trackers of a run: what each is told of it, so that none can do it any harm."""

from __future__ import annotations

import contextlib
import itertools
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from proctor.config.combinations import tracker_names
from proctor.config.plain_values import to_plain
from proctor.config.settings import Settings
from proctor.errors import ProctorError
from proctor.events import Progress, RunStart, Watcher
from proctor.files import read_json
from proctor.results import Evaluation, task_key
from proctor.stats.intervals import Rate
from proctor.store.filesystem import write_json
from proctor.store.outcomes import SUCCESS
from proctor.store.run_directory import SHARD_DIRECTORIES
from proctor.store.videos import video_file
from proctor.trackers.group import TrackerGroup

IDS = "trackers.json"
"""In the run directory: under which id each tracker knows the run."""

MOST_VIDEOS = 16
_LEAST_SECONDS = 1.0


class Trackers(Watcher):
    """All trackers of a run. Used as a context: whatever happens, their processes are gone at its end.

    Args:
        settings: all settings, validated.
        tell: called with what the user should read.

    Raises:
        UsageError: a tracker's package is missing; says how to get it.
    """

    def __init__(self, settings: Settings, tell: Callable[[str], None]) -> None:
        self._settings = settings
        self._group = TrackerGroup(tracker_names(settings), tell)
        self._last: Progress | None = None
        self._told_at, self._told_ended = 0.0, -1

    def __enter__(self) -> Trackers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._group.close()

    def started(self, start: RunStart) -> None:
        """Start the trackers' processes; nobody waits for them."""
        if self._group.names:
            self._group.harmless(lambda: self._start(start))

    def _start(self, start: RunStart) -> None:
        directory = start.outline.directory
        shard = directory.match(SHARD_DIRECTORIES)
        place = f"{directory.parent.name}/{directory.name}" if shard else directory.name
        message = {
            "name": self._settings.job_name or place,
            "settings": to_plain(self._settings),
            "planned": len(start.outline.plan),
            "resumed": bool(start.before.ended),
        }
        ids = _ids(directory, self._group.names, self._settings)
        self._group.start(directory, ids, message)

    def progress(self, progress: Progress) -> None:
        """Tell where the run stands, once a second at most, and only if another episode has ended."""
        if self._group.is_running:
            self._group.harmless(lambda: self._log(progress))

    def _log(self, progress: Progress) -> None:
        self._group.pass_notes()
        self._last = progress
        now = time.monotonic()
        if progress.ended != self._told_ended and now - self._told_at >= _LEAST_SECONDS:
            self._told_at, self._told_ended = now, progress.ended
            self._group.log(progress.ended, live_values(progress))

    def conclude(self, evaluation: Evaluation) -> None:
        """Tell the result and give the trackers a few seconds to make it theirs."""
        if self._group.is_running:
            self._group.harmless(lambda: self._conclude(evaluation))

    def _conclude(self, evaluation: Evaluation) -> None:
        if self._last is not None and self._last.ended != self._told_ended:
            self._group.log(self._last.ended, live_values(self._last))
        self._group.conclude(_conclusion(evaluation))


def _conclusion(evaluation: Evaluation) -> dict[str, Any]:
    error = evaluation.error
    complete = bool(evaluation.info) and evaluation.info["run"]["complete"]
    # Whoever stops the filming stops a run that is complete.
    stopped = not complete or (evaluation.stopped_by is not None and not evaluation.unfilmed)
    return {
        "step": len(evaluation.records),
        "status": "failed" if error is not None else "stopped" if stopped else "complete",
        "values": final_values(evaluation),
        "result": str(evaluation.run.directory.result) if evaluation.info else None,
        "videos": [str(video) for video in videos_of(evaluation)],
        "error": None if error is None else str(error),
    }


def _ids(directory: Path, names: Sequence[str], settings: Settings) -> dict[str, str]:
    """Return the id of the run at each tracker: a resumed run keeps its own."""
    file = directory / IDS
    ids: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError, TypeError):
        ids = {str(name): str(value) for name, value in dict(read_json(file)).items()}
    fresh = {name: secrets.token_hex(4) for name in names if name not in ids}
    if settings.wandb.run_id is not None and "wandb" in names:
        fresh["wandb"] = settings.wandb.run_id
    if fresh:
        ids = {**ids, **fresh}
        with contextlib.suppress(ProctorError):  # it will be another run there next time
            write_json(file, ids)
    return ids


def live_values(progress: Progress) -> dict[str, float]:
    """Return where a run stands. Rates are in percent, as LeRobot's `pc_success`, over all that was started."""
    seconds = progress.seconds or 1.0
    return {
        **(rate_values("live", progress.rate) if progress.rate is not None else {}),
        "live/errors": progress.errors,
        "live/episodes_per_s": progress.episodes_here / seconds,
        "live/steps_per_s": progress.steps / seconds,
        "live/workers_busy": progress.busy,
    }


def final_values(evaluation: Evaluation) -> dict[str, float]:
    """Return the result: overall, by task and by group."""
    results, info = evaluation.results, evaluation.info
    values: dict[str, Any] = {
        **rate_values("eval", results.overall),
        "eval/n_errors": results.result.errors,
        "eval/pc_success_if_errors_failed": _percent(results.result.if_errors_failed.value),
    }
    if info:
        overall = info["overall"]
        values |= {f"eval/{name}": overall[name] for name in ("avg_sum_reward", "avg_max_reward", "eval_s")}
    for task in results.tasks:
        values |= rate_values(f"task/{task.name}", results.of([task_key(task)]))
    groups = dict.fromkeys(task.group for task in results.tasks)
    if len(groups) < len(results.tasks):
        for group in groups:
            values |= rate_values(f"group/{group}", results.of_group(group))
    return {name: float(value) for name, value in values.items() if value is not None}


def videos_of(evaluation: Evaluation) -> list[Path]:
    """Return some of a run's videos, failures first."""
    ended = evaluation.results.ended
    names = {task_key(task): task.name for task in evaluation.results.tasks}
    filmed = sorted(ended.filmed, key=lambda key: (ended.state(key) == SUCCESS, names[key[:2]], key.episode_index))
    found = (video_file(evaluation.directory, key) for key in filmed)
    return list(itertools.islice(filter(None, found), MOST_VIDEOS))


def rate_values(name: str, rate: Rate) -> dict[str, Any]:
    """Return a rate and its interval in per cent; nothing where there is none."""
    if rate.value is None:
        return {}
    return {
        f"{name}/pc_success": _percent(rate.value),
        f"{name}/pc_success_low": _percent(rate.low),
        f"{name}/pc_success_high": _percent(rate.high),
        f"{name}/n_episodes": rate.episodes,
    }


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
