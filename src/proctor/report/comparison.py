"""A comparison of runs, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from string import ascii_uppercase

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from proctor.comparison.result import Comparison, Comparisons, Disagreement, Row, Verdict
from proctor.comparison.runs import StoredRun
from proctor.report.console import count, printable
from proctor.report.summary import TASKS_FOR_OTHERS, interval
from proctor.stats.intervals import Estimate
from proctor.stats.paired import NO_PAIRS

_STYLES: dict[Verdict, str] = {"better": "green", "worse": "red", "cannot tell": "dim"}
_MOST_SEEDS = 8
_VIDEO = "    "
_WIDE, _NARROW, _TINY = 96, 72, 60
"""Columns of a terminal: from where on there is room for a frame, and below which intervals, then hints, go."""


def print_comparisons(console: Console, found: Comparisons) -> None:
    """Print the runs, then each comparison: warnings, table, verdict, seeds."""
    names = letters(found.runs)
    tests = sum(row.kind == "task" for one in found.comparisons for row in one.rows)
    console.print(_runs(found, names))
    for note in dict.fromkeys(note for one in found.comparisons for note in one.notes):
        console.print(Text(note, style="yellow"))
    for one in found.comparisons:
        first, second = names[found.runs.index(one.first)], names[found.runs.index(one.second)]
        console.print()
        for line in warnings(one, first, second):
            console.print(Text(line, style="yellow"))
        console.print(Text(scope(one, first, second)))
        console.print(_table(one, first, second, console.width, len(found.comparisons)))
        style = _STYLES[one.verdict].replace("dim", "")
        console.print(Text(sentence(one, first, second, len(found.comparisons)), style=f"bold {style}".strip()))
        for line in asides(one, tests):
            console.print(Text(line))
        for line in _seeds(one, first, second):
            console.print(Text(line), soft_wrap=line.startswith(_VIDEO))  # a path must be whole


def letters(runs: Sequence[StoredRun]) -> list[str]:
    """Return the runs' short names: A, B, ... or R1, R2, ... where there are too many."""
    return list(ascii_uppercase[: len(runs)]) if len(runs) <= 26 else [f"R{n + 1}" for n in range(len(runs))]


def _runs(found: Comparisons, names: Sequence[str]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    table.add_column(no_wrap=True)
    if found.letters is not None:
        table.add_column(no_wrap=True, style="bold")
    for place, (name, run) in enumerate(zip(names, found.runs, strict=True)):
        rate = run.rate(1 - found.alpha)
        shown = "" if rate.value is None else f"{100 * rate.value:.1f} % ({interval(rate)})"
        last = [] if found.letters is None else [found.letters[place]]
        table.add_row(name, Text(str(run.path)), Text(run.policy), shown, *last)
    return table


def warnings(one: Comparison, first: str, second: str) -> Iterator[str]:
    """Say in what two runs differ besides their policies."""
    if one.circumstances:
        yield f"{first} and {second} differ in more than the policy; the difference may come from that:"
    for found in one.circumstances:
        yield f"  {found.name}: {first} has {found.first}, {second} has {found.second}"


def scope(one: Comparison, first: str, second: str) -> str:
    """Say which episodes are compared."""
    left_out = f"; {count(one.left_out, 'episode')} left out that {first} or {second} could not run" * (
        one.left_out > 0
    )
    if one.paired:
        return (
            f"{second} against {first}: {count(one.overall.episodes, 'shared episode')} (task, index and seed)"
            f"{left_out}; they disagree on {one.n_disagreements}."
        )
    return (
        f"{second} against {first}: {one.overall.second.episodes} against {one.overall.first.episodes} episodes, "
        f"none shared{left_out}."
    )


def _table(one: Comparison, first: str, second: str, width: int, comparisons: int) -> Table:
    narrow = width < _NARROW
    with_more = width >= _TINY and any(row.more for row in one.rows)
    table = (
        Table(header_style="bold")
        if width >= _WIDE
        else Table(header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    )
    table.add_column("task", overflow="fold")
    headings = [] if narrow else ["n"]
    headings += [first, second, f"{second}-{first}"]
    headings += [] if narrow else [f"{percent(1 - one.alpha)} interval"]
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    if with_more:
        table.add_column("more", justify="right", no_wrap=True)
    kind = "task"
    for row in one.rows:
        if row.kind != kind:
            table.add_section()
            kind = row.kind
        if row.kind == "overall" and sum(other.kind == "task" for other in one.rows) == 1 and comparisons == 1:
            continue  # the only task is all there is
        cells = [] if narrow else [episodes(row)]
        cells += [rate(row.first.value), rate(row.second.value), points(row.difference.value)]
        cells += [] if narrow else [spread(row.difference)]
        table.add_row(
            printable(f"group {row.name}" if row.kind == "group" else row.name),
            *cells,
            Text(row.verdict, style=_STYLES[row.verdict]),
            *([more(row)] if with_more else []),
            style="" if row.kind == "task" else "bold",
        )
    return table


def sentence(one: Comparison, first: str, second: str, comparisons: int) -> str:
    """Say what came of it over all tasks."""
    row = one.overall
    found = f"{points(row.difference.value)} points ({spread(row.difference)})"
    value = f"p = {row.adjusted:.2g}" + (f", Holm over {comparisons} comparisons" if comparisons > 1 else "")
    if row.verdict != "cannot tell":
        return f"{second} is {row.verdict} than {first}: {found}, {value}."
    text = f"Cannot tell whether {second} is better than {first}: {found}, {value}."
    if row.needed is None:
        return f"{text} No difference was seen."
    each = ceil(row.needed / row.tasks)
    return (
        f"{text} If that is the true difference, about {row.more:,} more episodes of each would tell "
        f"(--eval.n_episodes={each})."
    )


def asides(one: Comparison, tests: int) -> Iterator[str]:
    """Say what the table's figures mean, where that is not plain."""
    if tests > 1:
        yield f"Verdicts of the tasks are corrected for {tests} of them (Holm); intervals are for each row alone."
    elsewhere = one.overall.elsewhere
    if elsewhere is not None and one.overall.tasks >= TASKS_FOR_OTHERS:
        yield (
            f"On other tasks of this kind: {points(elsewhere.value)} points ({spread(elsewhere)}), "
            "as these tasks differ among themselves."
        )


def _seeds(one: Comparison, first: str, second: str) -> Iterator[str]:
    pairs = one.overall.pairs or NO_PAIRS
    for winner, wins, name, other in (
        ("second", pairs.second, second, first),
        ("first", pairs.first, first, second),
    ):
        seeds = [found for found in one.disagreements if found.winner == winner]
        if not seeds:
            continue
        yield f"Only {name} succeeded, {other} did not ({wins}):"
        for found in seeds[:_MOST_SEEDS]:
            yield f"  {found.task} episode {found.episode_index} (seed {found.seed})"
            for whose, video in videos(found, first, second):
                yield f"{_VIDEO}{whose} {video}"
        if wins > _MOST_SEEDS:
            has = (
                "all" if one.n_disagreements == len(one.disagreements) else f"the first {len(one.disagreements):,}"
            )
            yield f"  and {wins - _MOST_SEEDS} more; --json has {has}"


def videos(found: Disagreement, first: str, second: str) -> list[tuple[str, str]]:
    """Return whose videos there are of an episode, and where."""
    both = ((first, found.first_video), (second, found.second_video))
    return [(name, str(video)) for name, video in both if video is not None]


def rate(value: float | None) -> str:
    """Return a rate in percent, without the sign."""
    return "–" if value is None else f"{100 * value:.1f}"


def points(value: float) -> str:
    """Return a difference in percentage points."""
    return f"{100 * value:+.1f}"


def spread(estimate: Estimate) -> str:
    """Return an interval in percentage points."""
    return f"{points(estimate.low)} to {points(estimate.high)}"


def percent(share: float) -> str:
    """Return a share as people say it.

    >>> percent(0.95), percent(0.999)
    ('95 %', '99.9 %')
    """
    return f"{100 * share:.6g} %"


def episodes(row: Row) -> str:
    """Return how many episodes a row is about."""
    same = row.first.episodes == row.second.episodes
    return str(row.episodes) if same else f"{row.first.episodes}/{row.second.episodes}"


def more(row: Row) -> str:
    """Return how many more episodes would tell."""
    return "" if row.more is None else f"{row.more:,}"
