"""The figure of success against training step or time: inline SVG of any width, whose points are links."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import floor, log10

from markupsafe import Markup

from proctor.report.console import interval, percent
from proctor.report.page import svg
from proctor.report.page.svg import anchor, element, label, line_path, rule, stretched
from proctor.viewer.addresses import address
from proctor.viewer.chart import Axis, Chart, Group, Point
from proctor.viewer.summaries import RunSummary

_TOP, _PLOT, _HEIGHT = 12, 280, 324
_COLOURS = 6
_MARKS = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
    "M-4 -4h8v8h-8z",
    "M0 -5.2l5 8.7h-10z",
    "M0 -5.6l5.2 5.6l-5.2 5.6l-5.2 -5.6z",
    "M0 5.2l5 -8.7h-10z",
    "M-5 -1.7h3.3v-3.3h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3z",
)
"""Of a group: circle, square, triangle, diamond, triangle upside down, cross. They differ in more than colour."""
_APART = 5.0
"""Pixels between the points of two groups at one place, whose intervals would lie on each other."""

_SPANS = [60 * by for by in (1, 5, 15, 30)] + [3600 * by for by in (1, 3, 6, 12)]
_SPANS += [86400 * by for by in (1, 2, 7, 14, 30, 91, 182, 365, 730)]


def class_of(group: Group) -> str:
    """Return the class that gives a group its colour."""
    return f"run-{group.number % _COLOURS}" + (" second" if group.number >= _COLOURS else "")


def _mark(group: Group) -> str:
    # A second group of one colour has another mark, too.
    return _MARKS[(group.number + group.number // _COLOURS) % len(_MARKS)]


def sign(group: Group) -> Markup:
    """Return a group's mark with a piece of its line, for a legend."""
    line = element("line", x1=0, x2=30, y1=7, y2=7, class_=f"curve {class_of(group)}")
    mark = element("path", d=_mark(group), class_=f"mark-dot {class_of(group)}")
    return element(
        "svg", line, element("g", mark, transform="translate(15 7)"), width="30", height="14", aria_hidden="true"
    )


def chart_figure(chart: Chart) -> Markup:
    """Return the figure, without the scale of rates to its left."""
    drawn = chart.drawn
    scale = _Scale(chart.choice.axis, [point.x for group in drawn for point in group.points])
    lines, points = [], []
    for place, group in enumerate(drawn):
        shift = f"translate({svg.number((place - (len(drawn) - 1) / 2) * min(_APART, 30 / len(drawn)))} 0)"
        path = line_path((scale.share(x), y) for x, y in group.line)
        line = element("path", d=path, class_=f"curve {class_of(group)}")
        lines.append(element("g", stretched(_TOP, _PLOT, line), transform=shift))
        points.append(
            element("g", *(_point(group, point, scale) for point in group.points), transform=shift, role="list")
        )
    return element(
        "svg",
        element("title", f"Success against {scale.words}", id="chart-t"),
        *(rule(_y(share)) for share in (0.25, 0.5, 0.75, 1)),
        rule(_y(0), "axis"),
        *lines,
        *points,
        *(label(text, x, _HEIGHT - 8, anchor(x)) for x, text in scale.ticks()),
        class_="figure chart",
        width="100%",
        height=_HEIGHT,
        role="group",
        aria_labelledby="chart-t",
    )


def rate_scale() -> Markup:
    """Return the scale of rates, which stands to the left of the figure."""
    words = (
        element("text", f"{round(100 * share)} %", x="100%", y=_y(share) + 4, text_anchor="end", class_="tick")
        for share in (0, 0.25, 0.5, 0.75, 1)
    )
    return element("svg", *words, class_="figure", width="44", height=_HEIGHT, aria_hidden="true")


def place_in_words(run: RunSummary, axis: Axis) -> str:
    """Return where a run is along the axis."""
    return run.when if axis == "time" else f"step {run.step}"


def _y(share: float) -> float:
    return _TOP + _PLOT * (1 - share)


def _point(group: Group, point: Point, scale: _Scale) -> Markup:
    run, x = point.run, svg.percent(scale.share(point.x))
    class_ = class_of(group)
    words = (
        f"{run.name}: {percent(run.rate)} ({interval(run.rate)}), {run.rate.successes} of {run.rate.episodes}, "
        f"{place_in_words(run, scale.axis)}, {group.name}{'' if run.final else f', {run.state}'}"
    )
    whisker = element(
        "line", x1=x, x2=x, y1=_y(run.rate.low), y2=_y(run.rate.high), class_=f"chart-whisker {class_}"
    )
    # A nested drawing is a place in per cent of the width, in which the mark has its size in pixels.
    reach = element("circle", r=11, class_="reach")
    mark = element(
        "path",
        d=_mark(group),
        class_=f"mark-dot {class_}{'' if run.final else ' open'}",
    )
    there = element("svg", reach, mark, x=x, y=_y(point.value), overflow="visible")
    link = element("a", element("title", words), whisker, there, href=address(run.path), aria_label=words)
    return element("g", link, role="listitem")


class _Scale:
    """Maps steps or times to shares of the width."""

    def __init__(self, axis: Axis, values: Sequence[float]) -> None:
        self.axis = axis
        self._low = min(values, default=0.0) if axis == "time" else 0.0
        self._high = max(values, default=1.0)

    @property
    def words(self) -> str:
        """What it is."""
        return "training step" if self.axis == "step" else "the time of the run"

    def share(self, value: float) -> float:
        """Return the place of a value, a little away from the edges."""
        if self._high <= self._low:
            return 0.5
        return 0.02 + 0.95 * (value - self._low) / (self._high - self._low)

    def ticks(self) -> list[tuple[float, str]]:
        """Return where there is a number below the axis."""
        if self._high <= self._low:
            return [(0.5, _moment(self._low, 0.0) if self.axis == "time" else _thousands(self._high))]
        if self.axis == "step":
            return [(self.share(value), _thousands(value)) for value in _round_values(self._high)]
        span = self._high - self._low
        every = next((one for one in _SPANS if span / one <= 4), _SPANS[-1] * (1 + span // (4 * _SPANS[-1])))
        zone = time.localtime(self._low).tm_gmtoff
        first = (self._low + zone) // every * every - zone
        values = [first + every * number for number in range(1, 6)]
        return [(self.share(value), _moment(value, every)) for value in values if value <= self._high]


def _round_values(last: float) -> list[float]:
    """Return round values from 0 to about `last`.

    >>> _round_values(100_000.0)
    [0.0, 20000.0, 40000.0, 60000.0, 80000.0, 100000.0]
    """
    step = 10 ** floor(log10(last / 2))
    every = next((step * by for by in (1, 2, 2.5, 5) if last / (step * by) <= 5.001), step * 10)
    return [float(every * place) for place in range(int(last / every + 1e-9) + 1)]


def _thousands(value: float) -> str:
    """Return a training step as people write it.

    >>> _thousands(0), _thousands(500), _thousands(2500), _thousands(1_200_000)
    ('0', '500', '2.5k', '1.2M')
    """
    for unit, word in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{word}"
    return f"{value:g}"


def _moment(seconds: float, every: float) -> str:
    words = "%Y-%m-%d" if every >= 86400 else "%m-%d %H:%M" if every else "%Y-%m-%d %H:%M"
    return time.strftime(words, time.localtime(seconds))
