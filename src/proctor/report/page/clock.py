"""Where the time of a run went: by what it was spent on, and by worker."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from proctor.report.live import duration
from proctor.report.page.choice import outcome
from proctor.report.page.figures import ticks
from proctor.report.page.run import Run
from proctor.report.page.svg import Described, anchor, element, figure, label, percent
from proctor.store.eval_info import timing
from proctor.store.records import EpisodeRecord

_LANE = 14
_MOST_LANES = 64
_MOST_MARKS = 3000

_SPENT_ON = {
    "simulate": ("physics", ("simulate_s", "reset_s")),
    "draw": ("drawing, and encoding videos", ("draw_s", "encode_s")),
    "wait": ("waiting for the policy", ("wait_s",)),
    "start": ("starting processes, building simulators", ("startup_s", "build_s")),
}


class Share(NamedTuple):
    """What worker seconds were spent on."""

    kind: str
    words: str
    seconds: float
    share: float


class Lane(NamedTuple):
    """One worker, what it ran, and how much of the run's time it was busy."""

    name: str
    records: Sequence[EpisodeRecord]
    seconds: float
    share: float


@dataclass(frozen=True)
class Clock:
    """Where a run's time went. `figure` is empty where nobody noted who ran what when."""

    wall: float
    steps: int
    shares: Sequence[Share]
    lanes: Sequence[Lane]
    hidden: int
    bar: Markup
    figure: Markup


def clock_of(run: Run, ident: str) -> Clock:
    """Return where the time of a run went."""
    spent = timing(run.records, run.wall, run.startup)
    shares = _shares(spent)
    lanes = _lanes(run)
    return Clock(
        wall=run.wall,
        steps=int(spent["steps"]),
        shares=shares,
        lanes=lanes[:_MOST_LANES],
        hidden=max(0, len(lanes) - _MOST_LANES),
        bar=_bar(shares),
        figure=_timeline(run, lanes[:_MOST_LANES], ident) if lanes else Markup(),
    )


def _shares(spent: Mapping[str, float]) -> list[Share]:
    sums = {kind: sum(spent[name] for name in names) for kind, (_, names) in _SPENT_ON.items()}
    total = sum(sums.values()) or 1.0
    return [Share(kind, _SPENT_ON[kind][0], seconds, seconds / total) for kind, seconds in sums.items()]


def _bar(shares: Sequence[Share]) -> Markup:
    marks, at = [], 0.0
    for kind, words, seconds, share in shares:
        title = element("title", f"{words}: {duration(seconds)}, {100 * share:.0f} %")
        marks.append(
            element("rect", title, x=percent(at), y=0, width=percent(share), height=18, class_=f"spent {kind}")
        )
        at += share
    return element("svg", *marks, class_="figure", width="100%", height=18, aria_hidden="true")


def _lanes(run: Run) -> list[Lane]:
    found: dict[str, list[EpisodeRecord]] = {}
    for record in run.records:
        if record.worker and record.started_at:
            found.setdefault(record.worker, []).append(record)
    lanes = []
    for name in sorted(found, key=_natural):
        members = sorted(found[name], key=lambda record: record.started_at)
        seconds = sum(record.seconds for record in members)
        lanes.append(Lane(name, members, seconds, seconds / run.wall if run.wall else 0.0))
    return lanes


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort 2 before 10.

    >>> sorted(["w10", "w2"], key=_natural)
    ['w2', 'w10']
    """
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


class _WorkedTime:
    """Moments as seconds of work: between sessions nobody worked, and the figure has no hole there."""

    def __init__(self, run: Run) -> None:
        self._starts: list[float] = []
        self._before: list[float] = []
        total = reached = 0.0
        for session in run.sessions:
            start, end = max(reached, session.started_at), session.ended_at
            if end <= start:
                continue
            self._starts.append(start)
            self._before.append(total)
            total, reached = total + end - start, end
        self.total = total
        self.breaks = self._before[1:]

    def at(self, moment: float) -> float:
        place = max(0, bisect_right(self._starts, moment) - 1)
        if not self._starts:
            return 0.0
        until = self._before[place + 1] if place + 1 < len(self._before) else self.total
        return min(until, max(0.0, self._before[place] + moment - self._starts[place]))


def _timeline(run: Run, lanes: Sequence[Lane], ident: str) -> Markup:
    time, height = _WorkedTime(run), _LANE * len(lanes)
    if not time.total:
        return Markup()
    many = sum(len(lane.records) for lane in lanes) > _MOST_MARKS
    marks = []
    for place, lane in enumerate(lanes):
        top = place * _LANE
        marks.append(element("rect", x="0", y=top + 1, width="100%", height=_LANE - 3, class_="track"))
        for record in lane.records:
            start, end = time.at(record.started_at), time.at(record.started_at + record.seconds)
            # Many marks are for the eye alone; their words would be most of the file.
            words = [] if many else [element("title", _words(record))]
            marks.append(
                element(
                    "rect",
                    *words,
                    x=percent(start / time.total),
                    y=top + 1,
                    width=percent((end - start) / time.total),
                    height=_LANE - 3,
                    class_=f"lane {outcome(record)}",
                )
            )
    pauses = [
        element("line", x1=percent(b / time.total), x2=percent(b / time.total), y1=0, y2=height, class_="pause")
        for b in time.breaks
    ]
    unit, last = ("s", time.total) if time.total < 600 else ("min", time.total / 60)
    busy = ", ".join(f"worker {lane.name} {100 * lane.share:.0f} %" for lane in lanes[:16])
    return figure(
        height + 20,
        Described(
            ident,
            "Which worker ran which episode when",
            f"{len(lanes)} workers over {duration(time.total)}. Busy: {busy}{' ...' if len(lanes) > 16 else ''}.",
        ),
        *marks,
        *pauses,
        *(label(text, x, height + 15, anchor(x)) for x, text in ticks(last, unit)),
    )


def _words(record: EpisodeRecord) -> str:
    return (
        f"{record.task} episode {record.episode_index}: {outcome(record)}, {record.steps} steps, "
        f"{record.seconds:.2f} s"
    )
