"""What a training learns from: where it lies, whether it is still the same, and that it is not tested on it.

Only a dataset that Proctor has recorded says which episodes it has; of another its content alone is known.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proctor.errors import UsageError
from proctor.files import as_written_by_proctor, clip, read_json

if TYPE_CHECKING:  # trainers run in interpreters that may lack what these import
    from proctor.plan import Plan

INFO = "meta/info.json"


def lerobot_home() -> Path:
    """Return where LeRobot keeps datasets by their names."""
    home = os.environ.get("HF_HOME") or Path.home() / ".cache/huggingface"
    return Path(os.environ.get("HF_LEROBOT_HOME") or Path(home) / "lerobot").expanduser()


def find_dataset(root: Any, repo_id: Any) -> Path | None:
    """Return the folder of the dataset that a training names, if it is on this machine."""
    named = [Path(root).expanduser()] if isinstance(root, str) and root else []
    if not named and isinstance(repo_id, str) and repo_id:
        named = [lerobot_home() / repo_id]
    return next((folder.absolute() for folder in named if (folder / INFO).is_file()), None)


def dataset_of(config: Mapping[str, Any]) -> Path | None:
    """Return the folder of the dataset that LeRobot's training config names, if it is on this machine."""
    told = config.get("dataset")
    return find_dataset(told.get("root"), told.get("repo_id")) if isinstance(told, Mapping) else None


def content_hash(dataset: Path) -> str:
    """Return a hash of a dataset: its description and its rows by content, videos, which are large, by size."""
    digest = hashlib.sha256()
    for file in sorted(path for path in dataset.rglob("*") if path.is_file()):
        name = file.relative_to(dataset)
        digest.update(f"{name} {file.stat().st_size}\n".encode())
        if name.parts[0] != "videos":
            with file.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


def check_evaluations(dataset: Path, plan: Plan, *, known_tasks_only: bool) -> None:
    """Refuse evaluations on what a policy is trained on, and of tasks that it cannot learn.

    Args:
        dataset: what it is trained on.
        plan: the episodes of every evaluation.
        known_tasks_only: whether it can do nothing but the tasks of its dataset.
    """
    from proctor.recording.sources import ORIGINS

    if not (dataset / ORIGINS).is_file():
        return
    with as_written_by_proctor(dataset):
        episodes = read_json(dataset / ORIGINS)["episodes"]
        seeds = {(str(one["task"]), int(one["seed"])) for one in episodes}
        numbers = [(str(one["task"]), int(one["episode_index"])) for one in episodes]
    tasks = {task for task, _ in seeds}
    unknown = [task.name for task in plan.tasks if task.name not in tasks]
    if unknown and known_tasks_only:
        raise UsageError(
            f"--env.task: the dataset has no demonstration of {clip(unknown[0])}; such a policy can only do the "
            f"tasks that it was trained on: {clip(', '.join(sorted(tasks)), 300)}."
        )
    shared = [episode for episode in plan if (episode.task.name, episode.seed) in seeds]
    if shared:
        raise UsageError(
            f"{len(shared)} of the {len(plan)} episodes of an evaluation are in the dataset, beginning with "
            f"{clip(shared[0].task.name)} at seed {shared[0].seed}: the policy would be tested on what it was "
            f"trained on. Use other seeds: --seed={max(seed for _, seed in seeds) + 1}"
        )
    _check_initial_states(plan, numbers)


def _check_initial_states(plan: Plan, recorded: list[tuple[str, int]]) -> None:
    """Refuse beginnings that the dataset has: a task's fixed ones come in turn, whatever the seed."""
    states = {task.name: task.initial_states for task in plan.tasks if task.initial_states is not None}
    seen = {(name, index % states[name]) for name, index in recorded if name in states}
    shared = [
        episode
        for episode in plan
        if episode.task.name in states and (episode.task.name, episode.index % states[episode.task.name]) in seen
    ]
    if shared:
        raise UsageError(
            f"{len(shared)} of the {len(plan)} episodes of an evaluation begin from an initial state that the "
            f"dataset has too, the first {clip(shared[0].task.name)}, episode {shared[0].index}: they are fixed, "
            "and other seeds do not help. Record without them (LIBERO: --env.init_states=false)."
        )
