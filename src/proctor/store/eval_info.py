"""`eval_info.json`: LeRobot's exact schema, and beside it what LeRobot does not say.

LeRobot's keys are `per_task`, `per_group` and `overall`; its lists hold finished episodes in index order.
Ours are `per_episode`, `errors`, `intervals`, `timing`, `versions` and `run`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from proctor.benchmarks.protocol import Task
from proctor.stats.intervals import CONFIDENCE, Rate
from proctor.stats.macro import clustered, stratified
from proctor.store.records import SPANS, EpisodeRecord, rate_if_errors_failed, success_rate
from proctor.store.videos import video_place

_PER_EPISODE = (
    "task_group", "task_id", "task", "episode_index", "seed", "status", "success", "sum_reward", "max_reward",
    "steps", "metrics", "attempts", "seconds", "digest", "video_path", "error",
)  # fmt: skip


def build_eval_info(
    tasks: Sequence[Task],
    records: Sequence[EpisodeRecord],
    *,
    directory: Path,
    wall_seconds: float,
    startup_seconds: float,
    versions: dict[str, str],
    run: dict[str, Any],
) -> dict[str, Any]:
    """Return the whole document as plain values."""
    order = {(task.group, task.task_id): place for place, task in enumerate(tasks)}
    ordered = sorted(records, key=lambda record: (order[record.key[:2]], record.episode_index))
    by_task = {task: [r for r in ordered if r.key[:2] == (task.group, task.task_id)] for task in tasks}
    groups = list(dict.fromkeys(task.group for task in tasks))
    by_group = {group: [r for r in ordered if r.task_group == group] for group in groups}
    overall = _aggregate(ordered, directory)
    finished = overall["n_episodes"]
    return {
        "per_task": [
            {"task_group": task.group, "task_id": task.task_id, "metrics": _metrics(by_task[task], directory)}
            for task in tasks
        ],
        "per_group": {group: _aggregate(by_group[group], directory) for group in groups},
        "overall": {
            **overall,
            "eval_s": wall_seconds,
            "eval_ep_s": wall_seconds / finished if finished else None,
        },
        "per_episode": [{key: getattr(record, key) for key in _PER_EPISODE} for record in ordered],
        "errors": {
            "n_errors": sum(record.status == "error" for record in ordered),
            "pc_success_if_errors_failed": _percent(rate_if_errors_failed(ordered)),
        },
        "intervals": {
            "confidence": CONFIDENCE,
            "method": "wilson",
            "overall": _interval(success_rate(ordered)),
            "per_group": {group: _interval(success_rate(by_group[group])) for group in groups},
            "per_task": [
                {"task_group": task.group, "task_id": task.task_id, "task": task.name}
                | _interval(success_rate(by_task[task]))
                for task in tasks
            ],
            "macro": _macro([success_rate(by_task[task])[:2] for task in tasks]),
        },
        "timing": timing(ordered, wall_seconds, startup_seconds),
        "versions": versions,
        "run": run,
    }


def timing(records: Iterable[EpisodeRecord], wall_seconds: float, startup_seconds: float) -> dict[str, float]:
    """Return where the time went: wall seconds, and worker seconds by span."""
    spans = dict.fromkeys(SPANS, 0.0)
    steps = 0
    for record in records:
        steps += record.steps
        for span in SPANS:
            spans[span] += record.timing.get(span, 0.0)
    return {
        "wall_s": wall_seconds,
        "startup_s": startup_seconds,
        **{f"{span}_s": seconds for span, seconds in spans.items()},
        "steps": steps,
    }


def _metrics(records: Sequence[EpisodeRecord], directory: Path) -> dict[str, Any]:
    finished = [record for record in records if record.status == "finished"]
    return {
        "sum_rewards": [record.sum_reward for record in finished],
        "max_rewards": [record.max_reward for record in finished],
        "successes": [record.success for record in finished],
        "video_paths": _videos(finished, directory),
        "predicted_video_paths": [],
    }


def _aggregate(records: Sequence[EpisodeRecord], directory: Path) -> dict[str, Any]:
    finished = [record for record in records if record.status == "finished"]
    return {
        "avg_sum_reward": _mean(record.sum_reward for record in finished),
        "avg_max_reward": _mean(record.max_reward for record in finished),
        "pc_success": _percent(success_rate(finished)),
        "n_episodes": len(finished),
        "video_paths": _videos(finished, directory),
        "predicted_video_paths": [],
    }


def _videos(records: Iterable[EpisodeRecord], directory: Path) -> list[str]:
    return [str(directory / video_place(record.key)) for record in records if record.video_path]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _percent(rate: Rate) -> float | None:
    return None if rate.value is None else 100 * rate.value


def _macro(counts: Sequence[tuple[int, int]]) -> dict[str, Any] | None:
    """The average over tasks, each counting alike: for these tasks, and for others of their kind."""
    inside, across = stratified(counts), clustered(counts)
    if inside is None:
        return None
    return {
        "value": inside.value,
        "n_tasks": sum(episodes > 0 for _, episodes in counts),
        "stratified": {"low": inside.low, "high": inside.high},
        "clustered": None if across is None else {"low": across.low, "high": across.high},
    }


def _interval(rate: Rate) -> dict[str, Any]:
    return {"successes": rate.successes, "n_episodes": rate.episodes, "low": rate.low, "high": rate.high}
