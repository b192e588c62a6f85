"""Trackers of a training (`--report_to`, `--wandb.enable`): the success rate of every checkpoint, at its step."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from proctor.config.combinations import tracker_names
from proctor.config.plain_values import to_plain
from proctor.config.settings import Settings
from proctor.trackers.group import TrackerGroup
from proctor.trackers.run_trackers import rate_values
from proctor.training.curve import CurvePoint
from proctor.training.record import TrainingRecord


class TrainingTrackers:
    """All trackers of a training. Used as a context: whatever happens, their processes are gone at its end.

    Args:
        settings: of its evaluations, with those of the trackers; none: there is nothing to tell.
        tell: called with what the user should read.

    Raises:
        UsageError: a tracker's package is missing; says how to get it.
    """

    def __init__(self, settings: Settings | None, tell: Callable[[str], None]) -> None:
        self._settings = settings
        self._group = TrackerGroup([] if settings is None else tracker_names(settings), tell, "training")

    def __enter__(self) -> TrainingTrackers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._group.close()

    def start(self, record: TrainingRecord, place: Path) -> Mapping[str, str]:
        """Start the trackers' processes; returns under which id each knows the training."""
        settings = self._settings
        if settings is None or not self._group.names:
            return record.ids
        ids = {**{name: secrets.token_hex(4) for name in self._group.names}, **record.ids}
        if settings.wandb.run_id is not None and "wandb" in ids:
            ids["wandb"] = settings.wandb.run_id
        message = {
            "name": settings.job_name or place.name,
            "settings": {**to_plain(settings), "training": dict(record.flags)},
            "planned": settings.eval.n_episodes,
            "resumed": bool(record.curve.points),
        }
        self._group.harmless(lambda: self._group.start(place, ids, message))
        return ids

    def log(self, point: CurvePoint) -> None:
        """Tell what a checkpoint's evaluation came to, at its training step."""
        if self._group.is_running:
            self._group.harmless(lambda: self._group.log(point.step, _values(point)))
            self._group.harmless(self._group.pass_notes)

    def conclude(self, record: TrainingRecord, stopped_by: signal.Signals | None) -> None:
        """Tell which checkpoint is the best, and give the trackers a few seconds."""
        best, points = record.curve.best, record.curve.points
        message: dict[str, Any] = {
            "step": points[-1].step if points else 0,
            "status": "complete" if stopped_by is None else "stopped",
            "values": {} if best is None else {**rate_values("best", best.rate), "best/step": float(best.step)},
            "result": None,
            "videos": [],
            "error": None,
        }
        if self._group.is_running:
            self._group.harmless(lambda: self._group.conclude(message))


def _values(point: CurvePoint) -> dict[str, float]:
    values: dict[str, Any] = {
        **rate_values("eval", point.rate),
        "eval/n_errors": point.errors,
        "eval/avg_sum_reward": point.mean_reward,
    }
    return {name: float(value) for name, value in values.items() if value is not None}
