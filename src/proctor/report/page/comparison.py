"""The part of a report that says whether runs differ: `proctor compare` as a table of the page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from proctor.comparison.compare import compare_many
from proctor.comparison.result import Comparison
from proctor.comparison.result import Row as Compared
from proctor.report import comparison as words
from proctor.report.page.episodes import letter
from proctor.report.page.figures import difference_bar


class DifferenceRow(NamedTuple):
    """One task, group, or all of them."""

    name: str
    episodes: str
    first: str
    second: str
    bar: Markup
    value: float
    difference: str
    interval: str
    verdict: str
    more: str


class DisagreementRow(NamedTuple):
    """An episode on which exactly one succeeded."""

    task: str
    episode_index: int
    seed: int
    winner: str
    videos: Sequence[tuple[str, str]]


class ComparisonView(NamedTuple):
    """One run against the first, as the template shows it. Bars reach `reach` points to either side."""

    first: str
    second: str
    sentence: str
    scope: str
    warnings: Sequence[str]
    asides: Sequence[str]
    reach: int
    parts: Sequence[tuple[str, Sequence[DifferenceRow]]]
    disagreements: Sequence[DisagreementRow]


def comparison_views(paths: Sequence[Path], output: Path) -> list[ComparisonView]:
    """Compare every run with the first. Raises `UsageError` where they cannot be compared, or without scipy."""
    found = compare_many(paths)
    return [
        _view(one, letter(place + 1), len(found.comparisons), output)
        for place, one in enumerate(found.comparisons)
    ]


def _view(one: Comparison, second: str, comparisons: int, output: Path) -> ComparisonView:
    first = letter(0)
    ends = [abs(end) for row in one.rows for end in (row.difference.low, row.difference.high)]
    reach = next(step for step in (0.1, 0.25, 0.5, 1.0) if max(ends, default=1.0) <= step or step == 1.0)
    parts = [
        (kind, [_row(row, reach) for row in one.rows if row.kind == kind])
        for kind in ("task", "group", "overall")
    ]
    return ComparisonView(
        first=first,
        second=second,
        sentence=words.sentence(one, first, second, comparisons),
        scope=words.scope(one, first, second),
        warnings=[line.strip() for line in words.warnings(one, first, second)],
        asides=list(words.asides(one)),
        reach=round(100 * reach),
        parts=[part for part in parts if part[1]],
        disagreements=[
            DisagreementRow(
                found.task,
                found.episode_index,
                found.seed,
                first if found.winner == "first" else second,
                [
                    (whose, quote(os.path.relpath(video, output.parent.absolute())))
                    for whose, video in words.videos(found, first, second)
                ],
            )
            for found in one.disagreements
        ],
    )


def _row(row: Compared, reach: float) -> DifferenceRow:
    return DifferenceRow(
        name=f"group {row.name}" if row.kind == "group" else row.name,
        episodes=words.episodes(row),
        first=words.rate(row.first.value),
        second=words.rate(row.second.value),
        bar=difference_bar(row.difference, reach),
        value=row.difference.value,
        difference=words.points(row.difference.value),
        interval=words.spread(row.difference),
        verdict=row.verdict,
        more=words.more(row),
    )
