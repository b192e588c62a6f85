"""Success against training step or time, over the runs of a folder: which points there are, by group.

A point is a run. A line joins the means of a group's runs at each place, so that several seeds of one checkpoint
are one bend of it and not a zigzag.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, get_args

from proctor.viewer.summaries import RunSummary

Axis = Literal["step", "time"]
Grouping = Literal["training", "tag", "policy"]

NO_TAG = "no tag"
MOST_DRAWN = 12
"""Groups that one can still tell apart."""
MOST_RUNS = 2000
"""In the figure and in the table: the newest ones."""


class Point(NamedTuple):
    """One run, and where it is along the axis."""

    x: float
    run: RunSummary

    @property
    def value(self) -> float:
        """Its rate; a run is only a point if it has one."""
        return self.run.rate.value or 0.0


@dataclass(frozen=True)
class Group:
    """The runs that one line joins."""

    name: str
    whole_name: str
    """The folder as a whole, where the name is its last part."""
    points: Sequence[Point]
    number: int
    """Its place among the groups, which gives it its colour and its mark."""

    @property
    def line(self) -> list[tuple[float, float]]:
        """The mean rate at each place."""
        at: dict[float, list[float]] = {}
        for point in self.points:
            at.setdefault(point.x, []).append(point.value)
        return [(x, sum(values) / len(values)) for x, values in sorted(at.items())]


@dataclass(frozen=True)
class ChartChoice:
    """What of the runs is charted, and how."""

    benchmark: str
    axis: Axis
    grouping: Grouping


@dataclass(frozen=True)
class Chart:
    """The points of a folder's runs.

    Attributes:
        choice: what is shown.
        benchmarks: those that there are, the one with most runs first.
        groups: in the order of their names.
        without_rate: runs of this benchmark that have no rate yet.
        without_step: those whose policy's path names no training step.
        too_many: those that are left out because there are more than a page can show.
    """

    choice: ChartChoice
    benchmarks: Sequence[str]
    groups: Sequence[Group]
    without_rate: int
    without_step: int
    too_many: int

    @cached_property
    def points(self) -> list[Point]:
        """All of them."""
        return [point for group in self.groups for point in group.points]

    @property
    def n_runs(self) -> int:
        """How many runs they are: one with several tags is a point of each."""
        return len({point.run.path for point in self.points})

    @property
    def drawn(self) -> Sequence[Group]:
        """The groups that the figure shows: those with most points."""
        most = sorted(self.groups, key=lambda group: -len(group.points))[:MOST_DRAWN]
        return sorted(most, key=lambda group: group.number)


def chart_of(summaries: Sequence[RunSummary], query: Mapping[str, str]) -> Chart:
    """Return the chart that a request asks for; what it leaves open is chosen so that there is most to see."""
    known = [run for run in summaries if not run.problem and run.benchmark]
    benchmarks = [name for name, _ in Counter(run.benchmark for run in known).most_common()]
    wanted = query.get("benchmark", "")
    benchmark = wanted if wanted in benchmarks else (benchmarks[0] if benchmarks else "")
    there = [run for run in known if run.benchmark == benchmark]
    choice = ChartChoice(benchmark, _axis(there, query.get("x", "")), _grouping(there, query.get("by", "")))
    rated = [run for run in there if run.rate.value is not None]
    placed = [run for run in rated if choice.axis == "time" or run.step is not None]
    groups: dict[str, list[Point]] = {}
    for run in sorted(placed, key=lambda run: -run.began)[:MOST_RUNS]:
        x = run.began if choice.axis == "time" else float(run.step or 0)
        for name in _groups_of(run, choice.grouping):
            groups.setdefault(name, []).append(Point(x, run))
    shown = _short_names(list(groups)) if choice.grouping == "training" else {name: name for name in groups}
    return Chart(
        choice=choice,
        benchmarks=benchmarks,
        groups=[
            Group(
                shown[name],
                name,
                sorted(groups[name], key=lambda one: (one.x, one.run.path)),
                number,
            )
            for number, name in enumerate(sorted(groups))
        ],
        without_rate=len(there) - len(rated),
        without_step=len(rated) - len(placed),
        too_many=max(0, len(placed) - MOST_RUNS),
    )


def _axis(runs: Sequence[RunSummary], wanted: str) -> Axis:
    for axis in get_args(Axis):
        if axis == wanted:
            return axis  # type: ignore[no-any-return]
    return "step" if sum(run.step is not None for run in runs) > 1 else "time"


def _grouping(runs: Sequence[RunSummary], wanted: str) -> Grouping:
    for grouping in get_args(Grouping):
        if grouping == wanted:
            return grouping  # type: ignore[no-any-return]
    if any(run.training for run in runs):
        return "training"
    return "tag" if any(run.tags for run in runs) else "policy"


def _groups_of(run: RunSummary, grouping: Grouping) -> Sequence[str]:
    match grouping:
        case "tag":
            return tuple(dict.fromkeys(run.tags)) or (NO_TAG,)
        case "training":
            return (run.training or run.policy,)
        case "policy":
            return (run.policy_name,)


def _short_names(folders: Sequence[str]) -> dict[str, str]:
    """Return the last parts of folders, as many of each as tell it from the others.

    >>> _short_names(["a/act", "b/act", "b/pi0"])
    {'a/act': 'a/act', 'b/act': 'b/act', 'b/pi0': 'pi0'}
    """
    last = Counter(folder.rpartition("/")[2] for folder in folders)
    return {folder: name if last[name := folder.rpartition("/")[2]] == 1 else folder for folder in folders}
