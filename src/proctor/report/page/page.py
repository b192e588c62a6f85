"""From run directories to one HTML file that needs nothing else, not even a network."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import ceil
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

import proctor
from proctor.errors import StoreError, UsageError
from proctor.report import comparison
from proctor.report.console import count, duration, interval, letter, percent
from proctor.report.page.comparison import ComparisonSection, comparison_sections
from proctor.report.page.episode import EpisodeView, failure_views
from proctor.report.page.episodes import SHOWN_PANELS, Card, Panel, cards, reward_panels
from proctor.report.page.figures import (
    Series,
    difference_bar,
    rate_bars,
    run_class,
    step_figure,
    step_strips,
    tidy,
)
from proctor.report.page.layouts import LayoutPanel, layout_panels
from proctor.report.page.run_section import RunSection, run_section
from proctor.report.page.settings import SettingsTable, settings_tables
from proctor.report.result_table import GroupRows, ResultColumn, TaskRow, columns_for, rows_for
from proctor.results import Aggregate, ScoredRun
from proctor.stats.intervals import Rate
from proctor.store.filesystem import write_text
from proctor.store.videos import links_among

REPORT = "report.html"
MOST_RUNS = 6
_MOST_GROUPS = 5
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Steps:
    """Success against steps, as a figure and as a table."""

    figure: Markup
    series: Sequence[Series]
    caption: str
    rows: Sequence[tuple[int, Sequence[Rate]]]


@dataclass(frozen=True)
class Page:
    """Everything that the template shows."""

    title: str
    views: Sequence[RunSection]
    warnings: Sequence[str]
    columns: Sequence[ResultColumn]
    groups: Sequence[GroupRows]
    steps: Steps | None
    panels: Sequence[Panel]
    layouts: Sequence[LayoutPanel]
    cards: Sequence[Card]
    more_cards: int
    close_ups: Sequence[EpisodeView]
    more_failures: int
    comparisons: Sequence[ComparisonSection]
    no_comparison: str
    settings: Sequence[SettingsTable]
    css: Markup
    script: Markup
    version: str = proctor.__version__
    shown_panels: int = SHOWN_PANELS

    @cached_property
    def several(self) -> bool:
        """Whether runs stand side by side."""
        return len(self.views) > 1

    @property
    def written(self) -> str:
        """When the file was made."""
        return time.strftime("%Y-%m-%d %H:%M:%S")

    @property
    def policy(self) -> str:
        """What a browser may do with the page: show what is in it, play videos beside it, and nothing else."""
        script, style = source_digest(self.script), source_digest(self.css)
        return (
            f"default-src 'none'; script-src '{script}'; style-src '{style}'; "
            "media-src 'self' file: data:; img-src 'self' data:; base-uri 'none'; form-action 'none'"
        )

    @cached_property
    def with_rates(self) -> bool:
        """Whether any task reports success."""
        return any(view.run.results.reporting for view in self.views)

    @cached_property
    def with_rewards(self) -> bool:
        """Whether a task does not: then rewards are all there is."""
        return any(len(view.run.results.reporting) < len(view.run.tasks) for view in self.views)

    @cached_property
    def last_step(self) -> int:
        """Where scales of steps end: at the last success."""
        found = [view.run.results.steps_to_success(view.run.results.reporting) for view in self.views]
        return max((int(steps[-1]) for steps in found if len(steps)), default=1)

    @cached_property
    def with_successes(self) -> bool:
        """Whether any episode succeeded."""
        return any(view.result.rate.successes for view in self.views)

    def bars(self, results: Sequence[Aggregate | None]) -> Markup:
        """Return the rates of some tasks in each run, as bars."""
        rates = [None if result is None else result.rate for result in results]
        return rate_bars([(rate, run_class(place, self.several)) for place, rate in enumerate(rates)])

    def strips(self, row: TaskRow | GroupRows) -> Markup:
        """Return after how many steps the episodes of some tasks succeeded in each run."""
        steps = [view.run.results.steps_to_success(keys) for view, keys in zip(self.views, row.keys, strict=True)]
        classes = [run_class(place, self.several) for place in range(len(steps))]
        return step_strips(list(zip(steps, classes, strict=True)), self.last_step)

    def median_steps(self, row: TaskRow | GroupRows) -> int | str:
        """Return what a page sorts the same by: the first run's median."""
        first = row.results[0] if row.results else None
        return "" if first is None or first.steps is None else first.steps

    @property
    def curve_kinds(self) -> list[str]:
        """The outcomes that curves of rewards have."""
        return [kind for view in self.views for kind in view.kinds]

    @property
    def sections(self) -> list[tuple[str, str]]:
        """Anchor and name of every section that there is."""
        all_of_them = [
            ("result", "Result", True),
            ("compare", "Comparison", bool(self.comparisons or self.no_comparison)),
            ("tasks", "Tasks", True),
            ("steps", "Steps", self.steps is not None),
            ("rewards", "Rewards", bool(self.panels)),
            ("layouts", "Where failures lie", bool(self.layouts)),
            ("episodes", "Failures and videos", True),
            ("time", "Time", True),
            ("setup", "Settings", True),
        ]
        return [(ident, words) for ident, words, there in all_of_them if there]


def write_report(
    directories: Sequence[Path],
    output: Path | None = None,
    runs: Sequence[ScoredRun] | None = None,
    *,
    embed_videos: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write the report about one run, or several side by side; returns where it lies.

    Args:
        directories: run directories; the first is what the others are compared with.
        output: the file; `report.html` in the run's directory by default, of several in the current one.
        runs: the runs, from whoever has just read them.
        embed_videos: put the videos into the file instead of linking them.
        tell: is told, in a line each, what was left out of the report.

    Raises:
        UsageError: a directory holds no run.
        StoreError: the file cannot be written.
    """
    if not 1 <= len(directories) <= MOST_RUNS:
        raise UsageError(f"a report shows 1 to {MOST_RUNS} runs, got {len(directories)}.")
    runs = runs or [ScoredRun.open(directory) for directory in directories]
    if output is None:
        output = runs[0].path / REPORT if len(runs) == 1 else Path.cwd() / REPORT
    try:
        html = render(runs, output, embed_videos)
    except StoreError as error:
        raise UsageError(str(error)) from error
    write_text(output, html)
    for run in runs:
        left_out = links_among(run.path, run.ended.filmed)
        if left_out is not None:
            tell(left_out)
    return output


def render(runs: Sequence[ScoredRun], output: Path, embed_videos: bool = False) -> str:
    """Return the report as HTML; links are those of a file at `output`."""
    return templates().get_template("page.html.j2").render(page=make_page(runs, output, embed_videos))


@cache
def templates(*folders: Path) -> Environment:
    """Return the report's templates, and others in `folders` that build on them."""
    environment = Environment(
        loader=FileSystemLoader([*folders, HERE]), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=StrictUndefined,
    )  # fmt: skip
    filters: dict[str, Callable[..., Any]] = {
        "pct": lambda share: f"{100 * share:.1f}",
        "letter": letter,
        "count": count,
        "tidy": tidy,
        "time": duration,
        "order": _order,
        "heading": lambda heading: heading if len(heading) <= 3 else f"{heading[0].upper()}{heading[1:]}",
        "rate": lambda rate: _unbroken(percent(rate)),
        "unbroken": _unbroken,
        "interval": interval,
        "points": comparison.points,
        "spread": comparison.spread,
        "share": comparison.rate,
        "more": comparison.more,
        "n_episodes": comparison.episodes,
        "difference_bar": difference_bar,
    }
    environment.filters.update(filters)
    return environment


def make_page(
    runs: Sequence[ScoredRun], output: Path, embed_videos: bool = False, *, single_episodes: bool = True
) -> Page:
    """Return what the report's template shows; without `single_episodes` nothing that is drawn of one of them."""
    several = len(runs) > 1
    groups = rows_for([run.results for run in runs])
    views = [run_section(run, place, output, groups, several, embed_videos) for place, run in enumerate(runs)]
    drawn = runs if single_episodes else []
    shown, more = cards(drawn, output, embed_videos)
    close_ups, more_failures = failure_views(drawn, output, not embed_videos)
    comparisons, problem = _comparisons(runs, output)
    return Page(
        title=" and ".join(dict.fromkeys(run.name for run in runs)) if several else runs[0].name,
        views=views,
        warnings=[
            f"{letter(place)}: {warning}" if several else warning
            for place, view in enumerate(views)
            for warning in view.warnings
        ],
        columns=columns_for([run.results for run in runs]),
        groups=groups,
        steps=_steps(runs),
        panels=reward_panels(drawn),
        layouts=layout_panels(drawn),
        cards=shown,
        more_cards=more,
        close_ups=close_ups,
        more_failures=more_failures,
        comparisons=comparisons,
        no_comparison=problem,
        settings=settings_tables(runs),
        css=asset("page.css"),
        script=asset("page.js"),
    )


def _comparisons(runs: Sequence[ScoredRun], output: Path) -> tuple[list[ComparisonSection], str]:
    if len(runs) == 1:
        return [], ""
    try:
        return comparison_sections([run.path for run in runs], output), ""
    except UsageError as error:
        return [], f"There is no comparison: {error}"


def _steps(runs: Sequence[ScoredRun]) -> Steps | None:
    series = _series(runs)
    last_success = max((one.curve.steps[-1] for one in series if one.curve.steps), default=0)
    if not last_success:
        return None
    limit = max(task.max_steps for run in runs for task in run.tasks)
    # A limit far to the right of the last success would press the curve into a corner.
    last = min(limit, ceil(1.1 * last_success))
    caption = f"The last success came at step {last_success}; the step limit is {limit}."
    rows = sorted({ceil(last * place / 10) for place in range(1, 11)})
    return Steps(
        figure=step_figure(series, last, banded=len(runs)),
        series=series,
        caption=f"{caption} Shaded: the 95 % interval.",
        rows=[(step, [one.curve.by(step) for one in series]) for step in rows],
    )


def _series(runs: Sequence[ScoredRun]) -> list[Series]:
    if len(runs) > 1:
        return [
            Series(f"{letter(place)} {run.name}", f"dash-{place} run-{place}", run.results.step_curve())
            for place, run in enumerate(runs)
        ]
    (run,) = runs
    groups = list(dict.fromkeys(task.group for task in run.tasks))
    whole = Series("all tasks" if len(run.tasks) > 1 else run.tasks[0].name, "success", run.results.step_curve())
    if not 1 < len(groups) <= _MOST_GROUPS:
        return [whole]
    parts = [
        Series(group, f"group dash-{place + 1}", run.results.step_curve(group))
        for place, group in enumerate(groups)
    ]
    return [whole, *parts]


def _order(one: Aggregate | None, column: ResultColumn) -> float | str:
    """The sort key of a table cell; empty cells come last."""
    value = None if one is None or column.order is None else column.order(one)
    return "" if value is None else value


def _unbroken(text: str) -> Markup:
    return Markup(escape(text).replace(" %", Markup("&nbsp;%")))


def asset(name: str) -> Markup:
    """Return a file of ours that goes into a page as it is, as no text of a user's does."""
    return Markup((HERE / name).read_text(encoding="utf-8"))


def source_digest(text: str) -> str:
    """Return how a page's policy names a style or script that a browser may use."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
