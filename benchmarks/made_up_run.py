"""Run directories without a simulator: made-up episodes, written by the store's own writer."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.metaworld.tasks import GROUPS
from proctor.eval_info import write_eval_info
from proctor.plan import make_plan
from proctor.policies.protocol import PolicySpec
from proctor.results import ScoredRun
from proctor.store.checksums import Row
from proctor.store.episodes import EpisodeTable
from proctor.store.run_directory import DATABASE, RunDirectory
from proctor.store.schema import Attempt, EpisodeRecord, pack_rewards
from proctor.store.trajectories import MARK, Trajectory, pack_trajectory
from proctor.types import Episode, Task

BEGAN = 1_790_000_000.0


@dataclass(frozen=True)
class MadeUp:
    """What a made-up run is like."""

    n_episodes: int = 10
    tasks: Sequence[Task] | None = None
    """Meta-World's 50 in their four groups, unless given."""
    skill: float = 0.0
    """Above 0: better than the usual rates of each task; below: worse."""
    workers: int = 8
    errors: int = 3
    ended: int | None = None
    """How many episodes have ended; all by default."""
    tells_success: bool = True
    policy: str = "outputs/train/act/checkpoints/last/pretrained_model"
    video: Path | None = None
    """A video that the first episode of every task gets, as a link."""


def metaworld_tasks() -> list[Task]:
    """Return all 50 tasks."""
    return [
        Task(group, place, name, f"{name.removesuffix('-v3').replace('-', ' ')}", 500)
        for group, names in ((group, GROUPS[group]) for group in ("easy", "medium", "hard", "very_hard"))
        for place, name in enumerate(names)
    ]


def make_run(directory: Path, kind: MadeUp | None = None) -> Path:
    """Write a run directory; returns it."""
    kind = kind or MadeUp()
    tasks = [replace(task, reports_success=kind.tells_success) for task in kind.tasks or metaworld_tasks()]
    plan = make_plan(tasks, kind.n_episodes, 1000)
    run = RunDirectory(directory)
    directory.mkdir(parents=True, exist_ok=True)
    with run.table() as table:
        table.set_meta("identity", _identity(kind, tasks))
        table.set_meta("n_episodes", kind.n_episodes)
        table.set_meta("reproducible", True)
        table.set_meta("policy_spec", PolicySpec(action_size=4, action_steps=10).to_wire())
        table.set_meta("tasks", [task.to_wire() for task in tasks])
        session = table.begin_session(kind.workers)
        records = _records(plan[: kind.ended], kind)
        failed = [record for record in records if record.status == "error"]
        table.write(records, [Attempt(r.key, n, str(r.error), 0) for r in failed for n in (1, 2, 3)])
        for record in failed:
            table.add_note(f"{record.task} episode {record.episode_index}: attempt 3 of 3 failed: {record.error}")
        table.end_session(session, 0.4 * kind.workers)
        _give_times(run, records)
        for record in records:
            if record.video_path is not None and kind.video is not None:
                target = directory / record.video_path
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(kind.video, target)
        run.write_config(_config(kind, tasks))
        write_eval_info(ScoredRun(run.path, plan))
    return directory


def _records(plan: Sequence[Episode], kind: MadeUp) -> list[EpisodeRecord]:
    free = [BEGAN + 0.4] * kind.workers
    errors = {round(place * len(plan) / (kind.errors + 1)) for place in range(1, kind.errors + 1)}
    made = []
    for place, episode in enumerate(plan):
        if place in errors:
            made.append(EpisodeRecord.failed(episode, 3, "the worker was killed by signal 11 during step"))
            continue
        worker = int(np.argmin(free))
        record = _record(episode, kind, worker, free[worker])
        free[worker] += record.seconds + 0.01
        made.append(record)
    return made


def _trajectory(rng: np.random.Generator, rewards: NDArray[np.float64], success: bool, limit: int) -> bytes:
    """Return made-up actions in chunks of ten, packed."""
    steps = len(rewards)
    chunks = np.full(-(-steps // 10), 10)
    actions = rng.normal(size=(steps, 4)).astype(np.float32)
    ending = success, False, steps == limit
    marks = rng.bytes(MARK * len(chunks))
    return pack_trajectory(Trajectory([actions], chunks, rewards, marks, steps if success else None, ending))


def _record(episode: Episode, kind: MadeUp, worker: int, start: float) -> EpisodeRecord:
    task = episode.task
    hardness = np.random.default_rng(list(task.name.encode())).normal()
    rng = np.random.default_rng([episode.seed, *task.name.encode()])
    luck = rng.normal()
    success = bool(1.2 - hardness + kind.skill + 0.9 * luck + 0.4 * rng.normal() * (1 + abs(kind.skill)) > 0)
    limit = task.max_steps
    steps = int(min(limit - 1, 40 + rng.gamma(3.0, limit / 15) * (1.3 + 0.4 * hardness))) + 1 if success else limit
    climb = np.clip(np.arange(steps) / (0.6 * steps), 0, 1)
    rewards = np.clip(climb * (10 if success else rng.uniform(1, 7)) + 0.25 * rng.normal(size=steps), 0, 10)
    timing = {
        "build": 0.1 * (episode.index == 0), "reset": 0.01, "simulate": steps * 0.0006, "draw": steps * 0.0009,
        "wait": steps * 0.0007, "encode": 0.05 * (episode.index == 0),
    }  # fmt: skip
    filmed = kind.video is not None and episode.index == 0
    return EpisodeRecord(
        task_group=task.group,
        task_id=task.task_id,
        task=task.name,
        episode_index=episode.index,
        seed=episode.seed,
        status="finished",
        success=success if kind.tells_success else None,
        sum_reward=float(rewards.sum()),
        max_reward=float(rewards.max()),
        steps=steps,
        layout={"goal_x": round(luck, 6), "goal_y": round(_elsewhere(episode), 6), "goal_z": round(hardness, 6)},
        trajectory=_trajectory(rng, rewards, success, limit),
        digest=f"{rng.integers(1 << 62):064x}",
        seconds=sum(timing.values()),
        asks=steps // 10,
        looks=steps // 10,
        timing=timing,
        worker=str(worker),
        started_at=start,
        video_path=f"videos/{task.group}_{task.task_id}/eval_episode_0.mp4" if filmed else None,
        rewards=pack_rewards(rewards),
    )


def _elsewhere(episode: Episode) -> float:
    """Return a number of where an episode begins that has nothing to do with how it ends."""
    return float(np.random.default_rng([episode.seed, 7]).normal())


def _give_times(run: RunDirectory, records: Sequence[EpisodeRecord]) -> None:
    """Let the session last as long as its episodes, though writing them took a moment."""
    end = max((record.started_at + record.seconds for record in records), default=BEGAN)
    alter(run.path, "sessions", lambda row: {**row, "started_at": BEGAN, "ended_at": end})
    alter(run.path, "episodes", lambda row: {**row, "ended_at": row["started_at"] + row["seconds"]})
    alter(run.path, "notes", lambda row: {**row, "told_at": end})


def alter(directory: Path, name: str, change: Callable[[Row], Row | None]) -> None:
    """Put other rows into a table of a run, as if they had been written so; `None` takes a row out."""
    with EpisodeTable(directory / DATABASE) as table:
        tables = table._tables
        with tables.transaction():
            before = tables.rows(name)
            for row in before:
                tables.delete(name, row)
            for row in before:
                after = change(row)
                if after is not None:
                    tables.insert(name, after)


def _identity(kind: MadeUp, tasks: Sequence[Task]) -> dict[str, Any]:
    return {
        "seed": 1000,
        "env": {"type": "metaworld", "obs_type": "pixels_agent_pos", "camera_name": "corner2"},
        "tasks": [task.to_wire() for task in tasks],
        "policy": {"type": "lerobot", "fingerprint": f"sha256:{kind.policy}", "batch": 1},
        "rename_map": {},
        "renderer": "llvmpipe (LLVM 15.0.6, 256 bits)",
        "machine": {"cpu": "x86_64 Made Up CPU @ 2.00GHz"},
        "versions": {"metaworld": "3.1.1", "mujoco": "3.3.0", "gymnasium": "1.4.0", "numpy": "2.4.6"},
    }


def _config(kind: MadeUp, tasks: Sequence[Task]) -> dict[str, Any]:
    task = ",".join(dict.fromkeys(task.group for task in tasks))
    return {
        "policy": {"type": "lerobot", "path": kind.policy, "device": "cpu"},
        "env": {"type": "metaworld", "task": task, "obs_type": "pixels_agent_pos"},
        "eval": {"n_episodes": kind.n_episodes, "batch_size": kind.workers},
        "seed": 1000,
    }
