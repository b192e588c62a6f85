"""The figures of a report: rates with intervals, success against steps, rewards of an episode."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, isfinite, log10
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from proctor.report.page.svg import (
    STRETCH,
    Description,
    anchor,
    element,
    figure,
    label,
    line_path,
    percent,
    rule,
    stair_path,
    stretched,
    with_scale,
)
from proctor.stats.intervals import Estimate, Rate
from proctor.stats.steps import StepCurve
from proctor.store.schema import RewardCurve

_BAR, _LINE = 10, 20
_CURVE_HEIGHT, _CURVE_TOP = 260, 16
_PANEL_HEIGHT, _PANEL_TOP = 120, 8
_CURVE_POINTS = 96
_MOST_DOTS = 60
"""Successes of a task that are drawn one by one; of more only quartiles and ends."""

RATES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Where a scale of rates has a line."""


def run_class(place: int, several: bool) -> str:
    """Return the class that gives a rate its colour: that of success, or beside other runs that of its run."""
    return f"run-{place}" if several else "success"


class Series(NamedTuple):
    """One curve, what it is called, and the class that gives it its colour."""

    name: str
    class_: str
    curve: StepCurve


def rate_bars(rates: Sequence[tuple[Rate | None, str]]) -> Markup:
    """Return a bar with its interval for each rate, for a cell of a table, whose other cells have the numbers."""
    marks: list[Markup] = []
    for place, (rate, class_) in enumerate(rates):
        top = place * _LINE + (_LINE - _BAR) / 2
        marks.append(element("rect", x="0", y=top, width="100%", height=_BAR, class_="track"))
        if rate is not None and rate.value is not None:
            marks.append(
                element("rect", x="0", y=top, width=percent(rate.value), height=_BAR, class_=f"bar {class_}")
            )
            marks += [_lighter(rate, top), *_whisker(rate.low, rate.high, top + _BAR / 2, _BAR / 2 - 1)]
    height = len(rates) * _LINE
    return element("svg", *marks, class_="figure bars", width="100%", height=height, aria_hidden="true")


def _lighter(rate: Rate, top: float) -> Markup:
    """Return what makes a bar lighter where its interval is, so that the interval is seen on any colour."""
    width = percent(rate.high - rate.low)
    return element("rect", x=percent(rate.low), y=top, width=width, height=_BAR, class_="lighter")


def _whisker(low: float, high: float, y: float, cap: float) -> list[Markup]:
    ends = [
        element("line", x1=percent(x), x2=percent(x), y1=y - cap, y2=y + cap, class_="whisker")
        for x in (low, high)
    ]
    return [element("line", x1=percent(low), x2=percent(high), y1=y, y2=y, class_="whisker"), *ends]


def headline_bar(rate: Rate, class_: str) -> Markup:
    """Return a scale from 0 to 100 with the rate's interval on it."""
    ticks = [element("line", x1=percent(x / 4), x2=percent(x / 4), y1=0, y2=22, class_="grid") for x in range(5)]
    words = [label(f"{25 * x} %" if x in (0, 4) else f"{25 * x}", x / 4, 38, anchor(x / 4)) for x in range(5)]
    marks = []
    if rate.value is not None:
        marks = [
            element("rect", x="0", y=6, width=percent(rate.value), height=_BAR, class_=f"bar {class_}"),
            _lighter(rate, 6),
            *_whisker(rate.low, rate.high, 11, 7),
        ]
    return element(
        "svg", *ticks, rule(11, "track-line"), *marks, *words, class_="figure", width="100%", height=42,
        aria_hidden="true",
    )  # fmt: skip


def step_strips(rows: Sequence[tuple[NDArray[np.int64], str]], last_step: int) -> Markup:
    """Return, for each run, after how many steps a task's episodes succeeded: dots, and a box from the lower to
    the upper quartile with a line at the median, on a scale from 0 to `last_step`."""
    marks: list[Markup] = []
    for place, (steps, class_) in enumerate(rows):
        middle = (place + 0.5) * _LINE
        marks.append(rule(middle, "track-line"))
        if not len(steps):
            continue
        shares = steps / last_step
        low, median, high = (int(x) for x in np.quantile(steps, (0.25, 0.5, 0.75), method="lower"))
        words = f"median {median} steps, half of the successes from {low} to {high}"
        wide = percent(max((high - low) / last_step, 0.004))
        box = element(
            "rect", element("title", words), x=percent(low / last_step), y=middle - 5, width=wide, height=10,
            class_=f"quartiles {class_}",
        )  # fmt: skip
        marks.append(box)
        if len(shares) <= _MOST_DOTS:
            dots = "".join(f"M{round(x * STRETCH)} 500h0" for x in dict.fromkeys(shares.tolist()))
            marks.append(stretched(middle - 5, 10, element("path", d=dots, class_=f"dots {class_}")))
        else:
            ends = f"M{round(shares[0] * STRETCH)} 500H{round(shares[-1] * STRETCH)}"
            marks.append(stretched(middle - 5, 10, element("path", d=ends, class_=f"curve thin {class_}")))
        x = percent(median / last_step)
        marks.append(element("line", x1=x, x2=x, y1=middle - 7, y2=middle + 7, class_="median"))
    height = len(rows) * _LINE
    return element("svg", *marks, class_="figure bars", width="100%", height=height, aria_hidden="true")


def difference_bar(difference: Estimate, reach: float) -> Markup:
    """Return a difference with its interval around a zero line, on a scale of plus and minus `reach`."""

    def place(value: float) -> float:
        return 0.5 + 0.5 * max(-1.0, min(1.0, value / reach))

    return element(
        "svg",
        element("line", x1="50%", x2="50%", y1=0, y2=14, class_="zero"),
        *_whisker(place(difference.low), place(difference.high), 7, 4),
        element("circle", cx=percent(place(difference.value)), cy=7, r=3.5, class_="dot"),
        class_="figure bars",
        width="100%",
        height=14,
        aria_hidden="true",
    )  # fmt: skip


def step_figure(series: Sequence[Series], last_step: int, banded: int) -> Markup:
    """Return the shares of episodes that had succeeded by each step; the first `banded` with their interval."""
    plot = _CURVE_HEIGHT - _CURVE_TOP - 24
    bands, lines = [], []
    for place, (name, class_, curve) in enumerate(series):
        points = _stairs(curve, last_step)
        if place < banded:
            bands.append(element("path", d=_band(curve, last_step), class_=f"band {class_}"))
        lines.append(
            element("path", element("title", name), d=stair_path(points), class_=f"curve {class_}", fill="none")
        )
    drawing = figure(
        _CURVE_HEIGHT,
        Description("steps", "Success against steps", describe_curves(series, last_step)),
        *(rule(y) for y, _ in rate_scale(_CURVE_TOP, plot)[1:]),
        rule(_CURVE_TOP + plot, "axis"),
        *axis_below(_CURVE_TOP + plot, ticks(last_step, "steps")),
        stretched(_CURVE_TOP, plot, *bands, *lines),
    )
    return with_scale(drawing, _CURVE_HEIGHT, rate_scale(_CURVE_TOP, plot))


def rate_scale(top: float, height: float) -> list[tuple[float, str]]:
    """Return where a scale of rates has its labels, from 0 % at the bottom of a plot."""
    return [(top + height * (1 - rate), f"{round(100 * rate)} %") for rate in RATES]


def axis_below(y: float, places: Sequence[tuple[float, str]]) -> list[Markup]:
    """Return ticks and labels below an axis at `y`."""
    marks = [element("line", x1=percent(x), x2=percent(x), y1=y, y2=y + 4, class_="axis") for x, _ in places]
    return marks + [label(text, x, y + 16, anchor(x)) for x, text in places]


def describe_curves(series: Sequence[Series], last_step: int) -> str:
    """Return in words where curves end, and when they were half-way there."""
    parts = []
    for name, _, curve in series:
        rate, median = curve.by(last_step), curve.median_of_successes()
        if rate.value is None:
            continue
        half = "" if median is None else f", half of the successes by step {median}"
        parts.append(f"{name}: {100 * rate.value:.1f} % of {curve.episodes} by step {last_step}{half}.")
    return " ".join(parts) or "No episode finished."


def _stairs(curve: StepCurve, last_step: int) -> list[tuple[float, float]]:
    n = curve.episodes or 1
    points = [(step / last_step, count / n) for step, count in curve.points()]
    return [(0.0, 0.0), *points, (1.0, points[-1][1] if points else 0.0)]


def _band(curve: StepCurve, last_step: int) -> str:
    """Return the outline of all intervals: up along the lower ends, back along the upper ones."""
    rates = [(0.0, curve.by(0))]
    rates += [(step / last_step, curve.by(step)) for step in curve.steps]
    rates.append((1.0, rates[-1][1]))
    lower = stair_path([(x, rate.low) for x, rate in rates])
    back = [f"V{round((1 - rates[-1][1].high) * STRETCH)}"]
    for (x, _), (_, before) in zip(reversed(rates), reversed(rates[:-1]), strict=False):
        back.append(f"H{round(x * STRETCH)}V{round((1 - before.high) * STRETCH)}")
    return f"{lower}{''.join(back)}H0Z"


class RewardLine(NamedTuple):
    """The rewards of one episode, what it was, and the class that gives it its colour."""

    name: str
    class_: str
    curve: RewardCurve


def reward_panel(ident: str, title: str, lines: Sequence[RewardLine]) -> Markup:
    """Return the rewards per step of some episodes of one task."""
    low, high = _range([line.curve.means for line in lines])
    last = max(line.curve.steps for line in lines)
    plot = _PANEL_HEIGHT - _PANEL_TOP - 22
    paths = [
        element(
            "path", element("title", name), d=_reward_path(curve, last, low, high), class_=f"curve thin {kind}"
        )
        for name, kind, curve in lines
    ]
    text = f"Reward per step from {tidy(low)} to {tidy(high)}. " + " ".join(f"{line.name}." for line in lines)
    scale = [(_PANEL_TOP + plot * (1 - share), words) for share, words in value_ticks(low, high)]
    drawing = figure(
        _PANEL_HEIGHT,
        Description(ident, title, text),
        *(rule(y) for y, _ in scale),
        rule(_PANEL_TOP + plot, "axis"),
        *axis_below(_PANEL_TOP + plot, ticks(last, "steps", most=3)),
        stretched(_PANEL_TOP, plot, *paths),
    )
    return with_scale(drawing, _PANEL_HEIGHT, scale)


def _range(curves: Sequence[np.ndarray[tuple[int], np.dtype[np.float32]]]) -> tuple[float, float]:
    values = np.concatenate(curves).astype(np.float64)
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 1.0
    low, high = min(0.0, float(values.min())), float(values.max())
    return (low, high) if high > low else (low, low + 1.0)


def _reward_path(curve: RewardCurve, last: int, low: float, high: float) -> str:
    means = curve.means.astype(np.float64)
    every = max(1, -(-len(means) // _CURVE_POINTS))
    starts = np.arange(0, len(means), every)
    with np.errstate(invalid="ignore"):
        thinned = np.add.reduceat(means, starts) / np.minimum(every, len(means) - starts)
    width = every * curve.stride
    places = np.minimum((starts * curve.stride) + width / 2, curve.steps) / last
    return line_path(
        (float(x), float((y - low) / (high - low)) if isfinite(y) else float("nan"))
        for x, y in zip(places, thinned, strict=True)
    )


def ticks(last: float, unit: str, most: int = 5) -> list[tuple[float, str]]:
    """Return round places along an axis from 0 to `last`, as shares of it, the last one with its unit.

    >>> ticks(500, "steps")
    [(0.0, '0'), (0.2, '100'), (0.4, '200'), (0.6, '300'), (1.0, '500 steps')]
    >>> ticks(500, "steps", most=2)
    [(0.0, '0'), (0.5, '250'), (1.0, '500 steps')]
    """
    step = _round_step(last, most)
    # What comes close to the end would run into its label, on a phone.
    room = 0.78 if most > 3 else 0.62
    inner = [step * place for place in range(int(last / step) + 1) if step * place <= room * last]
    return [*((value / last, tidy(value)) for value in inner), (1.0, f"{tidy(last)} {unit}")]


def value_ticks(low: float, high: float, most: int = 4) -> list[tuple[float, str]]:
    """Return round values from `low` to `high`, as shares of the way from one to the other.

    >>> value_ticks(0, 10)
    [(0.0, '0'), (0.25, '2.5'), (0.5, '5'), (0.75, '7.5'), (1.0, '10')]
    >>> value_ticks(-0.2, 1.0)
    [(0.16666666666666669, '0'), (0.5833333333333334, '0.5'), (1.0, '1')]
    """
    span = high / 2 - low / 2  # halved: the whole range of two huge numbers is infinite
    step = _round_step(2 * span, most) if isfinite(2 * span) else span
    first = ceil(low / step - 1e-9)
    values = [step * place for place in range(first, first + most + 2) if step * place <= high + 1e-9 * step]
    return [(min(1.0, max(0.0, (value / 2 - low / 2) / span)), tidy(value)) for value in values]


def _round_step(span: float, most: int) -> float:
    """Return the smallest round number that goes into a span at most so often."""
    step: float = 10.0 ** floor(log10(span / most)) if span > 0 else 1.0
    return next((step * by for by in (1, 2, 2.5, 5) if span / (step * by) <= most + 0.001), step * 10)


def tidy(value: float) -> str:
    """Return a number as people write it.

    >>> tidy(0.123456), tidy(1500.0), tidy(-0.0)
    ('0.123', '1500', '0')
    """
    return f"{value:.0f}" if abs(value) >= 1000 and abs(value) < 1e6 else f"{value + 0.0:.3g}"
