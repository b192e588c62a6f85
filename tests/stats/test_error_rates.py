"""The promises that only simulation can check; `benchmarks/error_rates.py` prints all of them with more runs."""

from __future__ import annotations

import error_rates
import numpy as np
import pytest
import stop_chances
from simulated import monte_carlo_error, outcomes, play, says_better, tally

from proctor.stats.intervals import ALPHA, clopper_pearson, wilson
from proctor.stats.sequential import BetterRule, PrecisionRule, at_the_stop


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def test_one_worker_finishes_in_the_plans_order_and_many_finish_successes_first(rng: np.random.Generator) -> None:
    successes = rng.random((50, 120)) < 0.5
    alone, crowd = play(rng, successes, 1), play(rng, successes, 64)
    assert (alone.order == np.arange(120)).all()
    assert (alone.prefix == np.arange(1, 121)).all()
    first = np.take_along_axis(successes, crowd.order, axis=1)[:, :30]
    assert first.mean() > 0.9
    assert (crowd.prefix[:, -1] == 120).all()
    assert (np.diff(crowd.prefix, axis=1) >= 0).all()
    # By definition: all up to there have ended, the next has not.
    for run in range(5):
        ended = set(crowd.order[run, :40].tolist())
        length = int(crowd.prefix[run, 39])
        assert set(range(length)) <= ended
        assert length not in ended


def test_the_simulated_rule_is_the_rule_itself(rng: np.random.Generator) -> None:
    theirs, ours = outcomes(rng, 0.5, 0.75, 0.3, (40, 80))
    said = says_better(tally(ours, theirs), ALPHA)
    for run in range(40):
        rule = BetterRule()
        first = next(
            (
                at
                for at, pair in enumerate(zip(ours[run], theirs[run], strict=True))
                if rule.add(*map(bool, pair)) == "better"
            ),
            None,
        )
        assert first == (int(said[run].argmax()) if said[run].any() else None)


@pytest.mark.parametrize("workers", [1, 16, 64])
def test_peeking_after_every_episode_keeps_the_error_below_alpha_for_any_number_of_workers(
    workers: int, rng: np.random.Generator
) -> None:
    theirs, ours = outcomes(rng, 0.6, 0.6, 0.3, (1000, 150))
    played = play(rng, ours, workers)
    wrong = error_rates.prefix_says(tally(ours, theirs), played, 1)
    assert 0 < wrong.mean() < ALPHA + monte_carlo_error(ALPHA, 1000)
    # The same runs stop wrongly for any number of workers: what is read does not depend on them.
    assert (wrong == says_better(tally(ours, theirs), ALPHA).any(axis=1)).all()


def test_reading_what_has_finished_instead_would_be_wrong_most_of_the_time(rng: np.random.Generator) -> None:
    theirs, ours = outcomes(rng, 0.6, 0.6, 0.3, (300, 150))
    order = play(rng, ours, 64).order
    read = tally(np.take_along_axis(ours, order, 1), np.take_along_axis(theirs, order, 1))
    assert says_better(read, ALPHA).any(axis=1).mean() > 0.9


def test_intervals_for_one_rate_cover_it(rng: np.random.Generator) -> None:
    for p in (0.5, 0.8, 0.95):
        for n in (50, 200):
            assert error_rates.covers(rng, clopper_pearson, p, n, 4000) > 0.95 - monte_carlo_error(0.95, 4000)
            assert error_rates.covers(rng, wilson, p, n, 4000) == pytest.approx(0.95, abs=0.035)


def test_rules_for_precision_cover_the_rate_that_they_report() -> None:
    for _, plain, _, stopped, _, always, _ in error_rates.precision_rows():
        assert isinstance(plain, float)
        assert isinstance(stopped, float)
        assert isinstance(always, float)
        assert stopped > max(0.95, plain - 0.01)
        assert always > 0.97


def test_the_chances_of_stopping_are_those_of_the_rule_itself(rng: np.random.Generator) -> None:
    rates, runs = np.array([0.7]), 4000
    computed = stop_chances.stopped(at_the_stop, 0.2, rates, tasks=3)
    assert sum(place.chances for place in stop_chances.places(at_the_stop, 0.2, rates, 3)) == pytest.approx(1)
    held, spent = 0, 0
    for _ in range(runs):
        rule = PrecisionRule(0.2, tasks=3, interval=at_the_stop)
        while not rule.add(bool(rng.random() < 0.7)):
            pass
        held += rule.rate.low <= 0.7 <= rule.rate.high
        spent += rule.rate.episodes
    assert computed.coverage[0] == pytest.approx(held / runs, abs=monte_carlo_error(0.95, runs))
    assert computed.episodes[0] == pytest.approx(spent / runs, rel=0.02)


def numbers(row: error_rates.Row) -> list[float]:
    return [cell for cell in row if isinstance(cell, float)]


@pytest.mark.slow
def test_every_row_of_the_table_holds_what_it_says(rng: np.random.Generator) -> None:
    runs = 10_000
    slack = monte_carlo_error(0.95, runs)
    for _, _, plain, exact in error_rates.rate_rows(rng, runs):
        assert isinstance(plain, float)
        assert isinstance(exact, float)
        assert exact > 0.95 - slack
        assert plain > 0.91
    for row in error_rates.macro_rows(rng, runs // 10):
        stratified, _, clustered, _ = numbers(row)
        assert stratified > 0.95 - monte_carlo_error(0.95, runs // 10)
        assert clustered > 0.92 - monte_carlo_error(0.95, runs // 10)
    for row in error_rates.stratified_rows(rng, runs // 5):
        assert min(numbers(row)) > 0.93
    for row in error_rates.bound_rows():
        assert min(numbers(row)[1:]) > 0.95
    for row in error_rates.difference_rows(rng, runs):
        tango, shown, newcombe = numbers(row)[-3:]
        assert tango > 0.93
        assert shown >= tango
        assert newcombe > 0.93
    for row in error_rates.comparison_rows(rng, runs):
        if row[0] == "error":
            assert max(numbers(row)[2:]) < ALPHA + monte_carlo_error(ALPHA, runs)
    for row in error_rates.family_rows(rng, runs // 10):
        assert numbers(row)[1] < ALPHA + monte_carlo_error(ALPHA, runs // 10)
    for row in error_rates.planning_rows(rng, runs):
        assert numbers(row)[-1] > 0.8 - monte_carlo_error(0.8, runs)
    for row in error_rates.null_rows(rng, runs):
        assert numbers(row)[0] < ALPHA
    for row in error_rates.saving_rows(rng, runs):
        assert int(str(row[7]).removesuffix(" %")) > 0
