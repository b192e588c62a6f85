"""What a policy is trained on is not what it is tested on: no evaluation has an episode that the dataset has."""

from __future__ import annotations

from pathlib import Path

from proctor.errors import UsageError
from proctor.files import as_written_by_proctor, clip, read_json
from proctor.plan import Plan
from proctor.recording.sources import ORIGINS


def check_unseen(dataset: Path, plan: Plan) -> None:
    """Refuse a plan of evaluations if its layouts, by task and seed, are among the recorded ones.

    Only a dataset that Proctor has recorded says which seeds it has.
    """
    if not (dataset / ORIGINS).is_file():
        return
    with as_written_by_proctor(dataset):
        seen = {(str(one["task"]), int(one["seed"])) for one in read_json(dataset / ORIGINS)["episodes"]}
    shared = [episode for episode in plan if (episode.task.name, episode.seed) in seen]
    if shared:
        raise UsageError(
            f"{len(shared)} of the {len(plan)} episodes of an evaluation are in the dataset, beginning with "
            f"{clip(shared[0].task.name)} at seed {shared[0].seed}: the policy would be tested on what it was "
            f"trained on. Use other seeds: --seed={max(seed for _, seed in seen) + 1}"
        )
