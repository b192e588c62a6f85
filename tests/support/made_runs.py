"""Runs whose outcomes a test chooses, written through the real store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proctor.plan import make_plan, shard_of
from proctor.store.run_directory import RunDirectory, Shard
from proctor.store.schema import EpisodeRecord
from proctor.types import Task

Outcomes = Mapping[str, Sequence[bool | None]]
"""By task ("name" or "group/name"), what each episode came to: success, failure, or `None` for an error."""


def make_run(
    path: Path,
    outcomes: Outcomes,
    *,
    seed: int = 1000,
    missing: Sequence[tuple[str, int]] = (),
    videos: bool = False,
    shard: Shard | None = None,
    max_steps: int = 100,
    identity: Mapping[str, Any] | None = None,
) -> Path:
    """Write a run of which all tasks have equally many episodes; those in `missing` have not ended."""
    tasks: list[Task] = []
    for name in outcomes:
        group, _, task = name.rpartition("/")
        number = sum(other.group == group for other in tasks) if group else 0
        tasks.append(Task(group or task, number, task, f"do {task}", max_steps))
    per_task = max(map(len, outcomes.values()))
    directory = RunDirectory(path, shard)
    directory.path.mkdir(parents=True, exist_ok=True)
    named = dict(zip(tasks, outcomes, strict=True))
    plan = shard_of(make_plan(tasks, per_task, seed), *(shard or Shard(0, 1)))
    records = []
    for episode in plan:
        name = named[episode.task]
        if (name, episode.index) in missing or episode.index >= len(outcomes[name]):
            continue
        success = outcomes[name][episode.index]
        video = directory.video(episode.task, episode.index)
        if videos:
            (directory.path / video).parent.mkdir(parents=True, exist_ok=True)
            (directory.path / video).write_bytes(b"")
        records.append(
            EpisodeRecord.failed(episode, 3, "it broke")
            if success is None
            else EpisodeRecord(
                task_group=episode.task.group,
                task_id=episode.task.task_id,
                task=episode.task.name,
                episode_index=episode.index,
                seed=episode.seed,
                status="finished",
                success=success,
                sum_reward=1.0,
                max_reward=1.0,
                steps=10 if success else max_steps,
                digest=f"{name} {episode.index} {success}",
                video_path=str(video) if videos else None,
            )
        )
    with directory.table() as table:
        table.set_meta(
            "identity",
            {
                "env": {"type": "made", "obs_type": "state"},
                "tasks": [task.to_wire() for task in tasks],
                "seed": seed,
                "policy": {"type": "python", "fingerprint": path.name},
                "rename_map": {},
                "renderer": None,
                "machine": {"cpu": "some"},
                "versions": {"mujoco": "3.3.0"},
                **(identity or {}),
            },
        )
        table.set_meta("n_episodes", per_task)
        table.set_meta("tasks", [task.to_wire() for task in tasks])
        table.set_meta("reproducible", True)
        table.write(records)
    directory.write_config({"policy": {"type": "python", "path": f"{path.name}.py:Policy"}, "eval": {}})
    return path
