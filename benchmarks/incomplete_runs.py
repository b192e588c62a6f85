"""How far off is the rate that a run shows while it is not complete? Simulated runs, whose truth is known.

    python benchmarks/incomplete_runs.py [--runs=1000] [--seed=0]

Episodes are handed out by Proctor's own queue to workers that need 40 to 320 steps for a success and 500 for a
failure. Tasks differ in their rates and lengths. Printed as Markdown by `error_rates.py` too.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from proctor.engine.queue import EpisodeQueue, task_key
from proctor.plan import Plan, make_plan
from proctor.results import started_rate
from proctor.stats.unfinished import Endings
from proctor.types import Episode, Task

LIMIT = 500

Row = Sequence[str | int | float]


class Moment(NamedTuple):
    """A run that is interrupted: what is shown, and what would be right."""

    estimate: float | None
    low: float
    high: float
    counted: int
    """How many ended episodes the estimate was taken over."""
    ended: int
    plain: float
    """The rate of those that have ended."""
    prefix: float | None
    """The rate of the plan's finished prefix, and how long that is."""
    prefix_length: int
    started: float
    """The share of all started episodes that succeed in the end."""
    truth: float
    """The mean of the chances with which they do."""


def simulate(
    runs: int, *, tasks: int, per_task: int, workers: int, ended: int, rate: float, seed: int = 0
) -> list[Moment]:
    """Play runs until so many episodes have ended."""
    rng = np.random.default_rng([seed, tasks, workers, ended, round(1000 * rate)])
    plan = make_plan([Task(f"t{n}", 0, f"t{n}", "", LIMIT) for n in range(tasks)], per_task, 0)
    return [_play(rng, plan, tasks, workers, ended, rate) for _ in range(runs)]


class _Life(NamedTuple):
    """One started episode."""

    episode: Episode
    began: float
    speed: float
    steps: int
    success: bool
    chance: float


def _play(rng: np.random.Generator, plan: Plan, tasks: int, workers: int, wanted: int, rate: float) -> Moment:
    names = [f"t{n}" for n in range(tasks)]
    chances = dict(zip(names, rng.beta(4 * rate, 4 * (1 - rate), tasks), strict=True))
    lengths = dict(zip(names, rng.uniform(40, 200, tasks), strict=True))
    queue, lives = EpisodeQueue(plan, plan), list[_Life]()
    events: list[tuple[float, int]] = []

    def start(moment: float, held: tuple[str, int] | None) -> None:
        episode = queue.take(held)
        if episode is None:
            return
        name = episode.task.name
        success = bool(rng.random() < chances[name])
        steps = int(min(LIMIT - 1, lengths[name] * rng.uniform(0.6, 1.6))) if success else LIMIT
        life = _Life(episode, moment, rng.uniform(0.9, 1.1), steps, success, chances[name])
        heapq.heappush(events, (moment + steps * life.speed, len(lives)))
        lives.append(life)

    for _ in range(workers):
        start(rng.uniform(0, 20), None)
    now, over = 0.0, list[_Life]()
    while events and len(over) < wanted:
        now, place = heapq.heappop(events)
        over.append(lives[place])
        queue.ended(lives[place].episode)
        start(now, task_key(lives[place].episode))
    return _moment(plan, lives, over, [lives[place] for _, place in events], now)


def _moment(
    plan: Plan, lives: Sequence[_Life], over: Sequence[_Life], running: Sequence[_Life], now: float
) -> Moment:
    won, lost = ([life.steps for life in over if life.success is outcome] for outcome in (True, False))
    # One that has begun between two ends has made no step yet.
    ages = [max(0, int((now - life.began) / life.speed)) for life in running]
    rate = started_rate(Endings(won, lost), [age for age in ages if age])
    ended = {life.episode.key: life.success for life in over}
    prefix = [ended[one.key] for one in itertools.takewhile(lambda one: one.key in ended, plan)]
    return Moment(
        rate.value,
        rate.low,
        rate.high,
        rate.episodes,
        len(over),
        len(won) / len(over),
        sum(prefix) / len(prefix) if prefix else None,
        len(prefix),
        float(np.mean([life.success for life in lives])),
        float(np.mean([life.chance for life in lives])),
    )


RATES = (0.05, 0.5, 0.95)
CASES = (
    (1, 1, 153), (1, 16, 153), (1, 64, 200), (10, 16, 153), (10, 64, 200),
    (50, 16, 50), (50, 16, 153), (50, 16, 400), (50, 64, 200),
)  # fmt: skip
"""Tasks, workers, and how many of 500 episodes have ended."""
HEADINGS = (
    "tasks", "workers", "ended of 500", "rate", "shown", "bias, points", "covered", "used",
    "bias of the ended alone", "bias of the prefix", "used by the prefix",
)  # fmt: skip


def incomplete_rows(runs: int, seed: int = 0) -> list[Row]:
    """Bias and coverage of what is shown, beside the two plain answers."""
    rows: list[Row] = []
    for tasks, workers, ended in CASES:
        for rate in RATES:
            moments = simulate(
                runs, tasks=tasks, per_task=500 // tasks, workers=workers, ended=ended, rate=rate, seed=seed
            )
            rows.append((tasks, workers, ended, rate, *_cells(moments)))
    return rows


def _cells(moments: Sequence[Moment]) -> list[str | float]:
    told = [(moment, moment.estimate) for moment in moments if moment.estimate is not None]
    prefixes = [moment.prefix - moment.started for moment in moments if moment.prefix is not None]
    share = f"{100 * len(told) / len(moments):.0f} %"
    known: list[str | float] = ["–"] * 3
    if told:
        known = [
            _points([value - moment.started for moment, value in told]),
            float(np.mean([moment.low <= moment.truth <= moment.high for moment, _ in told])),
            f"{100 * np.mean([moment.counted / moment.ended for moment, _ in told]):.0f} %",
        ]
    return [
        share,
        *known,
        _points([moment.plain - moment.started for moment in moments]),
        _points(prefixes) if prefixes else "–",
        f"{100 * np.mean([moment.prefix_length / moment.ended for moment in moments]):.0f} %",
    ]


def _points(differences: Sequence[float]) -> str:
    return f"{100 * float(np.mean(differences)):+.1f}"


def main() -> None:
    from error_rates import table

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    table(INCOMPLETE, HEADINGS, incomplete_rows(chosen.runs, chosen.seed))


INCOMPLETE = "A run that is not complete: the rate that is shown"

if __name__ == "__main__":
    main()
