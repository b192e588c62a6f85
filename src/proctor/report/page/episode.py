"""One episode from close by: video, numbers on one axis of time, where it began, and how to run it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from proctor.errors import UsageError
from proctor.files import clip
from proctor.plan import chosen
from proctor.report.console import count
from proctor.report.page.episodes import outcome, video_link
from proctor.report.page.figures import tidy
from proctor.report.page.run_section import Fact
from proctor.report.page.settings import command_of
from proctor.report.page.trace import Lane, Trace, lanes_of_actions, trace_figure
from proctor.store.observed import MOST_COLUMNS, read_observed
from proctor.store.outcomes import FAILURE, Kind
from proctor.store.schema import EpisodeRecord
from proctor.store.stored_run import StoredRun
from proctor.store.trajectories import Trajectory, unpack_trajectory
from proctor.types import Episode

MOST_VIEWS = 12
"""Failures that a report shows from close by."""

MOST_NUMBERS = 1 << 22
"""Of a trajectory that a page unpacks: it may be anybody's, and a page has not much time."""

_MOST_NAMED = 64
_REWARD_HEIGHT = 48
_OBSERVED_HEIGHT = 20


class Detail(NamedTuple):
    """How much is drawn of an episode: numbers of an action and of an observation, and points of each."""

    actions: int
    observed: int
    points: int


IN_A_REPORT = Detail(actions=8, observed=8, points=80)
ON_ITS_PAGE = Detail(actions=32, observed=MOST_COLUMNS, points=480)


class Command(NamedTuple):
    """A command, and what it does."""

    words: str
    text: str


@dataclass(frozen=True)
class EpisodeView:
    """An episode as templates show it.

    Attributes:
        ident: names it inside of its page.
        video: the link of its video, if there is one.
        trace: its numbers over time; empty if there are none.
        untold: what is not shown, and why; empty if all is.
        numbers: named numbers: where it began, and what the benchmark measured.
    """

    ident: str
    run: int
    record: EpisodeRecord
    outcome: Kind
    prompt: str
    video: str | None
    trace: Markup
    untold: str
    facts: Sequence[Fact]
    numbers: Sequence[tuple[str, Sequence[tuple[str, str]], int]]
    commands: Sequence[Command]

    @property
    def title(self) -> str:
        """What to call it."""
        return f"{self.record.task} episode {self.record.episode_index}"


def failure_views(runs: Sequence[StoredRun], output: Path, with_videos: bool) -> tuple[list[EpisodeView], int]:
    """Return the first failures of each run from close by, and how many more there are.

    Args:
        runs: these.
        output: the report that shows them.
        with_videos: whether they link their videos; those inside of the file are there once already.
    """
    views: list[EpisodeView] = []
    more = 0
    for number, run in enumerate(runs):
        places = run.ended.at(FAILURE)
        shown = places[: max(1, MOST_VIEWS // len(runs))]
        more += len(places) - len(shown)
        with run.table():
            for place, record in enumerate(run.records.at(shown)):
                video = video_link(run, record, output) if with_videos else None
                views.append(episode_view(run, record, f"failure-{number}-{place}", IN_A_REPORT, video, number))
    return views, more


def episode_view(
    run: StoredRun, record: EpisodeRecord, ident: str, detail: Detail, video: str | None, number: int = 0
) -> EpisodeView:
    """Return what is shown of an episode that has ended."""
    place = run.plan.place_of(record.key)
    episode = run.plan[0 if place is None else place]
    trajectory, untold = _trajectory(run, record)
    observed = _observed(run, record, detail)
    trace, left_out = _trace(run, record, trajectory, ident, detail, observed.lanes)
    return EpisodeView(
        ident=ident,
        run=number,
        record=record,
        outcome=outcome(record),
        prompt=episode.task.prompt if episode.task.prompt != episode.task.name else "",
        video=video,
        trace=trace,
        untold=" ".join(filter(None, (untold, left_out, observed.left_out if trajectory else ""))),
        facts=_facts(record, episode, trajectory),
        numbers=[
            _named(words, numbers)
            for words, numbers in (
                ("Where it began", record.layout),
                ("What was measured", record.metrics),
                ("Observed, the same at every step", observed.constant),
            )
            if numbers
        ],
        commands=_commands(run, episode, trajectory is not None),
    )


def _trajectory(run: StoredRun, record: EpisodeRecord) -> tuple[Trajectory | None, str]:
    with run.table() as table:
        packed = table.packed_trajectory(record.key)
    if not packed:
        return None, "" if record.status == "error" else "Its actions were not kept."
    try:
        return unpack_trajectory(packed, MOST_NUMBERS), ""
    except ValueError as error:
        return None, f"Its actions cannot be shown: {clip(str(error))}."


def _trace(
    run: StoredRun,
    record: EpisodeRecord,
    trajectory: Trajectory | None,
    ident: str,
    detail: Detail,
    observed: Sequence[Lane],
) -> tuple[Markup, str]:
    kind = outcome(record)
    if trajectory is None:
        place = run.plan.place_of(record.key)
        curve = run.reward_curves([place]).get(record.key) if place is not None else None
        if curve is None or not len(curve.means) or record.steps <= 0:
            return Markup(), ""
        means = curve.means.astype(np.float64)
        trace = Trace([Lane("reward per step", kind, means, _REWARD_HEIGHT)], record.steps)
        left_out = ""
    else:
        columns = trajectory.actions[0].shape[1]
        starts = np.cumsum(trajectory.chunks)[:-1]
        trace = Trace(
            [
                Lane("reward", kind, trajectory.rewards, _REWARD_HEIGHT),
                *lanes_of_actions(trajectory.actions, detail.actions),
                *observed,
            ],
            trajectory.steps,
            [0, *starts.tolist()],
            trajectory.succeeded,
        )
        left_out = f"Of {columns} numbers of an action the first {detail.actions} are drawn."
        left_out = left_out if columns > detail.actions else ""
    title = f"{clip(record.task, 80)} episode {record.episode_index} over its steps"
    return trace_figure(f"{ident}-trace", title, trace, detail.points), left_out


class _Observed(NamedTuple):
    """The numbers beside an episode's film: those that change, those that do not, and what of them is left out."""

    lanes: Sequence[Lane] = ()
    constant: Mapping[str, float] = {}
    left_out: str = ""


def _observed(run: StoredRun, record: EpisodeRecord, detail: Detail) -> _Observed:
    place = run.plan.place_of(record.key)
    filmed = place is not None and run.video(place) is not None
    found = read_observed(run.path, record.key, record.steps) if filmed else None
    if found is None:
        return _Observed()
    still = (found.values == found.values[0]).all(axis=0)
    values = found.values[1:].astype(np.float64)  # those after each step, as rewards are
    changing = [
        (clip(name, 60), values[:, number]) for number, name in enumerate(found.names) if not still[number]
    ]
    constant = {name: float(values[0, number]) for number, name in enumerate(found.names) if still[number]}
    left_out = []
    if len(changing) > detail.observed:
        left_out.append(f"Of {len(changing)} observed numbers that change the first {detail.observed} are drawn.")
    if found.there > len(found.names):
        left_out.append(f"Of {found.there} observed numbers the first {len(found.names)} are kept.")
    lanes = [Lane(name, "observed", numbers, _OBSERVED_HEIGHT) for name, numbers in changing[: detail.observed]]
    return _Observed(lanes, constant, " ".join(left_out))


def _facts(record: EpisodeRecord, episode: Episode, trajectory: Trajectory | None) -> list[Fact]:
    attempts = Fact("Attempts", str(record.attempts))
    if record.status == "error":
        return [Fact("Seed", str(record.seed)), attempts]
    facts = [
        Fact("Steps", str(record.steps), f"of at most {episode.task.max_steps}{_ending(trajectory)}"),
        Fact("Seed", str(record.seed)),
    ]
    if record.sum_reward is not None:
        largest = "" if record.max_reward is None else f"largest {tidy(record.max_reward)}"
        facts.append(Fact("Sum of rewards", tidy(record.sum_reward), largest))
    facts += [
        attempts,
        Fact("Policy asked", count(record.asks, "time"), f"looked {count(record.looks, 'time')}"),
        Fact("Took", f"{record.seconds:.2f} s", f"worker {clip(record.worker, 40)}" if record.worker else ""),
    ]
    return facts


def _ending(trajectory: Trajectory | None) -> str:
    if trajectory is None:
        return ""
    terminated, truncated, at_limit = trajectory.ending
    how = ", terminated" if terminated else ", truncated" if truncated else ", at its limit" if at_limit else ""
    return how if trajectory.succeeded is None else f"{how}, success at step {trajectory.succeeded}"


def _named(words: str, numbers: Mapping[str, float]) -> tuple[str, list[tuple[str, str]], int]:
    shown = [(clip(name, 60), _tidy(value)) for name, value in list(numbers.items())[:_MOST_NAMED]]
    return words, shown, max(0, len(numbers) - _MOST_NAMED)


def _tidy(value: float) -> str:
    try:
        return tidy(value)
    except OverflowError:  # whole numbers have no bounds in JSON
        return "beyond all bounds"


def words_of(run: StoredRun, episode: Episode) -> str | None:
    """Return the words that name an episode on a command line; `None` if they mean others too, or are no text."""
    words = f"{episode.task.name}:{episode.index}"
    if not words.isprintable():
        return None
    try:
        alone = [one.key for one in chosen(run.planned, words)] == [episode.key]
    except UsageError:
        return None
    return words if alone else None


def _commands(run: StoredRun, episode: Episode, kept: bool) -> list[Command]:
    """Return the commands that run it again; none whose words would mean another episode, or are no plain text."""
    words = words_of(run, episode)
    if words is None:
        return []
    found = []
    if kept:
        flag = f"--only={words}" if words.startswith("-") else words
        for what, name in (("From its stored actions, without the policy:", "replay"), ("As a video:", "film")):
            found.append(Command(what, shlex.join(["proctor", name, str(run.path), flag])))
    again = command_of({**run.settings, "only": words, "failed": None})
    if again is not None:
        found.append(Command("With its policy, as a new run:", again))
    return [one for one in found if all(map(str.isprintable, one.text.split(" \\\n")))]
