"""Trackio: a local tracker with wandb's manners. Its files are in TRACKIO_DIR; `trackio show` shows them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from proctor.trackers.protocol import EPISODE_COLUMNS, RunOutcome, TrackedRun, Tracker
from proctor.trackers.wandb import PROJECT
from proctor.video_format import CONTAINER


class TrackioTracker(Tracker):
    """One trackio run; a resumed evaluation goes on with it."""

    def start(self, run: TrackedRun) -> str | None:
        """Begin the run, or go on with it."""
        import trackio

        project = run.settings["wandb"]["project"] or os.environ.get("TRACKIO_PROJECT") or PROJECT
        self._run: Any = trackio.init(
            project=project,
            # A run is known again by its name.
            name=f"{run.name}-{run.id}".replace("/", "-"),
            resume="allow",
            config={**run.settings, "run_directory": str(run.directory), "n_planned": run.planned},
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        return None

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add a row."""
        self._run.log(dict(values), step=step)

    def conclude(self, outcome: RunOutcome) -> None:
        """Add the result, the table and the videos."""
        import trackio

        rows = [{column: episode[column] for column in EPISODE_COLUMNS} for episode in outcome.episodes]
        last: dict[str, Any] = {**outcome.values, "status": outcome.status}
        if rows:
            last["episodes"] = trackio.Table(
                data=[list(row.values()) for row in rows], columns=list(EPISODE_COLUMNS)
            )
        for video in outcome.videos:
            name = f"videos/{video.parent.name}/{video.stem}"
            last[name] = trackio.Video(str(video), caption=name, format=CONTAINER)
        self._run.log(last, step=outcome.step)
        self._run.finish()
