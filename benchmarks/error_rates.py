"""Do Proctor's intervals and tests hold what they say? Simulated evaluations, whose truth is known.

    python benchmarks/error_rates.py [--runs=10000] [--seed=0]

Prints, as Markdown: how often intervals cover the truth, how often tests call equal policies different and find
real differences, the same for rules that stop a run while it goes on, and how far off the rate of a run is that is
not complete. Some minutes on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from incomplete_runs import HEADINGS, INCOMPLETE, incomplete_rows
from numpy.typing import NDArray
from simulated import Flags, Played, Tallies, outcomes, play, says_better, tally
from stop_chances import stopped

from proctor.stats.intervals import ALPHA, Estimate, Rate, clopper_pearson, wilson
from proctor.stats.macro import clustered, stratified
from proctor.stats.multiple_testing import holm
from proctor.stats.paired import Pairs, compare_pairs, mcnemar, tango
from proctor.stats.planning import paired_episodes
from proctor.stats.sequential import Interval, anytime, at_the_stop
from proctor.stats.unpaired import barnard, newcombe

Row = Sequence[str | int | float]


def table(title: str, headings: Sequence[str], rows: Sequence[Row]) -> None:
    print(f"\n**{title}**\n\n| {' | '.join(headings)} |\n|{'---|' * len(headings)}")
    for row in rows:
        print(f"| {' | '.join(f'{cell:.3f}' if isinstance(cell, float) else str(cell) for cell in row)} |")


def covers(rng: np.random.Generator, make: Callable[[int, int], Rate], p: float, n: int, runs: int) -> float:
    """Return how often an interval for one rate holds the truth."""
    counts, times = np.unique(rng.binomial(n, p, runs), return_counts=True)
    held = [(rate := make(int(k), n)).low <= p <= rate.high for k in counts]
    return float(np.dot(held, times) / runs)


def rate_rows(rng: np.random.Generator, runs: int) -> list[Row]:
    return [
        (p, n, covers(rng, wilson, p, n, runs), covers(rng, clopper_pearson, p, n, runs))
        for p in (0.5, 0.8, 0.95)
        for n in (10, 50, 200)
    ]


SPREADS = {"Beta(4, 1)": (4, 1), "Beta(0.5, 0.5)": (0.5, 0.5)}


def macro_rows(rng: np.random.Generator, runs: int) -> list[Row]:
    """`stratified` against these tasks' average, `clustered` against that of the tasks they were drawn from."""
    rows: list[Row] = []
    for tasks, n, spread in (
        *((10, n, "Beta(4, 1)") for n in (1, 2, 5, 10, 50)),
        *((50, n, "Beta(4, 1)") for n in (1, 2, 5, 10)),
        *((10, n, "Beta(0.5, 0.5)") for n in (1, 2, 5, 20)),
    ):
        a, b = SPREADS[spread]
        hits = np.zeros(4)
        for _ in range(runs):
            rates = rng.beta(a, b, tasks)
            counts = [(int(k), n) for k in rng.binomial(n, rates)]
            pool = wilson(sum(k for k, _ in counts), tasks * n)
            for place, (interval, truth) in enumerate(
                [
                    (stratified(counts), rates.mean()),
                    (pool, rates.mean()),
                    (clustered(counts), a / (a + b)),
                    (pool, a / (a + b)),
                ]
            ):
                assert interval is not None
                hits[place] += interval.low <= truth <= interval.high
        rows.append((tasks, n, spread, *(float(h) for h in hits / runs)))
    return rows


def task_rates(tasks: int) -> dict[str, NDArray[np.float64]]:
    """Return tasks whose rates are known: alike, different, and such that few episodes say little about them."""
    return {
        "all 0.5": np.full(tasks, 0.5),
        "all 0.95": np.full(tasks, 0.95),
        "all 0.01": np.full(tasks, 0.01),
        "from 0 to 1": np.linspace(0, 1, tasks),
        "half 0.1, half 0.9": np.where(np.arange(tasks) % 2, 0.1, 0.9),
        "one 0.5, the others 1": np.where(np.arange(tasks), 1.0, 0.5),
    }


def stratified_rows(rng: np.random.Generator, runs: int) -> list[Row]:
    """How often `stratified` holds the average of tasks that have so many episodes each, or unequal numbers."""
    rows: list[Row] = []
    for tasks in (5, 10, 50):
        for name, rates in task_rates(tasks).items():
            held: list[float] = []
            for n in (1, 2, 3, 5, 10, 20):
                held.append(covers_average(rng, rates, np.full(tasks, n), runs))
            unequal = np.where(np.arange(tasks), 15, 5)
            rows.append((tasks, name, *held, covers_average(rng, rates, unequal, runs)))
    return rows


def covers_average(
    rng: np.random.Generator, rates: NDArray[np.float64], episodes: NDArray[np.int64], runs: int
) -> float:
    truth, hits = float(rates.mean()), 0
    for row in rng.binomial(episodes, rates, (runs, len(rates))).tolist():
        interval = stratified(list(zip(row, episodes.tolist(), strict=True)))
        assert interval is not None
        hits += interval.low - 1e-12 <= truth <= interval.high + 1e-12
    return hits / runs


def difference_rows(rng: np.random.Generator, runs: int) -> list[Row]:
    @cache
    def by_tango(pairs: Pairs) -> Estimate:
        return tango(pairs)

    @cache
    def as_shown(pairs: Pairs) -> Estimate:
        return compare_pairs(pairs).difference

    rows: list[Row] = []
    for first, second in ((0.7, 0.7), (0.7, 0.8), (0.9, 0.95)):
        for correlation in (0.0, 0.6):
            for n in (20, 50, 200):
                pairs = draw_pairs(rng, first, second, correlation, n, runs)
                apart = second - first
                found = [np.mean([e.low <= apart <= e.high for e in map(f, pairs)]) for f in (by_tango, as_shown)]
                ks = [tuple(k) for k in rng.binomial(n, (first, second), (runs, 2)).tolist()]
                known = {k: newcombe((k[0], n), (k[1], n)) for k in set(ks)}
                free = np.mean([known[k].low <= apart <= known[k].high for k in ks])
                rows.append((first, second, correlation, n, *map(float, found), float(free)))
    return rows


def draw_pairs(
    rng: np.random.Generator, first: float, second: float, correlation: float, n: int, runs: int
) -> list[Pairs]:
    ours, theirs = outcomes(rng, first, second, correlation, (runs, n))
    columns = [(x).sum(axis=1) for x in (ours & theirs, ours & ~theirs, theirs & ~ours, ~ours & ~theirs)]
    return [Pairs(*map(int, row)) for row in zip(*columns, strict=True)]


@cache
def barnard_limit(n: int) -> float:
    """Return the least pooled score with which Barnard's test rejects: its p-value falls with the score."""
    k = np.arange(n + 1)
    scores = np.unique(np.round(_score(k[:, None], k[None, :], n), 9), return_index=True)
    values, places = scores
    low, high = 0, len(values) - 1
    while low < high:
        middle = (low + high) // 2
        k1, k2 = divmod(int(places[middle]), n + 1)
        if barnard((k1, n), (k2, n)) <= ALPHA:
            high = middle
        else:
            low = middle + 1
    return float(values[low])


def _score(k1: NDArray[np.int64], k2: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    pooled = (k1 + k2) / (2 * n)
    spread = np.sqrt(pooled * (1 - pooled) * 2 / n)
    gap = abs(k2 - k1) / n
    found: NDArray[np.float64] = np.divide(gap, spread, out=np.zeros_like(gap), where=spread > 0)
    return found


def comparison_rows(rng: np.random.Generator, runs: int) -> list[Row]:
    judge = cache(lambda pairs: mcnemar(pairs) <= ALPHA)
    rows: list[Row] = []
    for first, second in ((0.7, 0.7), (0.95, 0.95), (0.7, 0.8)):
        for n in (50, 200):
            ks = rng.binomial(n, (first, second), (runs, 2)).T
            free = float(np.mean(_score(ks[0], ks[1], n) >= barnard_limit(n) - 1e-9))
            told = [
                float(np.mean([judge(pairs) for pairs in draw_pairs(rng, first, second, rho, n, runs)]))
                for rho in (0.0, 0.3, 0.6)
            ]
            rows.append(("error" if first == second else "power", first, second, n, *told, free))
    return rows


def family_rows(rng: np.random.Generator, runs: int) -> list[Row]:
    rows: list[Row] = []
    for tasks in (10, 50):
        parts = draw_pairs(rng, 0.7, 0.7, 0.5, 50, runs * tasks)
        test = cache(mcnemar)
        values = np.array([test(pairs) for pairs in parts]).reshape(runs, tasks)
        plain = float((values <= ALPHA).any(axis=1).mean())
        rows.append((tasks, plain, float(np.mean([min(holm(row)) <= ALPHA for row in values.tolist()]))))
    return rows


def planning_rows(rng: np.random.Generator, runs: int) -> list[Row]:
    rows: list[Row] = []
    for first, second, rho in ((0.7, 0.8, 0.0), (0.7, 0.8, 0.6), (0.9, 0.95, 0.5), (0.5, 0.8, 0.5)):
        both = first * second + rho * np.sqrt(first * (1 - first) * second * (1 - second))
        n = paired_episodes(second - first, float(first + second - 2 * both)) or 0
        told = [mcnemar(pairs) <= ALPHA for pairs in draw_pairs(rng, first, second, rho, n, runs)]
        rows.append((first, second, rho, n, float(np.mean(told))))
    return rows


EPISODES = 300


def null_rows(rng: np.random.Generator, runs: int) -> list[Row]:
    """Equal policies, looked at whenever an episode ends: at the prefix, or at all that has ended."""
    mixed = np.tile(np.r_[np.full(5, 0.9), np.full(5, 0.5)], EPISODES // 10)
    cases: list[tuple[str, object, object, float, int]] = [
        ("0.7 and 0.7", 0.7, 0.7, 0.5, 1),
        ("0.5 and 0.5, independent", 0.5, 0.5, 0.0, 1),
        ("10 tasks, 0.9/0.5 and 0.5/0.9", mixed, mixed[::-1], 0.0, 10),
    ]
    rows: list[Row] = []
    for name, first, second, correlation, tasks in cases:
        theirs, ours = outcomes(rng, first, second, correlation, (runs, EPISODES))
        usual = float(peeked(tally(ours, theirs)).mean())
        for workers in (1, 16, 64):
            played = play(rng, ours, workers)
            said = prefix_says(tally(ours, theirs), played, tasks)
            finished = [np.take_along_axis(flags, played.order, axis=1) for flags in (ours, theirs)]
            biased = says_better(tally(*finished), ALPHA).any(axis=1)
            rows.append((name, workers, float(said.mean()), float(biased.mean()), usual))
    return rows


def prefix_says(tallies: Tallies, played: Played, tasks: int) -> Flags:
    """Look whenever an episode ends, at all full rounds that the prefix has come to hold by then."""
    crossed = says_better(tallies, ALPHA)
    crossed[:, np.arange(1, crossed.shape[1] + 1) % tasks > 0] = False
    so_far = np.hstack([np.zeros((len(crossed), 1), bool), np.logical_or.accumulate(crossed, axis=1)])
    return np.asarray(np.take_along_axis(so_far, played.prefix, axis=1).any(axis=1))


def peeked(tallies: Tallies) -> Flags:
    """Return in which runs a usual test, looked at after every episode from the tenth on, ever says "better"."""
    wins, losses = tallies
    said = np.array(
        [
            [won > lost and mcnemar(Pairs(0, lost, won, 0)) <= ALPHA for lost in range(losses.max() + 1)]
            for won in range(wins.max() + 1)
        ]
    )
    return np.asarray(said[wins, losses][:, 9:].any(axis=1))


def saving_rows(rng: np.random.Generator, runs: int) -> list[Row]:
    """Against the pairs that exact McNemar needs, one-sided at the same alpha and with the same power.

    The rule has a power of 0.8 if it is cut off where four runs in five have stopped. The last columns are for
    whoever planned `EPISODES`, not knowing how large the difference would be.
    """
    rows: list[Row] = []
    for first, second in ((0.7, 0.75), (0.7, 0.8), (0.7, 0.85), (0.7, 0.9), (0.5, 0.8), (0.9, 0.95)):
        theirs, ours = outcomes(rng, first, second, 0.5, (runs, 6 * EPISODES))
        said = says_better(tally(ours, theirs), ALPHA)
        when = np.where(said.any(axis=1), said.argmax(axis=1) + 1, 6 * EPISODES)
        both = first * second + 0.5 * float(np.sqrt(first * (1 - first) * second * (1 - second)))
        row: list[str | int | float] = [first, second]
        for power in (0.8, 0.95):
            fixed = paired_episodes(second - first, first + second - 2 * both, 2 * ALPHA, power) or 0
            mean = float(np.minimum(when, np.quantile(when, power)).mean())
            row += [fixed, f"{mean:.0f}", f"{100 * (1 - mean / fixed):.0f} %"]
        spent = np.minimum(when, EPISODES)
        started = np.minimum(EPISODES, begun(play(rng, ours[:, :EPISODES], 16), spent, 16))
        rows.append((*row, float((when <= EPISODES).mean()), f"{spent.mean():.0f}", f"{started.mean():.0f}"))
    return rows


def begun(played: Played, spent: NDArray[np.int64], workers: int) -> NDArray[np.int64]:
    """Return how many episodes have begun when the prefix has come to hold `spent` of them."""
    return np.asarray((played.prefix >= spent[:, None]).argmax(axis=1) + workers)


def wilson_only(successes: int, episodes: int, confidence: float, bound: float) -> Rate:
    return wilson(successes, episodes, confidence)


INTERVALS: Sequence[Interval] = (wilson_only, at_the_stop, anytime)
BOUND = 0.05


def precision_rows() -> list[Row]:
    """Stop when half the interval is at most `BOUND`: is the truth in the interval that is then reported?"""
    rates = np.array([0.5, 0.8, 0.885, 0.95, 0.99])
    found = [stopped(make, BOUND, rates) for make in INTERVALS]
    return [
        (float(p), *(cell for one in found for cell in (float(one.coverage[at]), f"{one.episodes[at]:.0f}")))
        for at, p in enumerate(rates)
    ]


def bound_rows() -> list[Row]:
    """The least coverage at any rate, by the bound, and the mean number of episodes at a rate of 0.8."""
    rates = np.r_[0.8, np.linspace(0.5, 0.999, 500)]
    rows: list[Row] = []
    for bound in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.45):
        found = [stopped(make, bound, rates) for make in INTERVALS]
        cells = [cell for one in found for cell in (float(one.coverage.min()), f"{one.episodes[0]:.0f}")]
        rows.append((f"±{bound:g}", *cells))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng, runs = np.random.default_rng(args.seed), args.runs
    table(
        "Intervals for one rate, 95 %: coverage",
        ["rate", "episodes", "Wilson", "Clopper–Pearson"],
        rate_rows(rng, runs),
    )
    table(
        "Average over tasks, 95 %: coverage",
        [
            "tasks",
            "episodes each",
            "tasks' rates",
            "stratified",
            "Wilson, same tasks",
            "clustered",
            "Wilson, other tasks",
        ],
        macro_rows(rng, runs // 10),
    )
    table(
        "The stratified interval, 95 %: coverage by episodes of each task",
        ["tasks", "rates", *(f"{n} each" for n in (1, 2, 3, 5, 10, 20)), "5 of one, 15 of each other"],
        stratified_rows(rng, runs // 5),
    )
    table(
        "Intervals for a difference, 95 %: coverage",
        ["rate A", "rate B", "correlation", "episodes", "Tango", "as shown", "Newcombe (unpaired)"],
        difference_rows(rng, runs),
    )
    table(
        "Telling two policies apart, alpha 0.05",
        ["", "rate A", "rate B", "episodes", "McNemar, correlation 0", "0.3", "0.6", "Barnard (unpaired)"],
        comparison_rows(rng, runs),
    )
    table(
        "Any of several tasks called different, all equal",
        ["tasks", "each alone", "Holm"],
        family_rows(rng, runs // 10),
    )
    table(
        "Planned for a power of 0.8",
        ["rate A", "rate B", "correlation", "episodes", "power"],
        planning_rows(rng, runs),
    )
    table(
        f'Equal policies, a look after every one of {EPISODES} episodes: how often "better" is said, alpha 0.05',
        ["rates", "workers", "the rule, on the prefix", "on what has finished", "McNemar at every look"],
        null_rows(rng, runs),
    )
    table(
        "A better policy, correlation 0.5: how soon it is shown, alpha 0.05",
        [
            *("rate A", "rate B", "fixed n, power 0.8", "the rule", "saved", "fixed n, power 0.95", "the rule"),
            *("saved", f"{EPISODES} planned: power", "the rule", "begun by 16 workers"),
        ],
        saving_rows(rng, runs),
    )
    table(
        "Stopped when known to ±0.05, 95 %: coverage and mean episodes",
        ["rate", "Wilson", "episodes", "at_the_stop", "episodes", "anytime", "episodes"],
        precision_rows(),
    )
    table(
        "Stopped at wider bounds, 95 %: least coverage at any rate, and mean episodes at 0.8",
        ["bound", "Wilson", "episodes", "at_the_stop", "episodes", "anytime", "episodes"],
        bound_rows(),
    )
    table(INCOMPLETE, HEADINGS, incomplete_rows(runs // 10, args.seed))


if __name__ == "__main__":
    main()
