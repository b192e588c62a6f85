"""Which numbers trackers are told. Rates are in percent, as LeRobot's `pc_success` is."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from proctor.engine.evaluation import Evaluation
from proctor.events import Progress
from proctor.results import task_key
from proctor.stats.intervals import Rate
from proctor.store.outcomes import SUCCESS
from proctor.store.videos import video_file

MOST_VIDEOS = 16


def live_values(progress: Progress) -> dict[str, float]:
    """Return where a run stands; the rate is the estimate over all that was started, once there is one."""
    seconds = progress.seconds or 1.0
    return {
        **(_rate("live", progress.rate) if progress.rate is not None else {}),
        "live/errors": progress.errors,
        "live/episodes_per_s": progress.episodes_here / seconds,
        "live/steps_per_s": progress.steps / seconds,
        "live/workers_busy": progress.busy,
    }


def final_values(evaluation: Evaluation) -> dict[str, float]:
    """Return the result: overall, by task and by group."""
    results, info = evaluation.results, evaluation.info
    values: dict[str, Any] = {
        **_rate("eval", results.overall),
        "eval/n_errors": results.result.errors,
        "eval/pc_success_if_errors_failed": _percent(results.result.if_errors_failed.value),
    }
    if info:
        overall = info["overall"]
        values |= {f"eval/{name}": overall[name] for name in ("avg_sum_reward", "avg_max_reward", "eval_s")}
    for task in results.tasks:
        values |= _rate(f"task/{task.name}", results.of([task_key(task)]))
    groups = dict.fromkeys(task.group for task in results.tasks)
    if len(groups) < len(results.tasks):
        for group in groups:
            values |= _rate(f"group/{group}", results.of_group(group))
    return {name: float(value) for name, value in values.items() if value is not None}


def videos_of(evaluation: Evaluation) -> list[Path]:
    """Return some of a run's videos, failures first."""
    ended = evaluation.results.ended
    names = {task_key(task): task.name for task in evaluation.results.tasks}
    filmed = sorted(ended.filmed, key=lambda key: (ended.state(key) == SUCCESS, names[key[:2]], key.episode_index))
    found = (video_file(evaluation.directory, key) for key in filmed)
    return list(itertools.islice(filter(None, found), MOST_VIDEOS))


def _rate(name: str, rate: Rate) -> dict[str, Any]:
    if rate.value is None:
        return {}
    return {
        f"{name}/pc_success": _percent(rate.value),
        f"{name}/pc_success_low": _percent(rate.low),
        f"{name}/pc_success_high": _percent(rate.high),
        f"{name}/n_episodes": rate.episodes,
    }


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
