"""`eval_info.json`: LeRobot's exact schema, and beside it what LeRobot does not say.

LeRobot's keys are `per_task`, `per_group` and `overall`; its lists hold finished episodes in index order.
Ours are `per_episode`, `errors`, `intervals`, `timing`, `versions` and `run`. Of a run with too many episodes
to be listed (`MOST_LISTED`) all that has an entry for each is null, and `left_out` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from proctor.results import Aggregate, ScoredRun, TaskKey, task_key
from proctor.stats.intervals import CONFIDENCE, INTERVAL, Rate
from proctor.stats.macro import clustered, stratified
from proctor.store.filesystem import write_json
from proctor.store.schema import RESULT_COLUMNS, EpisodeRecord
from proctor.store.stored_run import MOST_LISTED
from proctor.store.videos import video_place

_LEFT_OUT = (
    f"{{:,}} episodes: above {MOST_LISTED:,} they are not listed here. per_episode, the lists of per_task and all "
    "video_paths are null; every episode is a row of the table episodes in run.sqlite."
)


def write_eval_info(run: ScoredRun) -> dict[str, Any]:
    """Write the result of a run into its directory; returns what was written. Raises `StoreError`."""
    with run.table():
        info = eval_info(run)
    write_json(run.directory.result, info)
    return info


def eval_info(run: ScoredRun) -> dict[str, Any]:
    """Return the whole document as plain values."""
    results, records, identity, shard = run.results, run.records, run.identity, run.directory.shard
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
                "metrics": _metrics(chosen([task_key(task)]), run.path),
            }
            for task in tasks
        ],
        "per_group": {
            group: _aggregate(found[group], chosen(members), run.path) for group, members in groups.items()
        },
        "overall": {
            **_aggregate(overall, ordered, run.path),
            "eval_s": run.wall,
            "eval_ep_s": run.wall / overall.finished if overall.finished else None,
        },
        "per_episode": ordered and [{key: getattr(record, key) for key in RESULT_COLUMNS} for record in ordered],
        **({} if listed is not None else {"left_out": _LEFT_OUT.format(len(records))}),
        "errors": {
            "n_errors": overall.errors,
            "pc_success_if_errors_failed": _percent(overall.if_errors_failed),
        },
        "intervals": {
            "confidence": CONFIDENCE,
            "method": INTERVAL,
            "overall": {**_interval(overall.rate), "method": results.method},
            "per_group": {group: _interval(result.rate) for group, result in found.items()},
            "per_task": [
                {"task_group": task.group, "task_id": task.task_id, "task": task.name}
                | _interval(results.of([task_key(task)]))
                for task in tasks
            ],
            "macro": _macro(results.counts() or ()),
        },
        "timing": {
            "wall_s": run.wall,
            "startup_s": run.startup,
            **{f"{span}_s": seconds for span, seconds in results.seconds_by_span().items()},
            "steps": results.steps,
        },
        "versions": {
            **identity["versions"],
            **({"gl_renderer": identity["renderer"]} if identity["renderer"] else {}),
            "cpu": identity["machine"]["cpu"],
        },
        "run": {
            "complete": run.complete,
            "n_planned": len(run.planned),
            "n_repeated": run.planned.n_repeated,
            "stopped": run.stopped,
            "ending": run.ending,
            "shard": shard and {"id": shard.number, "of": shard.of},
            "seed": identity["seed"],
            "reproducible": run.reproducible,
            **run.labels,
            "identity": identity,
            "estimate": _estimate(overall.rate),
        },
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


def _metrics(records: Sequence[EpisodeRecord] | None, directory: Path) -> dict[str, Any]:
    finished = records and [record for record in records if record.status == "finished"]
    return {
        "sum_rewards": finished and [record.sum_reward for record in finished],
        "max_rewards": finished and [record.max_reward for record in finished],
        "successes": finished and [record.success for record in finished],
        "video_paths": _videos(finished, directory),
        "predicted_video_paths": [],
    }


def _aggregate(result: Aggregate, records: Sequence[EpisodeRecord] | None, directory: Path) -> dict[str, Any]:
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
