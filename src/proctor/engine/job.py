"""What a run is to do, settled before it starts, and how it ended."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from proctor.config.settings import LimitSettings, RunSettings
from proctor.engine.crew import WorkerRecipe
from proctor.engine.placement import Crew
from proctor.errors import ProctorError
from proctor.plan import Plan
from proctor.store.outcomes import Outcomes
from proctor.types import Episode


@dataclass(frozen=True)
class Job:
    """What is to be done; everything in it is settled."""

    pending: Plan
    before: Outcomes
    """What of the plan had ended already."""
    crew: Crew
    recipe: WorkerRecipe
    eval: RunSettings
    limits: LimitSettings
    max_open_tasks: int
    video_path: Callable[[Episode], Path | None]
    recording_path: Callable[[Episode], Path | None]
    on_gpu: bool = False
    """Whether a GPU draws, or answers for the policy."""
    place: str = ""
    """What the names of its workers begin with, where workers of several shards will meet in one run."""

    @property
    def plan(self) -> Plan:
        """The whole plan."""
        return self.before.plan


@dataclass(frozen=True)
class Ending:
    """How a run ended: complete, stopped by a signal, or by an error."""

    stopped_by: signal.Signals | None = None
    error: ProctorError | None = None
    startup: float = 0.0

    @property
    def words(self) -> str | None:
        """Why it ended before its plan did, for those who were not there; `None` if it did not."""
        if self.error is not None:
            return str(self.error)
        return f"it was stopped by {self.stopped_by.name}" if self.stopped_by is not None else None


def stored_path(video: Path | None) -> str | None:
    """Return a video's path relative to its run directory, so that the directory can be moved."""
    return None if video is None else str(Path(*video.parts[-3:]))
