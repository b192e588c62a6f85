"""`eval_info.json`: LeRobot's exact schema, and beside it what LeRobot does not say.

LeRobot's keys are `per_task`, `per_group` and `overall`; its lists hold finished episodes in index order.
Ours are `per_episode`, `errors`, `intervals`, `timing`, `versions` and `run`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from proctor.results import Result, Results, task_key
from proctor.stats.intervals import CONFIDENCE, Rate
from proctor.stats.macro import clustered, stratified
from proctor.store.records import SPANS, EpisodeRecord
from proctor.store.videos import video_place

_PER_EPISODE = (
    "task_group", "task_id", "task", "episode_index", "seed", "status", "success", "sum_reward", "max_reward",
    "steps", "metrics", "attempts", "seconds", "digest", "pixel_digest", "video_path", "error",
)  # fmt: skip


def build_eval_info(
    results: Results,
    *,
    directory: Path,
    wall_seconds: float,
    startup_seconds: float,
    versions: dict[str, str],
    run: dict[str, Any],
) -> dict[str, Any]:
    """Return the whole document as plain values."""
    tasks, overall = results.tasks, results.result
    order = {(task.group, task.task_id): place for place, task in enumerate(tasks)}
    ordered = sorted(results.records, key=lambda record: (order[record.key[:2]], record.episode_index))
    by_task = {task: [r for r in ordered if r.key[:2] == task_key(task)] for task in tasks}
    groups = {group: results.result_of(results.in_group(group)) for group in dict.fromkeys(t.group for t in tasks)}
    return {
        "per_task": [
            {"task_group": task.group, "task_id": task.task_id, "metrics": _metrics(by_task[task], directory)}
            for task in tasks
        ],
        "per_group": {
            group: _aggregate(result, (r for r in ordered if r.task_group == group), directory)
            for group, result in groups.items()
        },
        "overall": {
            **_aggregate(overall, ordered, directory),
            "eval_s": wall_seconds,
            "eval_ep_s": wall_seconds / overall.finished if overall.finished else None,
        },
        "per_episode": [{key: getattr(record, key) for key in _PER_EPISODE} for record in ordered],
        "errors": {
            "n_errors": overall.errors,
            "pc_success_if_errors_failed": _percent(overall.if_errors_failed),
        },
        "intervals": {
            "confidence": CONFIDENCE,
            "method": "wilson",
            "overall": {**_interval(overall.rate), "method": results.method},
            "per_group": {group: _interval(result.rate) for group, result in groups.items()},
            "per_task": [
                {"task_group": task.group, "task_id": task.task_id, "task": task.name}
                | _interval(results.of([task_key(task)]))
                for task in tasks
            ],
            "macro": _macro(results.counts() or ()),
        },
        "timing": timing(ordered, wall_seconds, startup_seconds),
        "versions": versions,
        "run": {**run, "estimate": _estimate(overall.rate)},
    }


def _estimate(rate: Rate) -> dict[str, Any] | None:
    """What the rates of a run are in which episodes were cut short, or are running; `None` if they are k / n."""
    if not rate.running:
        return None
    return {
        "method": "redistributed",
        "ended": rate.episodes,
        "running": rate.running,
        "undetermined": rate.undetermined,
        "pc_success_ended": 100 * rate.successes / rate.episodes if rate.episodes else None,
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


def _aggregate(result: Result, records: Iterable[EpisodeRecord], directory: Path) -> dict[str, Any]:
    return {
        "avg_sum_reward": result.reward,
        "avg_max_reward": result.best_reward,
        "pc_success": _percent(result.rate),
        "n_episodes": result.finished,
        "video_paths": _videos((record for record in records if record.status == "finished"), directory),
        "predicted_video_paths": [],
    }


def _videos(records: Iterable[EpisodeRecord], directory: Path) -> list[str]:
    return [str(directory / video_place(record.key)) for record in records if record.video_path]


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
    return {
        "successes": rate.successes,
        "n_episodes": rate.episodes,
        "running": rate.running,
        "value": rate.value,
        "low": rate.low,
        "high": rate.high,
    }
