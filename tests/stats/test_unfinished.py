"""Redistribution to the right: what running episodes count as."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.stats.unfinished import Endings, redistribute

steps = st.integers(1, 50)
several = st.lists(steps, max_size=12)


def one_by_one(successes: list[int], failures: list[int], running: list[int]) -> tuple[float, float]:
    """Efron's own words: from the left, everyone who has not ended hands his weight to all to his right."""
    items = sorted(
        [(age, 0, True) for age in successes]
        + [(age, 0, False) for age in failures]
        + [(age, 1, False) for age in running]
    )
    weights = np.full(len(items), 1 / len(items))
    for place, (_, censored, _) in enumerate(items):
        if censored and any(not later for _, later, _ in items[place + 1 :]):
            weights[place + 1 :] += weights[place] / (len(items) - place - 1)
            weights[place] = 0
    won = sum(w for w, (_, _, success) in zip(weights, items, strict=True) if success)
    return won, sum(w for w, (_, censored, _) in zip(weights, items, strict=True) if censored)


@given(successes=several, failures=several, running=several)
def test_it_is_what_handing_weights_on_one_by_one_comes_to(
    successes: list[int], failures: list[int], running: list[int]
) -> None:
    found = redistribute(Endings(successes, failures), running)
    expected = one_by_one(successes, failures, running) if successes + failures + running else (0.0, 0.0)
    assert found == pytest.approx(expected)


@given(successes=several, failures=several)
def test_with_nothing_running_it_is_k_of_n(successes: list[int], failures: list[int]) -> None:
    n = len(successes) + len(failures)
    assert redistribute(Endings(successes, failures), []).success == pytest.approx(len(successes) / n if n else 0)


def test_one_that_has_outlasted_a_task_is_judged_by_the_whole_run() -> None:
    task, run = Endings([5, 6]), Endings([5, 6, 30], [40, 40, 40])
    for ages, elsewhere, expected in (
        ([10], None, (2 / 3, 1 / 3)),
        ([10], run, ((2 + 1 / 4) / 3, 0.0)),
        ([45], run, (2 / 3, 1 / 3)),
    ):
        assert tuple(redistribute(task, ages, elsewhere)) == pytest.approx(expected)
