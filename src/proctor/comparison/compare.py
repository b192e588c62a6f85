"""From two or more run directories to verdicts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path
from typing import Any, Protocol

from proctor.comparison.pairing import RunSample, TaskPair, match, read_sample
from proctor.comparison.result import (
    Circumstance,
    Comparison,
    ComparisonRow,
    Comparisons,
    Disagreement,
    Kind,
    Verdict,
)
from proctor.config.settings import comma_list
from proctor.errors import UsageError, for_python
from proctor.identity import Identity, differences
from proctor.installation import missing_package
from proctor.stats.intervals import ALPHA, success_rate
from proctor.stats.macro import clustered_difference
from proctor.stats.multiple_testing import compact_letters, holm
from proctor.stats.paired import Pairs, compare_pairs, pooled
from proctor.stats.planning import paired_episodes, unpaired_episodes
from proctor.stats.unpaired import compare_rates
from proctor.store.outcomes import ERROR, SUCCESS
from proctor.store.stored_run import MOST_LISTED
from proctor.types import Task

# What a policy is, and how it is fitted to the benchmark, differs on purpose; pairing sees to tasks and seeds.
_EXPECTED = ("policy", "rename_map", "tasks", "spec", "seed")
_CHOOSES_TASKS = ("task_ids",)
_MOST_TASKS = 3


@for_python({"tasks": "tasks", "alpha": "alpha"})
def compare(
    first: str | os.PathLike[str],
    second: str | os.PathLike[str],
    *,
    tasks: str | Sequence[str] | None = None,
    alpha: float = ALPHA,
) -> Comparison:
    """Compare a run with a baseline, on the seeds that they share. Needs scipy.

    Args:
        first: the baseline: a run directory, or what `evaluate` returned.
        second: the run that may be better or worse.
        tasks: names of tasks, also as one text with commas; `None`: all that the runs share.
        alpha: how often equal policies may be called different.

    Raises:
        UsageError: a directory holds no run, or the runs share no task.
    """
    names = comma_list(tasks) if isinstance(tasks, str) else None if tasks is None else list(tasks)
    return compare_many([Path(first), Path(second)], tasks=names, alpha=alpha).comparisons[0]


def compare_many(
    paths: Sequence[Path], *, tasks: Sequence[str] | None = None, alpha: float = ALPHA, all_pairs: bool = False
) -> Comparisons:
    """Compare every run with the first, or each with each; Holm's correction is over all comparisons together."""
    try:
        import scipy.special  # noqa: F401
    except ImportError:
        raise missing_package("comparing runs", "scipy", "stats") from None
    if not 0 < alpha < 1:
        raise UsageError(f"--alpha={alpha}: expected a number between 0 and 1, such as 0.05.")
    if tasks is not None and not tasks:
        raise UsageError(
            "--tasks is empty. Name tasks that the runs share, or leave it out: then all are compared."
        )
    if len(paths) < 2:
        raise UsageError("name two runs or more: the baseline first.")
    runs = [read_sample(path) for path in paths]
    places = [(a, b) for a, b in combinations(range(len(runs)), 2) if all_pairs or a == 0]
    found = _adjusted([_judge(runs[a], runs[b], tasks or (), alpha) for a, b in places], alpha)
    return Comparisons(runs, found, _letters(runs, places, found) if all_pairs else None, alpha)


def _judge(first: RunSample, second: RunSample, wanted: Sequence[str], alpha: float) -> Comparison:
    tasks = match(first, second, wanted)
    shared = [task for task in tasks if len(task.shared()[0])]
    paired = bool(shared)
    judged = shared if paired else tasks
    if not judged:
        raise UsageError(f"{first.shown} and {second.shown} share no task on which both finished an episode.")
    rows = [_row("task", task.name, task.group, [task], paired, alpha) for task in judged]
    groups = list(dict.fromkeys(task.group for task in judged))
    for group in groups:
        members = [task for task in judged if task.group == group]
        if 1 < len(members) < len(judged):
            rows.append(_row("group", group, group, members, paired, alpha))
    rows.append(_row("overall", "all", "", judged, paired, alpha))
    return Comparison(
        first=first,
        second=second,
        paired=paired,
        rows=rows,
        disagreements=list(islice(_disagreements(judged), MOST_LISTED)) if paired else [],
        left_out=sum(_left_out(task) for task in tasks),
        circumstances=differing(first, second),
        notes=_notes(first, second, paired, None if wanted else len(tasks)),
        alpha=alpha,
    )


def _row(
    kind: Kind, name: str, group: str, tasks: Sequence[TaskPair], paired: bool, alpha: float
) -> ComparisonRow:
    pairs: Pairs | None = None
    if paired:
        parts = [task.pairs() for task in tasks]
        pairs = pooled(parts)
        first = success_rate(pairs.both + pairs.first, pairs.episodes, 1 - alpha)
        second = success_rate(pairs.both + pairs.second, pairs.episodes, 1 - alpha)
        compared = compare_pairs(pairs, alpha)
        apart = [(part.second - part.first) / part.episodes for part in parts]
    else:
        counts = [task.rates() for task in tasks]
        first, second = (
            success_rate(sum(won for won, _ in own), sum(ended for _, ended in own), 1 - alpha)
            for own in zip(*counts, strict=True)
        )
        compared = compare_rates(first[:2], second[:2], alpha)
        rates = [[success_rate(*own).value for own in both] for both in counts]
        apart = [b - a for a, b in rates if a is not None and b is not None]
    return ComparisonRow(
        kind,
        name,
        group,
        len(tasks),
        first,
        second,
        pairs,
        compared.difference,
        compared.p_value,
        elsewhere=clustered_difference(apart, 1 - alpha) if kind == "overall" else None,
    )


def _adjusted(comparisons: Sequence[Comparison], alpha: float) -> list[Comparison]:
    """Return the comparisons with verdicts: rows of one kind are one family, over all comparisons."""
    rows = {(at, place): row for at, one in enumerate(comparisons) for place, row in enumerate(one.rows)}
    for kind in ("task", "group", "overall"):
        family = [key for key, row in rows.items() if row.kind == kind]
        for key, value in zip(family, holm([rows[key].p_value for key in family]), strict=True):
            rows[key] = _verdict(replace(rows[key], adjusted=value), alpha, len(family))
    return [
        replace(one, rows=[rows[at, place] for place in range(len(one.rows))])
        for at, one in enumerate(comparisons)
    ]


def _verdict(row: ComparisonRow, alpha: float, family: int) -> ComparisonRow:
    if row.adjusted <= alpha:
        verdict: Verdict = "better" if row.difference.value > 0 else "worse"
        return replace(row, verdict=verdict)
    # To be told among many, a row must pass the strictest of Holm's steps.
    strict = alpha / family
    if row.pairs is not None:
        disagreement = (row.pairs.first + row.pairs.second) / (row.pairs.episodes or 1)
        return replace(row, needed=paired_episodes(row.difference.value, disagreement, strict))
    rates = row.first.value, row.second.value
    if rates[0] is None or rates[1] is None:
        return row
    return replace(row, needed=unpaired_episodes(rates[0], rates[1], strict))


def _disagreements(tasks: Iterable[TaskPair]) -> Iterator[Disagreement]:
    for task in tasks:
        first, second = task.shared()
        ours, theirs = (states == SUCCESS for states in task.states(first, second))
        for place, other in zip(first[ours != theirs].tolist(), second[ours != theirs].tolist(), strict=True):
            episode = task.runs[0].used.plan[place]
            yield Disagreement(
                task.name,
                episode.index,
                episode.seed,
                "first" if task.runs[0].used["state"][place] == SUCCESS else "second",
                task.runs[0].video(place),
                task.runs[1].video(other),
            )


def _left_out(task: TaskPair) -> int:
    """Return how many episodes both runs have, one of them as an error."""
    ours, theirs = task.states(*task.both())
    return int(((ours == ERROR) | (theirs == ERROR)).sum())


def _notes(first: RunSample, second: RunSample, paired: bool, tasks: int | None) -> list[str]:
    notes = []
    for run in (first, second):
        if run.stopped:
            notes.append(
                f"{run.shown} was stopped early by a rule ({run.stopped}) after {run.used.ended} episodes. "
                "Intervals and tests here assume a number of episodes fixed in advance."
            )
        if not run.complete:
            notes.append(
                f"{run.shown} is incomplete ({run.ended} of {run.planned} episodes). Only the first "
                f"{run.used.ended} of its plan are compared: the others that have ended favour quick successes."
            )
        apart = 0 if tasks is None else len(run.tasks) - tasks
        if apart:
            notes.append(f"{run.shown} has {apart} more {'task' if apart == 1 else 'tasks'}, not compared.")
    if not paired:
        seeds = first.identity["seed"], second.identity["seed"]
        notes.append(
            f"The runs share no episode (seeds {seeds[0]} and {seeds[1]}), so the weaker unpaired test is used. "
            "Run both with the same --seed."
        )
    return notes


class AnyRun(Protocol):
    """A run that says what its results depend on, and which tasks it has."""

    @property
    def identity(self) -> Identity:
        """What its results depend on."""

    @property
    def tasks(self) -> Sequence[Task]:
        """Its tasks."""


def differing(first: AnyRun, second: AnyRun) -> list[Circumstance]:
    """Return what two runs do not share although it may change outcomes: versions, settings, limits, renderer."""
    ours, theirs = _relevant(first.identity), _relevant(second.identity)
    if not (ours["renderer"] and theirs["renderer"]):
        ours["renderer"] = theirs["renderer"] = None  # one policy does not look at pictures
    return [
        *(Circumstance(*difference) for difference in differences(ours, theirs)),
        *_of_tasks("step limit", first, second, lambda task: task.max_steps),
        *_of_tasks("prompt", first, second, lambda task: task.prompt),
    ]


def _relevant(identity: Identity) -> Identity:
    kept = {key: value for key, value in identity.items() if key not in _EXPECTED}
    kept["env"] = {key: value for key, value in identity["env"].items() if key not in _CHOOSES_TASKS}
    kept.setdefault("renderer", None)
    return kept


def _of_tasks(name: str, first: AnyRun, second: AnyRun, read: Callable[[Task], Any]) -> list[Circumstance]:
    theirs: dict[str, list[Any]] = {}
    for task in second.tasks:  # two groups may have a task of one name
        theirs.setdefault(task.name, []).append(read(task))
    apart = [
        Circumstance(f"{name} of {task.name}", repr(read(task)), repr(theirs[task.name][0]))
        for task in first.tasks
        if task.name in theirs and read(task) not in theirs[task.name]
    ]
    if len(apart) > _MOST_TASKS:
        shown = apart[0]
        return [shown._replace(name=f"{shown.name} and of {len(apart) - 1} other tasks")]
    return apart


def _letters(
    runs: Sequence[RunSample], places: Sequence[tuple[int, int]], comparisons: Sequence[Comparison]
) -> list[str]:
    order = sorted(range(len(runs)), key=lambda place: -(runs[place].rate().value or 0.0))
    rank = {place: at for at, place in enumerate(order)}
    told = {
        (min(rank[a], rank[b]), max(rank[a], rank[b]))
        for (a, b), comparison in zip(places, comparisons, strict=True)
        if comparison.verdict != "cannot tell"
    }
    letters = compact_letters(len(runs), told)
    return [letters[rank[place]] for place in range(len(runs))]
