"""Single episodes: which of many a report shows, those that failed, their videos and their rewards."""

from __future__ import annotations

import base64
import itertools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
from markupsafe import Markup

from proctor.files import read_descriptor
from proctor.report.console import letter
from proctor.report.page.figures import RewardLine, reward_panel, tidy
from proctor.store.outcomes import ERROR, FAILURE, KINDS, SUCCESS, UNKNOWN, Kind, Outcomes, state_of
from proctor.store.schema import EpisodeRecord
from proctor.store.stored_run import StoredRun
from proctor.store.videos import open_video, video_file
from proctor.types import Episode
from proctor.video_format import MEDIA_TYPE

CURVE_TASKS = 60
CURVES_PER_OUTCOME = 3
MOST_CARDS = 60
MOST_ROWS = 2000
"""Of one table: more rows no browser shows in good time."""
SHOWN_PANELS = 12
MOST_EMBEDDED = 256 << 20
"""Bytes of one video inside of a page."""


class EpisodeRow(NamedTuple):
    """One episode of a long table."""

    record: EpisodeRecord
    outcome: Kind
    link: str | None


class Card(NamedTuple):
    """An episode with its video."""

    run: int
    record: EpisodeRecord
    outcome: Kind
    prompt: str
    source: str
    link: str
    """Where the video lies, if it is not inside the file."""
    folded: bool = False
    """Whether all went well, so that few will want to see it."""


class Failures(NamedTuple):
    """The failures of a task, as what one needs to run them again: the first of them, and how many there are."""

    task: str
    failed: int
    episodes: Sequence[Episode]


class Panel(NamedTuple):
    """The rewards of one task."""

    task: str
    figure: Markup


def outcome(record: EpisodeRecord) -> Kind:
    """Return how an episode ended; unknown where the simulator reports no success."""
    return KINDS[state_of(record.status, record.success)]


def episodes_for_curves(ended: Outcomes) -> list[int]:
    """Return, of each task, where the episodes with the lowest, the median and the highest sum of rewards are: of
    those that failed, of those that succeeded, and of those of which it is unknown."""
    chosen: list[int] = []
    tasks = (places for number in range(len(ended.plan.all_tasks)) if len(places := ended.of_task(number)))
    for places in itertools.islice(tasks, CURVE_TASKS):
        for state in (FAILURE, UNKNOWN, SUCCESS):
            alike = places[ended["state"][places] == state]
            rewards = ended["sum_reward"][alike]
            order = np.argsort(rewards, kind="stable")[: int((~np.isnan(rewards)).sum())]
            chosen += spread(alike[order].tolist(), CURVES_PER_OUTCOME)
    return chosen


def spread(ordered: Sequence[int], count: int) -> list[int]:
    """Return `count` members from the first to the last, evenly apart."""
    if len(ordered) <= count:
        return list(ordered)
    return [ordered[round(place * (len(ordered) - 1) / (count - 1))] for place in range(count)]


def worst_first(ended: Outcomes, places: Sequence[int]) -> list[int]:
    """Return episodes with failures first, in plan order otherwise."""
    rank = {FAILURE: 0, ERROR: 1, UNKNOWN: 2, SUCCESS: 3}
    return sorted(places, key=lambda place: rank[int(ended["state"][place])])


def video_link(run: StoredRun, record: EpisodeRecord, output: Path) -> str | None:
    """Return where an episode's video lies, seen from the report; `None` if there is none."""
    video = None if record.video_path is None else video_file(run.path, record.key)
    return None if video is None else quote(os.path.relpath(video, output.parent.absolute()))


def episode_rows(run: StoredRun, records: Iterable[EpisodeRecord], output: Path) -> list[EpisodeRow]:
    """Return some episodes as the report at `output` lists them."""
    return [EpisodeRow(record, outcome(record), video_link(run, record, output)) for record in records]


def cards(runs: Sequence[StoredRun], output: Path, embed: bool) -> tuple[list[Card], int]:
    """Return the episodes to watch, failures first, and how many more there would be."""
    found: list[Card] = []
    more = 0
    each = MOST_CARDS // max(1, len(runs))
    for place, run in enumerate(runs):
        filmed = np.flatnonzero(run.ended["filmed"]).tolist()
        there = [one for one in filmed if video_file(run.path, run.plan[one].key) is not None]
        watchable = worst_first(run.ended, there)
        more += len(watchable) - len(watchable[:each])
        found += card_list(run, place, watchable[:each], output, embed)
    if len(runs) > 1:  # the same episode side by side
        rank = {card.record.task: place for place, card in reversed(list(enumerate(found)))}
        found.sort(key=lambda card: (rank[card.record.task], card.record.episode_index, card.run))
    troubled = {_which(card.record) for card in found if card.outcome != "success"}
    return [card._replace(folded=bool(troubled) and _which(card.record) not in troubled) for card in found], more


def card_list(run: StoredRun, number: int, places: Sequence[int], output: Path, embed: bool = False) -> list[Card]:
    """Return the episodes at some places, which have videos, of the page's `number`-th run."""
    prompts = {(task.group, task.task_id): task.prompt for task in run.tasks}
    found = []
    for record in run.records.at(places):
        source = _embedded(run, record) if embed else video_link(run, record, output) or ""
        prompt = prompts[record.key[:2]]
        found.append(Card(number, record, outcome(record), prompt, source, "" if embed else source))
    return found


def _which(record: EpisodeRecord) -> tuple[str, int]:
    return record.task, record.episode_index


def _embedded(run: StoredRun, record: EpisodeRecord) -> str:
    with open_video(run.path, record.key) as video:
        content = read_descriptor(video, MOST_EMBEDDED, run.path)
    return f"data:{MEDIA_TYPE};base64,{base64.b64encode(content).decode()}"


def failures(run: StoredRun) -> list[Failures]:
    """Return the failed episodes, task by task, each task's first ones: together no more than a table may have."""
    failed = {
        task.name: places[run.ended["state"][places] == FAILURE]
        for number, task in enumerate(run.tasks)
        if len(places := run.ended.of_task(number))
    }
    most = max(1, MOST_ROWS // max(1, sum(len(places) > 0 for places in failed.values())))
    if sum(map(len, failed.values())) <= MOST_ROWS:
        most = MOST_ROWS
    return [
        Failures(task, len(places), [run.plan[place] for place in places[:most].tolist()])
        for task, places in failed.items()
        if len(places)
    ]


def reward_panels(runs: Sequence[StoredRun]) -> list[Panel]:
    """Return a panel per task with rewards, those with most failures first."""
    found: dict[str, list[RewardLine]] = {}
    failed: dict[str, int] = {}
    for place, run in enumerate(runs):
        for number, task in enumerate(run.tasks):
            state = run.ended["state"][run.ended.of_task(number)]
            failed[task.name] = failed.get(task.name, 0) + int((state == FAILURE).sum())
        chosen = episodes_for_curves(run.ended)
        curves = run.reward_curves(chosen)
        for record in run.records.at(chosen):
            curve = curves.get(record.key)
            if curve is not None:
                whose = f"{letter(place)} " if len(runs) > 1 else ""
                class_ = f"{outcome(record)} run-{place}" if len(runs) > 1 else outcome(record)
                found.setdefault(record.task, []).append(RewardLine(whose + _words(record), class_, curve))
    order = sorted(found, key=lambda task: -failed[task])
    return [
        Panel(task, reward_panel(f"reward-{place}", f"Rewards in {task}", found[task]))
        for place, task in enumerate(order)
    ]


def _words(record: EpisodeRecord) -> str:
    return (
        f"episode {record.episode_index}, seed {record.seed}: {outcome(record)}, {record.steps} steps, "
        f"sum of rewards {tidy(record.sum_reward or 0.0)}"
    )
