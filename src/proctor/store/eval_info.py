"""`eval_info.json`: LeRobot's exact schema, and beside it what LeRobot does not say.

LeRobot's keys are `per_task`, `per_group` and `overall`; its lists hold finished episodes in index order.
Ours are `per_episode`, `errors`, `intervals`, `timing`, `versions` and `run`. Of a run with too many episodes
to be listed (`MOST_LISTED`) all that has an entry for each is null, and `left_out` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from proctor.results import Result, Results, TaskKey, task_key
from proctor.stats.intervals import CONFIDENCE, Rate
from proctor.stats.macro import clustered, stratified
from proctor.store.reading import MOST_LISTED, StoredRecords
from proctor.store.schema import SPANS, EpisodeRecord
from proctor.store.videos import video_place

_PER_EPISODE = (
    "task_group", "task_id", "task", "episode_index", "seed", "status", "success", "sum_reward", "max_reward",
    "steps", "metrics", "attempts", "seconds", "digest", "pixel_digest", "video_path", "error",
)  # fmt: skip


_LEFT_OUT = (
    f"{{:,}} episodes: above {MOST_LISTED:,} they are not listed here. per_episode, the lists of per_task and all "
    "video_paths are null; every episode is a row of the table episodes in run.sqlite."
)


def build_eval_info(
    results: Results,
    records: StoredRecords,
    *,
    directory: Path,
    wall_seconds: float,
    startup_seconds: float,
    versions: dict[str, str],
    run: dict[str, Any],
) -> dict[str, Any]:
    """Return the whole document as plain values."""
    tasks, overall = results.tasks, results.result
    listed: dict[TaskKey, list[EpisodeRecord]] | None = None
    if records.listed:
        listed = {task_key(task): records.at(results.places_of([task_key(task)])) for task in tasks}
    groups = {group: results.in_group(group) for group in dict.fromkeys(task.group for task in tasks)}
    found = {group: results.result_of(members) for group, members in groups.items()}

    def chosen(keys: Iterable[TaskKey]) -> list[EpisodeRecord] | None:
        return None if listed is None else [record for key in keys for record in listed[key]]

    ordered = chosen(map(task_key, tasks))
    return {
        "per_task": [
            {
                "task_group": task.group,
                "task_id": task.task_id,
                "metrics": _metrics(chosen([task_key(task)]), directory),
            }
            for task in tasks
        ],
        "per_group": {
            group: _aggregate(found[group], chosen(members), directory) for group, members in groups.items()
        },
        "overall": {
            **_aggregate(overall, ordered, directory),
            "eval_s": wall_seconds,
            "eval_ep_s": wall_seconds / overall.finished if overall.finished else None,
        },
        "per_episode": ordered and [{key: getattr(record, key) for key in _PER_EPISODE} for record in ordered],
        **({} if listed is not None else {"left_out": _LEFT_OUT.format(len(records))}),
        "errors": {
            "n_errors": overall.errors,
            "pc_success_if_errors_failed": _percent(overall.if_errors_failed),
        },
        "intervals": {
            "confidence": CONFIDENCE,
            "method": "wilson",
            "overall": {**_interval(overall.rate), "method": results.method},
            "per_group": {group: _interval(result.rate) for group, result in found.items()},
            "per_task": [
                {"task_group": task.group, "task_id": task.task_id, "task": task.name}
                | _interval(results.of([task_key(task)]))
                for task in tasks
            ],
            "macro": _macro(results.counts() or ()),
        },
        "timing": timing(results, wall_seconds, startup_seconds),
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


def timing(results: Results, wall_seconds: float, startup_seconds: float) -> dict[str, float]:
    """Return where the time went: wall seconds, and worker seconds by span."""
    ended = results.ended
    places = results.places_of(map(task_key, results.tasks))
    return {
        "wall_s": wall_seconds,
        "startup_s": startup_seconds,
        **{f"{span}_s": float(sum(ended[span][places].tolist())) for span in SPANS},
        "steps": int(ended["steps"][places].sum()),
    }


def _metrics(records: Sequence[EpisodeRecord] | None, directory: Path) -> dict[str, Any]:
    finished = records and [record for record in records if record.status == "finished"]
    return {
        "sum_rewards": finished and [record.sum_reward for record in finished],
        "max_rewards": finished and [record.max_reward for record in finished],
        "successes": finished and [record.success for record in finished],
        "video_paths": _videos(finished, directory),
        "predicted_video_paths": [],
    }


def _aggregate(result: Result, records: Sequence[EpisodeRecord] | None, directory: Path) -> dict[str, Any]:
    return {
        "avg_sum_reward": result.reward,
        "avg_max_reward": result.best_reward,
        "pc_success": _percent(result.rate),
        "n_episodes": result.finished,
        "video_paths": _videos(
            records and [record for record in records if record.status == "finished"], directory
        ),
        "predicted_video_paths": [],
    }


def _videos(records: Sequence[EpisodeRecord] | None, directory: Path) -> list[str] | None:
    if records is None:
        return None
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
