"""Which numbers trackers are told. Rates are in percent, as LeRobot's `pc_success` is."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from proctor.engine.evaluation import Evaluation
from proctor.engine.events import Progress
from proctor.stats.intervals import Rate
from proctor.store.records import EpisodeRecord, rate_if_errors_failed, success_rate
from proctor.store.videos import video_file

MOST_VIDEOS = 16


def live_values(progress: Progress) -> dict[str, float]:
    """Return where a run stands; the rate is that of the finished prefix of the plan."""
    seconds = progress.seconds or 1.0
    return {
        **_rate("live", progress.prefix),
        "live/errors": progress.errors,
        "live/episodes_per_s": progress.episodes_here / seconds,
        "live/steps_per_s": progress.steps / seconds,
        "live/workers_busy": progress.busy,
    }


def final_values(evaluation: Evaluation) -> dict[str, float]:
    """Return the result: overall, by task and by group."""
    records, info = evaluation.records, evaluation.info
    values: dict[str, Any] = {
        **_rate("eval", success_rate(records)),
        "eval/n_errors": sum(record.status == "error" for record in records),
        "eval/pc_success_if_errors_failed": _percent(rate_if_errors_failed(records).value),
    }
    if info:
        overall = info["overall"]
        values |= {f"eval/{name}": overall[name] for name in ("avg_sum_reward", "avg_max_reward", "eval_s")}
    tasks = dict.fromkeys(
        (episode.task.group, episode.task.task_id, episode.task.name) for episode in evaluation.plan
    )
    for group, task_id, name in tasks:
        values |= _of(f"task/{name}", (r for r in records if r.key[:2] == (group, task_id)))
    groups = dict.fromkeys(group for group, _, _ in tasks)
    if len(groups) < len(tasks):
        for group in groups:
            values |= _of(f"group/{group}", (r for r in records if r.task_group == group))
    return {name: float(value) for name, value in values.items() if value is not None}


def videos_of(evaluation: Evaluation) -> list[Path]:
    """Return some of a run's videos, failures first."""
    filmed = [record for record in evaluation.records if record.video_path is not None]
    filmed.sort(key=lambda record: (bool(record.success), record.task, record.episode_index))
    found = (video_file(evaluation.directory, record) for record in filmed)
    return list(itertools.islice(filter(None, found), MOST_VIDEOS))


def _of(name: str, records: Iterable[EpisodeRecord]) -> dict[str, float | None]:
    known = list(records)
    return _rate(name, success_rate(known)) if known else {}


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
