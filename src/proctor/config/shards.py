"""Which part of the plan a process runs: `--eval.shard_id`, by hand or from a Slurm array's own variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from proctor.config.settings import Settings
from proctor.errors import UsageError

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
