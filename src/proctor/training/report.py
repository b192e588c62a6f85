"""The HTML report of a training: its curve, a row per checkpoint with a link to its evaluation, and its flags.

One file that needs nothing else, in the style of a run's report.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from markupsafe import Markup

import proctor
from proctor.report.page.figures import axis_below, rate_scale, ticks
from proctor.report.page.page import asset, source_digest, templates
from proctor.report.page.svg import (
    STRETCH,
    Description,
    element,
    figure,
    line_path,
    percent,
    rule,
    stretched,
    with_scale,
)
from proctor.store.filesystem import write_text
from proctor.training.curve import Curve, CurvePoint
from proctor.training.record import TrainingRecord

REPORT = "report.html"
_HEIGHT, _TOP = 280, 16


@dataclass(frozen=True)
class TrainingPage:
    """Everything that the template shows."""

    place: Path
    record: TrainingRecord
    css: Markup
    version: str = proctor.__version__

    @property
    def title(self) -> str:
        """What the training is called: by its folder."""
        return self.place.name

    @property
    def written(self) -> str:
        """When the file was made."""
        return time.strftime("%Y-%m-%d %H:%M:%S")

    @property
    def policy(self) -> str:
        """What a browser may do with the page: show what is in it, and nothing else."""
        return f"default-src 'none'; style-src '{source_digest(self.css)}'; base-uri 'none'; form-action 'none'"

    @cached_property
    def points(self) -> Sequence[CurvePoint]:
        """The evaluated checkpoints."""
        return self.record.curve.points

    @cached_property
    def best(self) -> CurvePoint | None:
        """The one that is kept as the best."""
        return self.record.curve.best

    @property
    def curve(self) -> Markup | None:
        """The figure, where there is a rate."""
        return curve_figure(self.record.curve) if self.best is not None else None

    @property
    def command(self) -> str:
        """The command that it was begun with."""
        return shlex.join(["proctor", "train", *(f"--{name}={text}" for name, text in self.record.flags.items())])


def write_training_report(record: TrainingRecord, place: Path) -> Path:
    """Write the report into a training's folder; returns where it lies. Raises `StoreError` if it cannot."""
    page = TrainingPage(place, record, asset("page.css"))
    template = templates(Path(__file__).parent).get_template("training.html.j2")
    write_text(place / REPORT, template.render(page=page))
    return place / REPORT


def curve_figure(curve: Curve) -> Markup:
    """Return success over steps, with the interval of every checkpoint."""
    points = [point for point in curve.points if point.episodes]
    last = points[-1].step
    plot = _HEIGHT - _TOP - 24
    places = [point.step / last for point in points]
    line = line_path((x, _share(point)) for x, point in zip(places, points, strict=True))
    upper = [(x, point.high) for x, point in zip(places, points, strict=True)]
    lower = [(x, point.low) for x, point in zip(places, points, strict=True)]
    band = (
        "M" + "L".join(f"{round(x * STRETCH)} {round((1 - y) * STRETCH)}" for x, y in [*upper, *lower[::-1]]) + "Z"
    )
    marks = [
        element(
            "circle",
            element("title", f"step {point.step:,}: {point.rate}"),
            cx=percent(x),
            cy=_TOP + plot * (1 - _share(point)),
            r=5 if point == curve.best else 3,
            class_="dot",
        )
        for x, point in zip(places, points, strict=True)
    ]
    best = curve.best
    words = (
        f"From {_share(points[0]):.0%} at step {points[0].step:,} to {_share(points[-1]):.0%} at step {last:,}."
    )
    words += "" if best is None else f" The best is step {best.step:,}: {best.rate}."
    drawing = figure(
        _HEIGHT,
        Description("curve", "Success over training steps", words),
        *(rule(y) for y, _ in rate_scale(_TOP, plot)[1:]),
        rule(_TOP + plot, "axis"),
        *axis_below(_TOP + plot, ticks(last, "steps")),
        stretched(
            _TOP,
            plot,
            element("path", d=band, class_="band success"),
            element("path", d=line, class_="curve success", fill="none"),
        ),
        *marks,
    )
    return with_scale(drawing, _HEIGHT, rate_scale(_TOP, plot))


def _share(point: CurvePoint) -> float:
    return point.successes / point.episodes
