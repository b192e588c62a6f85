"""What an episode did on one axis of time: its reward, its actions, and where the policy was asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from proctor.report.page.figures import ticks, tidy
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
    stretched,
)

_NAME, _GAP, _AXIS = 14, 8, 20
_MOST_ASKED = 300


class Lane(NamedTuple):
    """A number over time, what it is called, the class that gives it its colour, and how high it is drawn."""

    name: str
    class_: str
    values: NDArray[np.float64]
    height: int = 26


class Trace(NamedTuple):
    """What is drawn of an episode.

    Attributes:
        lanes: its numbers, from top to bottom. Each spans the whole episode, however many numbers it has.
        steps: how many steps that is.
        asked: the steps before which the policy was asked.
        succeeded: the step at which success was first reported, if it was.
    """

    lanes: Sequence[Lane]
    steps: int
    asked: Sequence[int] = ()
    succeeded: int | None = None


def trace_figure(ident: str, title: str, trace: Trace, points: int) -> Markup:
    """Return the lanes below each other, drawn with about `points` points each."""
    marks: list[Markup] = []
    said: list[str] = []
    top = 0
    for lane in trace.lanes:
        low, high = _range(lane.values)
        bottom = top + _NAME + lane.height
        path = line_path(_points(lane.values, low, high, points))
        marks += [
            rule(bottom, "grid"),
            stretched(top + _NAME, lane.height, element("path", d=path, class_=f"curve thin {lane.class_}")),
            label(lane.name, 0, top + 11, class_="tick lane-name"),
            label(f"{tidy(low)} to {tidy(high)}", 1, top + 11, "end"),
        ]
        said.append(f"{lane.name}: from {tidy(low)} to {tidy(high)}.")
        top = bottom + _GAP
    if trace.asked:
        marks += _asked(trace, top)
        said.append(f"The policy was asked {_times(len(trace.asked))}.")
        top += _NAME + 8
    if trace.succeeded is not None:
        x = percent(trace.succeeded / trace.steps)
        marks.append(element("line", x1=x, x2=x, y1=0, y2=top, class_="reached"))
        said.append(f"Success was first reported at step {trace.succeeded}.")
    return figure(
        top + _AXIS,
        Description(ident, title, " ".join(said)),
        *marks,
        rule(top, "axis"),
        *(label(text, x, top + 15, anchor(x)) for x, text in ticks(trace.steps, "steps")),
        element("line", x1="0", x2="0", y1=0, y2=top, class_="cursor"),
        class_="trace",
    )


def _asked(trace: Trace, top: int) -> list[Markup]:
    marks = [label(f"policy asked {_times(len(trace.asked))}", 0, top + 11, class_="tick lane-name")]
    if len(trace.asked) <= _MOST_ASKED:
        path = "".join(f"M{round(STRETCH * step / trace.steps)} 0V{STRETCH}" for step in trace.asked)
        marks.append(stretched(top + _NAME, 6, element("path", d=path, class_="curve thin")))
    return marks


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _range(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the smallest and the largest of the numbers that can be drawn."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 0.0, 1.0
    return float(finite.min()), float(finite.max())


def _points(values: NDArray[np.float64], low: float, high: float, most: int) -> list[tuple[float, float]]:
    """Return points as shares of width and height. Of many numbers each stretch gives its least and its greatest,
    so that a short peak is still there."""
    count = len(values)
    x = (np.arange(count) + 0.5) / max(1, count)
    # Halved, because the whole range of two huge numbers is infinite.
    span = high / 2 - low / 2
    y = (values / 2 - low / 2) / span if span > 0 else np.where(np.isfinite(values), 0.5, np.nan)
    if count <= most:
        return list(zip(x.tolist(), y.tolist(), strict=True))
    starts = np.arange(0, count, -(-2 * count // most))
    ends = np.append(starts[1:], count)
    middle = (starts + ends) / 2 / count
    least, most_of_it = np.fmin.reduceat(y, starts), np.fmax.reduceat(y, starts)
    both = np.column_stack([least, most_of_it])
    both[1::2] = both[1::2, ::-1]  # up, then down: no teeth of a saw that were not there
    both = both.reshape(-1)
    return list(zip(np.repeat(middle, 2).tolist(), both.tolist(), strict=True))


def lanes_of_actions(actions: Sequence[NDArray[Any]], most: int) -> list[Lane]:
    """Return a lane for each number of an action, the first `most` of them."""
    columns = actions[0].shape[1]
    whole = np.concatenate([one[:, :most].astype(np.float64) for one in actions])
    return [
        Lane(f"action {column}" if columns > 1 else "action", "plain", whole[:, column])
        for column in range(min(most, columns))
    ]
