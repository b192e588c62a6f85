"""Which trackers a run reports to: `--report_to`, and LeRobot's own `--wandb.enable`."""

from __future__ import annotations

from proctor.config.settings import Settings
from proctor.errors import UsageError, did_you_mean

TRACKERS = {
    "wandb": ("proctor.trackers.wandb:WandbTracker", "wandb"),
    "trackio": ("proctor.trackers.trackio:TrackioTracker", "trackio"),
    "tensorboard": ("proctor.trackers.tensorboard:TensorboardTracker", "tensorboard"),
}
"""Where each is found, and the package that it needs."""


def tracker_names(settings: Settings) -> list[str]:
    """Return the trackers that are asked for, each once.

    Raises:
        UsageError: one is not known.
    """
    asked = [name.strip() for name in (settings.report_to or "").split(",")]
    names = dict.fromkeys(name for name in asked if name and name != "none")
    if settings.wandb.enable:
        names["wandb"] = None
    for name in names:
        if name not in TRACKERS and ":" not in name:
            raise UsageError(
                f"--report_to={name}: no such tracker.{did_you_mean(name, TRACKERS)} "
                f"Known: {', '.join(TRACKERS)}, or file.py:Class of your own."
            )
    return list(names)
