"""The part of a report that says whether runs differ: `proctor compare` as a table of the page."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from proctor.comparison.compare import compare_many
from proctor.comparison.result import Comparison, ComparisonRow
from proctor.report import comparison as words
from proctor.report.console import letter
from proctor.report.page.episodes import MOST_ROWS


class DisagreementRow(NamedTuple):
    """An episode on which exactly one succeeded."""

    task: str
    episode_index: int
    seed: int
    winner: str
    videos: Sequence[tuple[str, str]]


class Differences(NamedTuple):
    """Rows whose bars reach so far to either side of zero."""

    reach: float
    rows: Sequence[ComparisonRow]


class ComparisonSection(NamedTuple):
    """One run against the first, as the page shows it."""

    first: str
    second: str
    sentence: str
    scope: str
    warnings: Sequence[str]
    asides: Sequence[str]
    totals: Differences
    tasks: Differences
    """Those that could be told apart first, then by how far they are apart."""
    disagreements: Sequence[DisagreementRow]
    n_disagreements: int
    film: str
    """The command that shows these episodes side by side; empty if there are none, or of shards."""

    @property
    def n_different(self) -> int:
        """On how many tasks a difference was found."""
        return sum(row.verdict != "cannot tell" for row in self.tasks.rows)


def comparison_sections(paths: Sequence[Path], output: Path) -> list[ComparisonSection]:
    """Compare every run with the first. Raises `UsageError` where they cannot be compared, or without scipy."""
    found = compare_many(paths)
    tests = sum(row.kind == "task" for one in found.comparisons for row in one.rows)
    return [
        _section(one, letter(place + 1), (len(found.comparisons), tests), output)
        for place, one in enumerate(found.comparisons)
    ]


def _section(one: Comparison, second: str, family: tuple[int, int], output: Path) -> ComparisonSection:
    first, (comparisons, tests) = letter(0), family
    tasks = [row for row in one.rows if row.kind == "task"]
    tasks.sort(key=lambda row: (row.verdict == "cannot tell", -abs(row.difference.value)))
    totals = [row for kind in ("overall", "group") for row in one.rows if row.kind == kind]
    return ComparisonSection(
        first=first,
        second=second,
        sentence=words.sentence(one, first, second, comparisons),
        scope=words.scope(one, first, second),
        warnings=[line.strip() for line in words.warnings(one, first, second)],
        asides=list(words.asides(one, tests)),
        totals=_differences(totals),
        tasks=_differences(tasks),
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
            for found in one.disagreements[:MOST_ROWS]
        ],
        n_disagreements=one.n_disagreements,
        film=_film_command(one),
    )


def _film_command(one: Comparison) -> str:
    runs = [*one.first.runs, *one.second.runs]
    kept = all(run.ended["actions"].any() for run in runs)
    if not one.disagreements or len(runs) != 2 or not kept:
        return ""
    return shlex.join(["proctor", "film", *(run.shown for run in runs)])


def _differences(rows: Sequence[ComparisonRow]) -> Differences:
    furthest = max((abs(end) for row in rows for end in row.difference[1:]), default=1.0)
    reach = next((step for step in (0.1, 0.25, 0.5) if furthest <= step), 1.0)
    return Differences(reach, rows)
