"""Where the time of a run went: by what it was spent on, and by worker."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from proctor.report.console import duration
from proctor.report.page.figures import ticks
from proctor.report.page.svg import Description, anchor, element, figure, label, percent
from proctor.results import ScoredRun
from proctor.store.outcomes import KINDS, Kind

_LANE = 14
_MOST_LANES = 64
_MOST_WORDS = 3000
_MOST_MARKS = 10_000
"""Of the whole figure. With more episodes marks have no words, which would be most of the file; with still more,
what one worker did within a moment is one mark."""

_USES = {
    "simulate": "physics",
    "draw": "drawing, and encoding videos",
    "wait": "waiting for the policy",
    "start": "starting processes, building simulators",
}


class Share(NamedTuple):
    """What worker seconds were spent on."""

    kind: str
    words: str
    seconds: float
    share: float


class Lane(NamedTuple):
    """One worker, the places of the plan that it ran in turn, and how much of the run's time it was busy."""

    name: str
    places: Sequence[int]
    seconds: float
    share: float


@dataclass(frozen=True)
class TimeUse:
    """Where a run's time went. `figure` is empty if the run has no start times and workers."""

    shares: Sequence[Share]
    lanes: Sequence[Lane]
    hidden: int
    bar: Markup
    figure: Markup


def time_use(run: ScoredRun, ident: str) -> TimeUse:
    """Return where the time of a run went."""
    spent = run.results.seconds_by_use(run.startup)
    total = sum(spent.values()) or 1.0
    shares = [Share(use, _USES[use], seconds, seconds / total) for use, seconds in spent.items()]
    lanes = _lanes(run)
    return TimeUse(
        shares=shares,
        lanes=lanes[:_MOST_LANES],
        hidden=max(0, len(lanes) - _MOST_LANES),
        bar=_bar(shares),
        figure=_timeline(run, lanes[:_MOST_LANES], ident) if lanes else Markup(),
    )


def _bar(shares: Sequence[Share]) -> Markup:
    marks, at = [], 0.0
    for kind, words, seconds, share in shares:
        title = element("title", f"{words}: {duration(seconds)}, {100 * share:.0f} %")
        marks.append(
            element("rect", title, x=percent(at), y=0, width=percent(share), height=18, class_=f"spent {kind}")
        )
        at += share
    return element("svg", *marks, class_="figure", width="100%", height=18, aria_hidden="true")


def _lanes(run: ScoredRun) -> list[Lane]:
    ended = run.ended
    places = np.flatnonzero((ended["state"] > 0) & (ended["started_at"] != 0))
    places = places[np.argsort(ended["started_at"][places], kind="stable")]
    lanes = []
    for number, name in sorted(enumerate(ended.workers), key=lambda worker: _natural(worker[1])):
        own = places[ended["worker"][places] == number].tolist()
        seconds = sum(ended["seconds"][own].tolist())
        if own and name:
            lanes.append(Lane(name, own, seconds, seconds / run.wall if run.wall else 0.0))
    return lanes


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort 2 before 10.

    >>> sorted(["w10", "w2"], key=_natural)
    ['w2', 'w10']
    """
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


class _WorkTime:
    """Maps clock times to seconds of work, leaving out the gaps between sessions."""

    def __init__(self, run: ScoredRun) -> None:
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

    def at(self, moments: NDArray[np.float64]) -> NDArray[np.float64]:
        if not self._starts:
            return np.zeros(len(moments))
        starts, before = np.array(self._starts), np.array([*self._before, self.total])
        place = np.maximum(0, np.searchsorted(starts, moments, "right") - 1)
        found: NDArray[np.float64] = np.clip(before[place] + moments - starts[place], 0.0, before[place + 1])
        return found


def _timeline(run: ScoredRun, lanes: Sequence[Lane], ident: str) -> Markup:
    time, height = _WorkTime(run), _LANE * len(lanes)
    if not time.total:
        return Markup()
    episodes = sum(len(lane.places) for lane in lanes)
    least = 0.0 if episodes <= _MOST_MARKS else time.total * len(lanes) / _MOST_MARKS
    marks = []
    for place, lane in enumerate(lanes):
        top = place * _LANE
        marks.append(element("rect", x="0", y=top + 1, width="100%", height=_LANE - 3, class_="track"))
        for start, end, kind, words in _stretches(run, lane.places, time, least):
            told = [element("title", words)] if episodes <= _MOST_WORDS else []
            marks.append(
                element(
                    "rect",
                    *told,
                    x=percent(start / time.total),
                    y=top + 1,
                    width=percent((end - start) / time.total),
                    height=_LANE - 3,
                    class_=f"lane {kind}",
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
        Description(
            ident,
            "Which worker ran which episode when",
            f"{len(lanes)} workers over {duration(time.total)}. Busy: {busy}{' ...' if len(lanes) > 16 else ''}.",
        ),
        *marks,
        *pauses,
        *(label(text, x, height + 15, anchor(x)) for x, text in ticks(last, unit)),
    )


def _stretches(
    run: ScoredRun, places: Sequence[int], time: _WorkTime, least: float
) -> Iterator[tuple[float, float, Kind, str]]:
    """Go through what a worker did: from when to when, how it ended, and what it was.

    Of many episodes those that begin within `least` seconds are one stretch, without words, as most of them ended.
    """
    ended = run.ended
    starts, took, states = (ended[name][places] for name in ("started_at", "seconds", "state"))
    begins, ends = time.at(starts), time.at(starts + took)
    if not least:
        steps = ended["steps"][places].tolist()
        rows = zip(begins.tolist(), ends.tolist(), states.tolist(), places, steps, took.tolist(), strict=True)
        for begin, end, state, place, made, seconds in rows:
            yield begin, end, KINDS[state], f"{run.plan[place]}: {KINDS[state]}, {made} steps, {seconds:.2f} s"
        return
    first = np.flatnonzero(np.diff(np.floor(begins / least), prepend=-1.0))
    kinds = np.array([np.add.reduceat(states == state, first) for state in KINDS])
    most = np.array(list(KINDS))[kinds.argmax(axis=0)]
    for begin, end, state in zip(begins[first], np.maximum.reduceat(ends, first), most.tolist(), strict=True):
        yield float(begin), float(end), KINDS[state], ""
