"""An interval that is shown holds the truth as often as it says: evaluations are played whose truth is known.

`benchmarks/error_rates.py` prints the tables of docs/statistics.md from more of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from proctor.stats.macro import stratified
from proctor.stats.sequential import PrecisionRule, at_the_stop

RUNS = 500
SLACK = 3 * (0.95 * 0.05 / RUNS) ** 0.5

TASKS: dict[str, Callable[[int], NDArray[np.float64]]] = {
    "alike": lambda tasks: np.full(tasks, 0.6),
    "nearly perfect": lambda tasks: np.full(tasks, 0.97),
    "nearly hopeless": lambda tasks: np.full(tasks, 0.02),
    "from never to always": lambda tasks: np.linspace(0, 1, tasks),
    "easy and hard": lambda tasks: np.where(np.arange(tasks) % 2, 0.1, 0.9),
    "one that may fail": lambda tasks: np.where(np.arange(tasks), 1.0, 0.5),
}


@pytest.mark.parametrize("episodes", [1, 2, 3, 5, 10, 20])
@pytest.mark.parametrize("tasks", [5, 10, 50])
@pytest.mark.parametrize("kind", TASKS)
def test_the_average_over_tasks_is_covered_however_few_episodes_a_task_has(
    kind: str, tasks: int, episodes: int
) -> None:
    rng, rates = np.random.default_rng(11), TASKS[kind](tasks)
    assert covered(rng, rates, np.full(tasks, episodes)) > 0.95 - SLACK


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize(("least", "most"), [(1, 2), (1, 10), (2, 50)])
def test_also_where_errors_or_a_run_that_goes_on_left_tasks_with_unequal_numbers(
    kind: str, least: int, most: int
) -> None:
    rng = np.random.default_rng(12)
    for tasks in (3, 10):
        rates = TASKS[kind](tasks)
        assert covered(rng, rates, np.where(np.arange(tasks), most, least)) > 0.95 - SLACK
        assert covered(rng, rates, np.where(np.arange(tasks), least, most)) > 0.95 - SLACK


def covered(rng: np.random.Generator, rates: NDArray[np.float64], episodes: NDArray[np.int_]) -> float:
    truth, hits = float(rates.mean()), 0
    for row in rng.binomial(episodes, rates, (RUNS, len(rates))).tolist():
        shown = stratified(list(zip(row, episodes.tolist(), strict=True)))
        assert shown is not None
        assert shown.low <= shown.value <= shown.high
        hits += shown.low - 1e-12 <= truth <= shown.high + 1e-12
    return hits / RUNS


@pytest.mark.parametrize("bound", [0.1, 0.15, 0.2, 0.25, 0.3, 0.4])
@pytest.mark.parametrize("rate", [0.5, 0.8, 0.95, 0.985, 0.05])
def test_the_interval_of_a_run_that_stopped_when_its_rate_was_known_holds_that_rate(
    bound: float, rate: float
) -> None:
    rng, hits = np.random.default_rng(13), 0
    for _ in range(RUNS):
        rule = PrecisionRule(bound, interval=at_the_stop)
        while not rule.add(bool(rng.random() < rate)):
            pass
        known = rule.rate
        assert (known.high - known.low) / 2 <= bound
        hits += known.low <= rate <= known.high
    assert hits / RUNS > 0.95 - SLACK
