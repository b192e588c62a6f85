"""Breeze keeps Proctor's contract, and the pilot can fly it."""

import numpy as np
import pytest

import proctor
from proctor_breeze.benchmark import TASKS, Breeze, BreezeSettings


def test_breeze_keeps_the_contract() -> None:
    results = proctor.check_benchmark("breeze", policy="breeze-pilot")
    assert [str(result) for result in results if not result.ok] == []


def test_the_pilot_flies_most_episodes(tmp_path) -> None:
    result = proctor.evaluate(
        "breeze-pilot", benchmark="breeze", n_episodes=10, output_dir=tmp_path, display="none"
    )
    assert result.success_rate.value > 0.8


def test_the_wind_blows() -> None:
    still, windy = (Breeze(BreezeSettings(wind=wind)).make_simulator(TASKS[0]) for wind in (0.0, 1.0))
    for simulator in (still, windy):
        simulator.reset(proctor.Episode(TASKS[0], index=0, seed=7), frozenset())
        simulator.step(np.zeros(2), frozenset({"observation.state"}))
    assert np.all(still.observe()["observation.state"][2:] == 0)
    assert np.any(windy.observe()["observation.state"][2:] != 0)


def test_an_unknown_task_is_refused_in_one_line() -> None:
    with pytest.raises(proctor.UsageError, match=r"--env\.task=swim: Breeze has reach-near"):
        Breeze(BreezeSettings(task="swim")).tasks()
