"""Weights & Biases. What `--wandb.*` leaves open is left to wandb, and so to its `WANDB_*` variables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from proctor.config.settings import comma_list
from proctor.trackers.protocol import EPISODE_COLUMNS, RunOutcome, TrackedRun, Tracker
from proctor.video_format import CONTAINER

PROJECT = "proctor"
_LONGEST_TAG = 64


class WandbTracker(Tracker):
    """One wandb run; a resumed evaluation goes on with it."""

    def start(self, run: TrackedRun) -> str | None:
        """Begin the run, or go on with it. Raises if nobody is logged in: there is nobody to ask."""
        import wandb

        chosen = run.settings["wandb"]
        own = comma_list(run.settings.get("tags") or "")
        open_to_variables = {
            "WANDB_PROJECT": ("project", chosen["project"], PROJECT),
            "WANDB_ENTITY": ("entity", chosen["entity"], None),
            "WANDB_MODE": ("mode", chosen["mode"], None),
            "WANDB_NOTES": ("notes", chosen["notes"] or _notes(run.settings), None),
            "WANDB_TAGS": ("tags", _tags(own, run.settings) if own else None, _tags([], run.settings) or None),
            "WANDB_NAME": ("name", None, run.name),
            "WANDB_DIR": ("dir", None, str(run.directory)),
        }
        options: dict[str, Any] = {}
        for variable, (name, asked, default) in open_to_variables.items():
            value = asked or (None if os.environ.get(variable) else default)
            if value is not None:
                options[name] = value
        self._with_table = not chosen["disable_artifact"]
        self._run: Any = wandb.init(
            **options,
            id=run.id,
            resume="allow",
            job_type="eval",
            config={**run.settings, "run_directory": str(run.directory), "n_planned": run.planned},
            settings=wandb.Settings(console="off", silent=True, x_disable_stats=True, disable_git=True),
        )
        return self._run.url or None

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add a row to the history."""
        self._run.log(dict(values), step=step)

    def conclude(self, outcome: RunOutcome) -> None:
        """Set the summary, add the table and the videos, and upload what is left."""
        import wandb

        last: dict[str, Any] = dict(outcome.values)
        if self._with_table:
            last["episodes"] = _table(
                [[episode[column] for column in EPISODE_COLUMNS] for episode in outcome.episodes]
            )
        if outcome.videos:
            last["videos"] = [
                wandb.Video(str(video), caption=f"{video.parent.name}/{video.name}", format=CONTAINER)
                for video in outcome.videos
            ]
        self._run.log(last, step=outcome.step)
        self._run.summary.update({**outcome.values, "status": outcome.status, "error": outcome.error})
        self._run.finish(exit_code=1 if outcome.status == "failed" else 0)


def _tags(own: Sequence[str], settings: Mapping[str, Any]) -> list[str]:
    """Return the user's tags of a run and, unless they are not wanted, LeRobot's, as long as wandb takes them."""
    policy, env = settings["policy"], settings["env"]
    more = [f"policy:{policy['type']}", f"seed:{settings['seed']}", f"env:{env['type']}"]
    tags = [*own, *(more if settings["wandb"]["add_tags"] else [])]
    return list(dict.fromkeys(tag[:_LONGEST_TAG] for tag in tags))


def _notes(settings: Mapping[str, Any]) -> str | None:
    """Return what the user says of a run, the one line on it first."""
    return "\n\n".join(filter(None, (settings.get("description"), settings.get("notes")))) or None


def _table(rows: list[list[Any]]) -> Any:
    import wandb

    return wandb.Table(columns=list(EPISODE_COLUMNS), data=rows, allow_mixed_types=True)
