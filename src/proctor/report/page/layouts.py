"""Where failures lie: outcomes over two numbers of where episodes began, and whether chance would do the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from proctor.files import clip
from proctor.report.console import count
from proctor.report.page.episodes import spread
from proctor.report.page.figures import tidy
from proctor.report.page.svg import STRETCH, Description, element, figure, label, rule, stretched
from proctor.results import ScoredRun
from proctor.stats.multiple_testing import holm
from proctor.stats.separation import Separation, best_pair
from proctor.store.outcomes import FAILURE, SUCCESS
from proctor.store.schema import EpisodeRecord

MOST_PANELS = 12
MOST_POINTS = 400
"""Episodes of a task that are looked at: of more, so many from the first to the last."""

_MOST_NAMES = 64
_ALPHA = 0.05
_HEIGHT, _TOP, _BELOW = 168, 16, 18
_EDGE = 0.04
"""Of the width and height, so that a mark at the edge is whole."""


class LayoutPanel(NamedTuple):
    """The outcomes of one task over where its episodes began.

    Attributes:
        run: whose task it is.
        chance: whether chance would separate them as well.
    """

    run: int
    task: str
    figure: Markup
    words: str
    chance: bool


class _Beginnings(NamedTuple):
    """Where the episodes of a task began, which numbers those are, and which episodes succeeded."""

    task: str
    names: Sequence[str]
    numbers: NDArray[np.float64]
    won: NDArray[np.bool_]


def layout_panels(runs: Sequence[ScoredRun]) -> list[LayoutPanel]:
    """Return a panel for each task with successes, failures and a layout; those with most failures first."""
    return [panel for place, run in enumerate(runs) for panel in _panels(run, place, MOST_PANELS // len(runs))]


def _panels(run: ScoredRun, place: int, most: int) -> list[LayoutPanel]:
    found: list[tuple[_Beginnings, Separation]] = []
    for number in _most_failures_first(run)[:most]:
        began = _beginnings(run, number)
        pair = None if began is None else best_pair(began.numbers, began.won)
        if began is not None and pair is not None:
            found.append((began, pair))
    adjusted = holm([pair.p_value for _, pair in found])
    return [
        _panel(place, f"layout-{place}-{number}", began, pair._replace(p_value=p))
        for number, ((began, pair), p) in enumerate(zip(found, adjusted, strict=True))
    ]


def _places(run: ScoredRun, number: int) -> NDArray[np.int64]:
    """Return the finished episodes of a task. Of a run that is not complete only those before the first gap: the
    episodes that happen to have ended hold too many successes."""
    places = run.ended.of_task(number)
    places = places[places < run.ended.prefix]
    known: NDArray[np.int64] = places[np.isin(run.ended["state"][places], (SUCCESS, FAILURE))]
    return known


def _most_failures_first(run: ScoredRun) -> list[int]:
    failed = [
        int((run.ended["state"][_places(run, number)] == FAILURE).sum()) if task.reports_success else 0
        for number, task in enumerate(run.tasks)
    ]
    return sorted((number for number, many in enumerate(failed) if many), key=lambda number: -failed[number])


def _beginnings(run: ScoredRun, number: int) -> _Beginnings | None:
    records = run.records.at(spread(_places(run, number).tolist(), MOST_POINTS))
    shared = set.intersection(*(set(record.layout) for record in records)) if records else set()
    names = [name for name in records[0].layout if name in shared][:_MOST_NAMES] if shared else []
    if len(names) < 2:
        return None
    numbers = np.array([[_number(record, name) for name in names] for record in records])
    won = np.array([bool(record.success) for record in records])
    return _Beginnings(run.tasks[number].name, names, numbers, won)


def _number(record: EpisodeRecord, name: str) -> float:
    try:
        return float(record.layout[name])
    except OverflowError:  # whole numbers have no bounds in JSON
        return float("inf")


def _panel(run: int, ident: str, began: _Beginnings, pair: Separation) -> LayoutPanel:
    x, y = (clip(began.names[column], 40) for column in pair.columns)
    chance = pair.p_value >= _ALPHA
    many = f"{count(int((~began.won).sum()), 'failure')} among {len(began.won)} episodes"
    words = (
        f"{many}. Chance would do the same: shuffled outcomes lie apart as much with p = {tidy(pair.p_value)}."
        if chance
        else f"{many}. Where it begins matters: shuffled outcomes lie apart as much with p = {tidy(pair.p_value)}."
    )
    return LayoutPanel(run, began.task, _scatter(ident, began, pair, (x, y)), words, chance)


def _scatter(ident: str, began: _Beginnings, pair: Separation, names: tuple[str, str]) -> Markup:
    """Return a round dot for every success and a square for every failure."""
    across, up = (_shares(began.numbers[:, column]) for column in pair.columns)
    (left, right), (low, high) = (_ends(began.numbers[:, column]) for column in pair.columns)
    plot = _HEIGHT - _TOP - _BELOW
    text = f"{names[0]} from {left} to {right}, {names[1]} from {low} to {high}."
    return figure(
        _HEIGHT,
        Description(
            ident, f"Successes and failures of {clip(began.task, 80)} over {names[0]} and {names[1]}", text
        ),
        rule(_TOP),
        rule(_TOP + plot, "axis"),
        stretched(
            _TOP,
            plot,
            *(
                element("path", d=_dots(across[which], up[which]), class_=f"dots {kind}")
                for kind, which in (("success", began.won), ("failure", ~began.won))
            ),
        ),
        label(f"{names[1]} up: {low} to {high}", 0, _TOP - 5),
        label(left, 0, _HEIGHT - 5),
        label(names[0], 0.5, _HEIGHT - 5, "middle"),
        label(right, 1, _HEIGHT - 5, "end"),
    )


def _ends(values: NDArray[np.float64]) -> tuple[str, str]:
    return tidy(float(values.min())), tidy(float(values.max()))


def _shares(values: NDArray[np.float64]) -> NDArray[np.float64]:
    scaled = values / np.abs(values).max()
    low, high = scaled.min(), scaled.max()
    shares: NDArray[np.float64] = _EDGE + (1 - 2 * _EDGE) * (scaled - low) / (high - low)
    return shares


def _dots(across: NDArray[np.float64], up: NDArray[np.float64]) -> str:
    """Return a path of lines without length: the ends of a pen are all that is seen of them, round or square."""
    return "".join(f"M{round(x * STRETCH)} {round((1 - y) * STRETCH)}h0" for x, y in zip(across, up, strict=True))
