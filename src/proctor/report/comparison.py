"""A comparison of runs in words: for the terminal, and as Markdown to be pasted into a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from proctor.comparison.result import Comparison, ComparisonRow, Comparisons, Disagreement, Verdict
from proctor.report.console import count, interval, letter, printable
from proctor.report.summary import TASKS_FOR_OTHERS
from proctor.stats.intervals import Estimate
from proctor.stats.paired import NO_PAIRS

_STYLES: dict[Verdict, str] = {"better": "green", "worse": "red", "cannot tell": "dim"}
_SIGNS = {"better": "✅ better", "worse": "❌ worse", "cannot tell": "cannot tell"}
_MOST_SEEDS, _MOST_MARKDOWN_SEEDS = 8, 1000
_OPEN_TABLE = 10
"""Rows up to which a table is not folded in Markdown."""
_VIDEO = "    "
_WIDE, _NARROW, _TINY = 96, 72, 60
"""Columns of a terminal: from where on there is room for a frame, and below which intervals, then hints, go."""


def print_comparisons(console: Console, found: Comparisons) -> None:
    """Print the runs, then each comparison: warnings, table, verdict, seeds."""
    names = [letter(place) for place in range(len(found.runs))]
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
        table.add_row(name, Text(run.shown), Text(run.policy), shown, *last)
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
    headings += [] if narrow else [confidence(one.alpha)]
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
        f"{text} If that is the true difference, about {row.more:,} more episodes of each would settle it "
        f"(--eval.n_episodes={each})."
    )


def asides(one: Comparison, tests: int) -> Iterator[str]:
    """Say what the table's figures mean, where that is not plain."""
    if tests > 1:
        yield f"Task verdicts are corrected for {tests} comparisons (Holm); intervals are per row."
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


def confidence(alpha: float) -> str:
    """Return what an interval is called.

    >>> confidence(0.05), confidence(0.001)
    ('95 % interval', '99.9 % interval')
    """
    return f"{100 * (1 - alpha):.6g} % interval"


def episodes(row: ComparisonRow) -> str:
    """Return how many episodes a row is about."""
    same = row.first.episodes == row.second.episodes
    return str(row.episodes) if same else f"{row.first.episodes}/{row.second.episodes}"


def more(row: ComparisonRow) -> str:
    """Return how many more episodes would tell."""
    return "" if row.more is None else f"{row.more:,}"


def as_markdown(found: Comparisons) -> str:
    """Return everything as GitHub's Markdown; long lists are folded."""
    names = [letter(place) for place in range(len(found.runs))]
    with_letters = found.letters is not None
    headings = ["", "run", "policy", "success", confidence(found.alpha), *["letters"] * with_letters]
    lines = [_line(*headings)]
    lines += [_rule(5 + with_letters, 3)]
    for place, (name, run) in enumerate(zip(names, found.runs, strict=True)):
        shown = run.rate(1 - found.alpha)
        lines.append(
            _line(
                f"**{name}**",
                f"`{run.shown}`",
                f"`{run.policy}`",
                f"{rate(shown.value)} % ({shown.successes}/{shown.episodes})",
                f"{rate(shown.low)}–{rate(shown.high)}",
                *[found.letters[place]] * with_letters if found.letters is not None else [],
            )
        )
    for note in dict.fromkeys(note for one in found.comparisons for note in one.notes):
        lines += ["", f"> {note}"]
    for one in found.comparisons:
        first, second = names[found.runs.index(one.first)], names[found.runs.index(one.second)]
        lines += ["", *_markdown_comparison(one, first, second, found)]
    return "\n".join(lines) + "\n"


def _markdown_comparison(one: Comparison, first: str, second: str, found: Comparisons) -> Iterator[str]:
    tests = sum(row.kind == "task" for other in found.comparisons for row in other.rows)
    yield f"**{sentence(one, first, second, len(found.comparisons))}**"
    yield ""
    cautions = list(warnings(one, first, second))
    if cautions:
        yield f"> ⚠️ {cautions[0]}"
        yield from (f"> - {line.strip()}" for line in cautions[1:])
        yield ""
    yield scope(one, first, second)
    yield ""
    table = list(_markdown_table(one, first, second))
    yield from table if len(one.rows) <= _OPEN_TABLE else _folded(f"{len(one.rows)} rows", table)
    yield ""
    for line in asides(one, tests):
        yield line
        yield ""
    if one.disagreements:
        yield from _folded(
            f"{one.n_disagreements} seeds on which they disagree", list(_markdown_seeds(one, first, second))
        )


def _markdown_table(one: Comparison, first: str, second: str) -> Iterator[str]:
    yield _line(
        "task", "n", first, second, f"{second} − {first}", confidence(one.alpha), "p", "verdict", "more needed"
    )
    yield _rule(9, 1, last=2)
    for row in one.rows:
        name = row.name if row.kind == "task" else f"**{'group ' * (row.kind == 'group')}{row.name}**"
        yield _line(
            name,
            episodes(row),
            rate(row.first.value),
            rate(row.second.value),
            points(row.difference.value),
            spread(row.difference),
            f"{row.adjusted:.2g}",
            _SIGNS[row.verdict],
            more(row),
        )


def _markdown_seeds(one: Comparison, first: str, second: str) -> Iterator[str]:
    yield _line("task", "episode", "seed", "succeeded", "videos")
    yield _rule(5, 5)
    for found in one.disagreements[:_MOST_MARKDOWN_SEEDS]:
        yield _line(
            found.task,
            str(found.episode_index),
            str(found.seed),
            first if found.winner == "first" else second,
            ", ".join(f"{whose}: `{video}`" for whose, video in videos(found, first, second)),
        )
    more = one.n_disagreements - _MOST_MARKDOWN_SEEDS
    if more > 0:
        yield _line(f"and {more} more", "", "", "", "")


def _folded(title: str, lines: Sequence[str]) -> Iterator[str]:
    yield from (f"<details><summary>{title}</summary>", "", *lines, "", "</details>")


def _line(*cells: str) -> str:
    # A bar inside a name would end its cell.
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _rule(columns: int, left: int, last: int = 0) -> str:
    """Columns after the first `left` are numbers, but the `last` ones are words again."""
    numbers = columns - left - last
    return "|" + "---|" * left + "---:|" * max(0, numbers) + "---|" * last
