"""Inline SVG, element by element: everything that goes in is escaped.

Figures have a fixed height and take any width: places along x are per cent, and only curves lie in an inner
drawing that is stretched. So text keeps its size, on a phone as on a wide screen, without any script.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import NamedTuple

from markupsafe import Markup, escape

Attribute = str | float | None

STRETCH = 1000
"""Width and height of the inner drawing that curves lie in."""


def element(name: str, *children: str, **attributes: Attribute) -> Markup:
    """Return `<name ...>children</name>`; `class_` and `text_anchor` become `class` and `text-anchor`."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(escape(child) for child in children)
    return Markup(f"<{name}{shown}>{inside}</{name}>" if inside else f"<{name}{shown}/>")


def _value(value: Attribute) -> str:
    return escape(value) if isinstance(value, str) else number(value or 0.0)


def number(value: float) -> str:
    """Return a number in as few characters as do.

    >>> number(12.3456), number(3.0)
    ('12.35', '3')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".")


def percent(share: float) -> str:
    """Return a share of the width."""
    return f"{number(100 * share)}%"


class Description(NamedTuple):
    """What a figure is called, and what it shows in words."""

    ident: str
    title: str
    text: str


def figure(height: int, about: Description, *children: str, class_: str = "") -> Markup:
    """Return a drawing that a screen reader reads as one picture with a title and a description."""
    names = f"{about.ident}-t {about.ident}-d"
    return element(
        "svg",
        element("title", about.title, id=f"{about.ident}-t"),
        element("desc", about.text, id=f"{about.ident}-d"),
        *children,
        class_=f"figure {class_}".strip(),
        width="100%",
        height=height,
        role="img",
        aria_labelledby=names,
    )


_LETTER = 6.6
"""Pixels of a digit of a figure's words, with some to spare."""


def with_scale(drawing: Markup, height: int, labels: Sequence[tuple[float, str]]) -> Markup:
    """Return a drawing with the labels of its vertical axis in a column of their own, where no curve comes.

    Args:
        drawing: the figure.
        height: its height.
        labels: how far from the top each lies, and what it says.
    """
    width = round(_LETTER * max((len(text) for _, text in labels), default=0) + 8)
    words = [element("text", text, x=width - 8, y=y + 4, text_anchor="end", class_="tick") for y, text in labels]
    scale = element("svg", *words, class_="figure scale-y", width=width, height=height, aria_hidden="true")
    return element("div", scale, drawing, class_="plot")


def stretched(top: float, height: float, *children: str) -> Markup:
    """Return the inner drawing for curves: `STRETCH` units each way, whatever its size."""
    return element(
        "svg",
        *children,
        x="0",
        y=top,
        width="100%",
        height=height,
        viewBox=f"0 0 {STRETCH} {STRETCH}",
        preserveAspectRatio="none",
    )


def line_path(points: Iterable[tuple[float, float]]) -> str:
    """Return the path through points given as shares of width and height; it breaks where one is not finite."""
    parts, drawing = [], False
    for x, y in points:
        if not (isfinite(x) and isfinite(y)):
            drawing = False
            continue
        parts.append(f"{'L' if drawing else 'M'}{round(x * STRETCH)} {round((1 - y) * STRETCH)}")
        drawing = True
    return "".join(parts)


def stair_path(points: Sequence[tuple[float, float]]) -> str:
    """Return a path that goes right, then up, from point to point."""
    (x0, y0), *rest = points
    steps = (f"H{round(x * STRETCH)}V{round((1 - y) * STRETCH)}" for x, y in rest)
    return f"M{round(x0 * STRETCH)} {round((1 - y0) * STRETCH)}" + "".join(steps)


def label(text: str, x: float, y: float, set_from: str = "start", class_: str = "tick") -> Markup:
    """Return a word at a share of the width and `y` pixels from the top."""
    return element("text", text, x=percent(x), y=y, text_anchor=set_from, class_=class_)


def rule(y: float, class_: str = "grid") -> Markup:
    """Return a line from edge to edge."""
    return element("line", x1="0", x2="100%", y1=y, y2=y, class_=class_)


def anchor(x: float) -> str:
    """Return how a word at a share of the width is set, so that it stays inside."""
    return "start" if x < 0.02 else "end" if x > 0.98 else "middle"
