"""Videos after the fact: episodes are replayed from their actions, in parallel, and drawn while they are."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from proctor.config.combinations import chosen_videos
from proctor.config.flags import merge
from proctor.config.settings import EvalConfig
from proctor.engine.interrupts import Interrupts
from proctor.errors import UsageError
from proctor.eval_info import write_eval_info
from proctor.events import Watcher
from proctor.plan import Plan
from proctor.replay.replayer import Replay, Replayer, replayable
from proctor.results import ScoredRun
from proctor.store.filesystem import prepare_directory
from proctor.store.lock import RunLock
from proctor.store.outcomes import FAILURE, SUCCESS, UNKNOWN
from proctor.store.run_directory import FILMING, RunDirectory
from proctor.store.stored_run import StoredRun
from proctor.store.videos import place_video
from proctor.types import VideoChoice

Kind = Literal["failures", "successes", "all", "missing"]
_STATES = {"failures": (FAILURE,), "successes": (SUCCESS,)}


def to_film(run: StoredRun, words: str, kind: Kind) -> tuple[Plan, list[str]]:
    """Return the episodes that are to be filmed: those that are named, or all of a kind; and what cannot be.

    Raises:
        UsageError: there are none.
    """
    if kind == "missing" and not words:
        plan = lacking_videos(run, _asked(run))
        if not plan:
            raise UsageError(
                f"{run.shown} has all videos that its --eval.video asks for. Use --which=all, or name some."
            )
        return plan, []
    plan, without = replayable(run, words)
    if words or kind == "all":
        return plan, without
    states = run.ended["state"][run.plan.places_of(plan)]
    chosen = np.flatnonzero(np.isin(states, _STATES[kind]))
    if not len(chosen):
        raise UsageError(f"{run.shown} has no {kind} to film. Name episodes, or use --which=all.")
    return plan.at(chosen), without


def lacking_videos(run: StoredRun, choice: VideoChoice) -> Plan:
    """Return the episodes that are to have videos, can be replayed and have none."""
    ended = run.ended
    first = (run.plan.indices < choice.first) & np.isin(ended["state"], (FAILURE, SUCCESS, UNKNOWN))
    failures = (ended["state"] == FAILURE) & choice.failures
    places = np.flatnonzero((first | failures) & ~ended["filmed"])
    with run.table() as table:
        kept = [place for place in places.tolist() if table.keeps_trajectory(run.plan[place].key)]
    return run.plan.at(np.array(kept, np.int64))


def _asked(run: StoredRun) -> VideoChoice:
    """Return what a run's own settings say is to be filmed."""
    return chosen_videos(EvalConfig(video=str((run.settings.get("eval") or {}).get("video"))))


def film(
    run: StoredRun,
    plan: Plan,
    given: Mapping[str, Any],
    target: Path,
    watcher: Watcher,
    interrupts: Interrupts,
    tell: Callable[[str], None],
) -> Replay:
    """Film episodes of a run into a directory. One whose replay differs is another episode, and gets no video.

    Args:
        run: the run.
        plan: its episodes.
        given: settings that hold instead of the run's own: size and camera (`env`), frames a second (`eval`).
        target: where `videos/` goes.
        watcher: who is told of progress.
        interrupts: what stops it.
        tell: who is told what the user should know.

    Raises:
        UsageError: nothing can draw here, or the benchmark has no frames.
    """
    told: list[str] = []
    settings = merge({"eval": {"video": "all"}}, dict(given))
    with Replayer(run, settings, pixels=False, tell=told.append) as replayer:
        if not replayer.prepared.films:
            raise UsageError(told[-1] if told else "nothing can be drawn here.")
        for line in told:
            tell(line)
        with tempfile.TemporaryDirectory(prefix=FILMING, dir=target, ignore_cleanup_errors=True) as made:
            replay = replayer.replay(plan, watcher, interrupts, RunDirectory(Path(made)))
            for key in replay.filmed:
                place_video(Path(made), key, target)
    return replay


class FilmedRun(NamedTuple):
    """A run that was filmed into, as it is now, and what its `eval_info.json` says."""

    replay: Replay
    run: ScoredRun
    info: dict[str, Any]


def film_into_run(run: StoredRun, work: Callable[[], Replay]) -> FilmedRun:
    """Film into the run's own directory, where report and viewer show it; `work` films.

    Raises:
        UsageError: somebody writes to it; says what to do instead.
    """
    prepare_directory(run.path, 0)
    with RunLock(run.path):
        replay = work()
        run.directory.remove_leftovers()
        with run.directory.table() as table:
            table.add_videos(replay.filmed)
        now = ScoredRun(run.path, run.planned)
        return FilmedRun(replay, now, write_eval_info(now))
