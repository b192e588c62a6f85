"""Settings that belong together: what they mean as one, and which of them do not go together."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from proctor.config.settings import MOST_EPISODES, EvalConfig, Settings, comma_list
from proctor.errors import UsageError, did_you_mean
from proctor.files import clip
from proctor.types import NO_VIDEOS, VideoChoice

SLURM = "slurm"


def from_slurm(tree: dict[str, Any], environment: Mapping[str, str] = os.environ) -> None:
    """Put numbers in the place of `--eval.shard_id=slurm`, and a directory that all of the array's tasks share.

    With `--eval.num_shards` the task's number is the shard's, so that any part of an array can be sent again.
    Without, the whole array is taken as the shards.
    """
    section = tree.get("eval") or {}
    if not isinstance(section, Mapping) or str(section.get("shard_id")).lower() != SLURM:
        return
    number = _number(environment, "SLURM_ARRAY_TASK_ID")
    if section.get("num_shards") is not None:
        shard = {"shard_id": number}
    else:
        first, count = (_number(environment, f"SLURM_ARRAY_TASK_{name}") for name in ("MIN", "COUNT"))
        step = _number({"SLURM_ARRAY_TASK_STEP": "1", **environment}, "SLURM_ARRAY_TASK_STEP") or 1
        place, rest = divmod(number - first, step)
        if count == 1 or rest or place >= count:
            raise UsageError(
                f"--eval.shard_id=slurm: task {number} of this array of {count} is no shard of a whole array. "
                "Give --eval.num_shards; the shard is then the task's number, from --array=0-(N-1)."
            )
        shard = {"shard_id": place, "num_shards": count}
    tree["eval"] = {**section, **shard}
    if not tree.get("output_dir") and environment.get("SLURM_ARRAY_JOB_ID"):
        tree["output_dir"] = f"outputs/eval/slurm_{environment['SLURM_ARRAY_JOB_ID']}"


def check_choice(settings: Settings) -> None:
    """Refuse two choices of episodes at once, and one that would change a run that goes on."""
    if settings.failed is None:
        return
    if settings.only is not None:
        raise UsageError("--only and --failed both choose the episodes; use one of them.")
    if settings.resume is not None:
        raise UsageError("--failed begins a new run; leave out --resume.")


def check_shard(settings: Settings) -> None:
    """Refuse a shard that does not exist, or whose results would lie where no other shard's do."""
    shard, count = settings.eval.shard_id, settings.eval.num_shards
    if shard >= count:
        raise UsageError(
            f"--eval.shard_id={shard}: must be below --eval.num_shards={count}; shards are counted from 0."
        )
    if count > 1 and settings.output_dir is None:
        raise UsageError(f"--eval.num_shards={count} needs --output_dir, the same one for every shard.")


def _number(environment: Mapping[str, str], name: str) -> int:
    try:
        return int(environment[name])
    except (KeyError, ValueError):
        raise UsageError(
            f"--eval.shard_id=slurm: {name} is not set. Run it in a job array: sbatch --array=0-9 ..."
        ) from None


MOST_NOISE = 2.0
"""Beyond it an action is nothing but noise."""

OFF = ("", "none")
_PRECISION = re.compile(r"ci\s*<=?\s*(\d*\.?\d+)\s*(%?)")


def wanted_precision(settings: Settings) -> float | None:
    """Return the half-width of the interval at which a run may end, as a share; `None`: it runs its whole plan."""
    text = settings.eval.stop_when.strip().lower()
    if text in OFF:
        return None
    match = _PRECISION.fullmatch(text)
    bound = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < bound < 0.5:
        raise UsageError(
            f'--eval.stop_when={settings.eval.stop_when}: must be "ci<=X" with half the width of the interval, '
            'for example "ci<=0.05" for plus or minus 5 points; none: run the whole plan.'
        )
    return bound


def rival(settings: Settings) -> str | None:
    """Return the run directory of the run that is to be beaten, if there is one."""
    name = settings.eval.until_better_than
    return None if name.lower() in OFF else name


def check_threshold(settings: Settings) -> None:
    """Refuse a rate that is asked of what has none, or none that could be judged."""
    if settings.min_success is None:
        return
    if settings.eval.num_shards > 1:
        raise UsageError(
            "--min_success is asked of a whole run, and a shard is a part of one. Leave it out, and judge the "
            "merged run: proctor show RUN --min_success=..."
        )
    if settings.eval.demonstrations:
        raise UsageError("--min_success and --eval.demonstrations: demonstrations are chosen by their success.")
    if settings.min_success_by == "lower" and rival(settings) is not None:
        raise UsageError(
            "--min_success_by=lower needs an interval that holds wherever a run stops, and "
            "--eval.until_better_than has none. Use --min_success_by=rate, or --eval.stop_when."
        )


def noise_levels(settings: EvalConfig) -> tuple[float, ...]:
    """Return the spreads of noise of which every episode takes one."""
    try:
        levels = tuple(float(part) for part in comma_list(settings.noise))
    except ValueError:
        levels = ()
    if not levels or not all(0 <= level <= MOST_NOISE for level in levels):
        raise UsageError(
            f"--eval.noise={clip(settings.noise, 60)}: must be a number from 0 to {MOST_NOISE:g} or a comma list, "
            "such as 0,0.1,0.25,0.5."
        )
    return levels


def check_stopping(settings: Settings) -> None:
    """Refuse a rule that is none, and rules where nobody sees the whole plan."""
    noise_levels(settings.eval)
    if settings.eval.demonstrations and settings.eval.num_shards > 1:
        raise UsageError("--eval.demonstrations counts over the whole plan, which no shard sees: no shards.")
    if wanted_precision(settings) is None and rival(settings) is None:
        return
    if settings.eval.demonstrations:
        raise UsageError("--eval.demonstrations ends the run itself: no --eval.stop_when or until_better_than.")
    if settings.eval.num_shards > 1:
        raise UsageError(
            "--eval.stop_when and --eval.until_better_than follow the plan from its start, which no shard sees. "
            "Use proctor parallel, which sees it, or leave out --eval.num_shards."
        )


def chosen_videos(settings: EvalConfig) -> VideoChoice:
    """Return the episodes that a run is to have videos of."""
    text = settings.video.strip().lower()
    if text.isascii() and text.isdigit():
        return VideoChoice(first=min(int(text[:9]), MOST_EPISODES))
    choices = {"failures": VideoChoice(failures=True), "all": VideoChoice(MOST_EPISODES), "none": NO_VIDEOS}
    if text not in choices:
        raise UsageError(
            f"--eval.video={clip(settings.video, 60)}: must be failures, all, none, or a number N for the first N "
            f"episodes of every task.{did_you_mean(text, choices)}"
        )
    return choices[text]


AUTO, LOCAL = "auto", "local"

_HOST_AND_PORT = re.compile(r"[^\s:/]+:\d+|\[[0-9A-Fa-f:.]+\]:\d+")


def check_cluster(settings: Settings) -> None:
    """Refuse an address that is none, and settings that a cluster cannot keep."""
    address = settings.cluster.address
    if address is None:
        # A run that leaves its cluster, by --resume and --cluster.address=none, still has its settings.
        for field in fields(settings.cluster) if settings.resume is None else ():
            value = getattr(settings.cluster, field.name)
            if value != field.default:
                raise UsageError(
                    f"--cluster.{field.name}={value} needs --cluster.address: auto, local or HOST:PORT."
                )
        return
    if address not in (AUTO, LOCAL) and not _HOST_AND_PORT.fullmatch(address):
        raise UsageError(f"--cluster.address={address}: must be auto, local or HOST:PORT.")
    if not settings.eval.use_async_envs:
        raise UsageError(
            "--eval.use_async_envs=false runs everything in this process; leave out --cluster.address."
        )
    if settings.eval.num_shards > 1:
        raise UsageError("--cluster.address and --eval.num_shards both split the plan; use one of them.")


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
