"""Single episodes: those to watch, those that failed or could not be run, and their rewards."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
from markupsafe import Markup

from proctor.files import read_descriptor
from proctor.report.page.choice import MOST_CARDS, MOST_ROWS, episodes_for_curves, outcome, worst_first
from proctor.report.page.figures import RewardLine, reward_panel, tidy
from proctor.report.page.run import Run
from proctor.store.outcomes import FAILURE, Kind
from proctor.store.schema import EpisodeRecord
from proctor.store.videos import open_video, video_file
from proctor.types import Episode

SHOWN_PANELS = 12
MOST_EMBEDDED = 256 << 20
"""Bytes of one video inside of a page."""


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


def video_link(run: Run, record: EpisodeRecord, output: Path) -> str | None:
    """Return where an episode's video lies, seen from the report; `None` if there is none."""
    video = None if record.video_path is None else video_file(run.path, record.key)
    return None if video is None else quote(os.path.relpath(video, output.parent.absolute()))


def cards(runs: Sequence[Run], output: Path, embed: bool) -> tuple[list[Card], int]:
    """Return the episodes to watch, failures first, and how many more there would be."""
    found: list[Card] = []
    more = 0
    each = max(1, MOST_CARDS // len(runs))
    for place, run in enumerate(runs):
        prompts = {(task.group, task.task_id): task.prompt for task in run.tasks}
        filmed = np.flatnonzero(run.ended["filmed"]).tolist()
        there = [one for one in filmed if video_file(run.path, run.plan[one].key) is not None]
        watchable = worst_first(run.ended, there)
        more += len(watchable) - len(watchable[:each])
        for record in run.records.at(watchable[:each]):
            source = _embedded(run, record) if embed else video_link(run, record, output) or ""
            found.append(
                Card(place, record, outcome(record), prompts[record.key[:2]], source, "" if embed else source)
            )
    if len(runs) > 1:  # the same episode side by side
        rank = {card.record.task: place for place, card in reversed(list(enumerate(found)))}
        found.sort(key=lambda card: (rank[card.record.task], card.record.episode_index, card.run))
    troubled = {_which(card.record) for card in found if card.outcome != "success"}
    return [card._replace(folded=bool(troubled) and _which(card.record) not in troubled) for card in found], more


def _which(record: EpisodeRecord) -> tuple[str, int]:
    return record.task, record.episode_index


def _embedded(run: Run, record: EpisodeRecord) -> str:
    with open_video(run.path, record.key) as video:
        content = read_descriptor(video, MOST_EMBEDDED, run.path)
    return f"data:video/mp4;base64,{base64.b64encode(content).decode()}"


def failures(run: Run) -> list[Failures]:
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


def reward_panels(runs: Sequence[Run]) -> list[Panel]:
    """Return a panel per task with rewards, those with most failures first."""
    found: dict[str, list[RewardLine]] = {}
    failed: dict[str, int] = {}
    for place, run in enumerate(runs):
        for number, task in enumerate(run.tasks):
            state = run.ended["state"][run.ended.of_task(number)]
            failed[task.name] = failed.get(task.name, 0) + int((state == FAILURE).sum())
        for record in run.records.at(episodes_for_curves(run.ended)):
            curve = run.curves.get(record.key)
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


def letter(place: int) -> str:
    """Return what a run is called beside others: A, B, ..."""
    return chr(ord("A") + place) if place < 26 else f"R{place + 1}"
