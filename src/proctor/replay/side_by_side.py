"""Two runs in one video: the same episode, with the same seed, by two policies."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from proctor.engine.interrupts import Interrupts
from proctor.engine.video import VideoWriter
from proctor.errors import UsageError
from proctor.events import Watcher
from proctor.plan import Plan, chosen
from proctor.replay.film import film
from proctor.replay.lettering import letters
from proctor.replay.replayer import Replay
from proctor.store.outcomes import FAILURE, KINDS, SUCCESS, UNKNOWN
from proctor.store.run_directory import FILMING
from proctor.store.stored_run import StoredRun
from proctor.store.videos import place_video, video_place
from proctor.types import EpisodeKey

Pair = tuple[StoredRun, StoredRun]
PairKind = Literal["differing", "all"]

_GAP = 4
"""Pixels between two pictures."""


@dataclass
class PairedFilm:
    """What came of it: a replay of each run, as far as it came, and the episodes that have a video."""

    replays: list[Replay] = field(default_factory=list)
    filmed: list[EpisodeKey] = field(default_factory=list)


def pairs_to_film(runs: Pair, words: str, kind: PairKind) -> Plan:
    """Return the episodes of the first run that the second has too: those named, all, or where outcomes differ.

    Raises:
        UsageError: they have no episode in common, or none that is asked for.
    """
    first, second = runs
    seeds = [run.identity["seed"] for run in runs]
    if seeds[0] != seeds[1]:
        raise UsageError(
            f"{first.shown} has seed {seeds[0]} and {second.shown} has {seeds[1]}: no episode is the same in "
            "both. Run one of them again with the other's --seed."
        )
    asked = chosen(first.plan, words) if words else first.plan
    both = [place for place in first.plan.places_of(asked).tolist() if _is_in_both(runs, place)]
    if not both:
        raise UsageError(
            f"{first.shown} and {second.shown} have no finished episode in common that keeps its actions: there "
            "is nothing to show side by side."
        )
    if kind == "differing" and not words:
        both = [place for place in both if len(set(_states(runs, place))) > 1]
        if not both:
            raise UsageError("every episode came to the same in both runs. Name episodes, or use --which=all.")
    return first.plan.at(np.array(both, np.int64))


def _states(runs: Pair, place: int) -> tuple[int, int]:
    """Return how an episode ended in both; 0 where it has not, or where there is another in its place."""
    first, second = runs
    episode = first.plan[place]
    other = second.plan.place_of(episode.key)
    if other is None or second.plan[other].task.name != episode.task.name or second.benchmark != first.benchmark:
        return int(first.ended["state"][place]), 0
    return int(first.ended["state"][place]), int(second.ended["state"][other])


def _is_in_both(runs: Pair, place: int) -> bool:
    if not {FAILURE, SUCCESS, UNKNOWN}.issuperset(_states(runs, place)):
        return False
    key = runs[0].plan[place].key
    tables = [run.table() for run in runs]
    with tables[0] as one, tables[1] as other:
        return one.keeps_trajectory(key) and other.keeps_trajectory(key)


def film_side_by_side(
    runs: Pair,
    names: tuple[str, str],
    plan: Plan,
    given: Mapping[str, Any],
    target: Path,
    watcher: Watcher,
    interrupts: Interrupts,
    tell: Callable[[str], None],
) -> PairedFilm:
    """Film episodes of two runs, and put the two of each side by side into one video below `target`.

    An episode whose replay differs from its run, in either, has none.
    """
    found = PairedFilm()
    with tempfile.TemporaryDirectory(prefix=FILMING, dir=target, ignore_cleanup_errors=True) as made:
        sides = [Path(made) / str(number) for number in (0, 1)]
        for run, side in zip(runs, sides, strict=True):
            side.mkdir()
            places = (run.plan.place_of(episode.key) for episode in plan)
            own = run.plan.at(np.array([place for place in places if place is not None], np.int64))
            replay = film(run, own, given, side, watcher, interrupts, tell)
            found.replays.append(replay)
            if replay.ending.error is not None or replay.ending.stopped_by is not None:
                return found
        for key in found.replays[0].filmed:
            if key in found.replays[1].filmed and not interrupts.count:
                heads = [_head(run, name, key) for run, name in zip(runs, names, strict=True)]
                place = video_place(key)
                join([side / place for side in sides], heads, Path(made) / place)
                place_video(Path(made), key, target)
                found.filmed.append(key)
    return found


def _head(run: StoredRun, name: str, key: EpisodeKey) -> str:
    (record,) = run.find([key])
    place = run.plan.place_of(key)
    kind = KINDS[int(run.ended["state"][place or 0])]
    return f"{name}: {kind}, {record.steps} steps"


def join(videos: Sequence[Path], heads: Sequence[str], output: Path) -> None:
    """Put videos side by side, each below its head; one that is over holds its last frame."""
    import av

    opened = [av.open(str(video)) for video in videos]
    try:
        writer = VideoWriter(output, opened[0].streams.video[0].average_rate)
        try:
            frames = [_frames(one) for one in opened]
            last: list[NDArray[np.uint8]] = [next(each) for each in frames]
            bands = [_band(head, one) for head, one in zip(heads, last, strict=True)]
            for now in itertools.chain([tuple(last)], itertools.zip_longest(*frames)):
                last = [before if one is None else one for before, one in zip(last, now, strict=True)]
                writer.add(_beside([np.concatenate(both) for both in zip(bands, last, strict=True)]))
            writer.finish()
        except BaseException:
            writer.abandon()
            raise
    finally:
        for one in opened:
            one.close()


def _frames(container: Any) -> Iterator[NDArray[np.uint8]]:
    return (frame.to_ndarray(format="rgb24") for frame in container.decode(video=0))


def _band(text: str, frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
    height, width, _ = frame.shape
    # As large as it fits, and legible beside the picture.
    scale = max(1, min(height // 160, width // max(1, 6 * len(text))))
    return np.pad(letters(text, width, scale), ((2 * scale, 2 * scale), (0, 0), (0, 0)))


def _beside(pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    height = max(one.shape[0] for one in pictures)
    left, right = (np.pad(one, ((0, height - one.shape[0]), (0, 0), (0, 0))) for one in pictures)
    return np.concatenate([left, np.zeros((height, _GAP, 3), np.uint8), right], axis=1)
