"""A comparison of runs as Markdown, to be pasted into a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proctor.comparison.result import Comparison, Comparisons
from proctor.report.comparison import (
    asides,
    episodes,
    letters,
    more,
    percent,
    points,
    rate,
    scope,
    sentence,
    spread,
    videos,
    warnings,
)

_SIGNS = {"better": "✅ better", "worse": "❌ worse", "cannot tell": "cannot tell"}
_OPEN_TABLE = 10
_MOST_SEEDS = 1000


def as_markdown(found: Comparisons) -> str:
    """Return everything as GitHub's Markdown; long lists are folded."""
    names = letters(found.runs)
    with_letters = found.letters is not None
    lines = [_line("", "run", "policy", "success", percent(1 - found.alpha), *["letters"] * with_letters)]
    lines += [_rule(5 + with_letters, 3)]
    for place, (name, run) in enumerate(zip(names, found.runs, strict=True)):
        shown = run.rate(1 - found.alpha)
        lines.append(
            _line(
                f"**{name}**",
                f"`{run.path}`",
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
        lines += ["", *_comparison(one, first, second, found)]
    return "\n".join(lines) + "\n"


def _comparison(one: Comparison, first: str, second: str, found: Comparisons) -> Iterator[str]:
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
    table = list(_table(one, first, second))
    yield from table if len(one.rows) <= _OPEN_TABLE else _folded(f"{len(one.rows)} rows", table)
    yield ""
    for line in asides(one, tests):
        yield line
        yield ""
    if one.disagreements:
        yield from _folded(f"{one.n_disagreements} seeds on which they disagree", list(_seeds(one, first, second)))


def _table(one: Comparison, first: str, second: str) -> Iterator[str]:
    interval = f"{percent(1 - one.alpha)} interval"
    yield _line("task", "n", first, second, f"{second} − {first}", interval, "p", "verdict", "more to tell")
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


def _seeds(one: Comparison, first: str, second: str) -> Iterator[str]:
    yield _line("task", "episode", "seed", "succeeded", "videos")
    yield _rule(5, 5)
    for found in one.disagreements[:_MOST_SEEDS]:
        yield _line(
            found.task,
            str(found.episode_index),
            str(found.seed),
            first if found.winner == "first" else second,
            ", ".join(f"{whose}: `{video}`" for whose, video in videos(found, first, second)),
        )
    more = one.n_disagreements - _MOST_SEEDS
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
