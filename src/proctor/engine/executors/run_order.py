"""What an executor of this machine is to run: an order in which everything is settled.

Where not all episodes are known at the start, a feed brings the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from proctor.config.settings import Settings
from proctor.engine.dispatch import Dispatch
from proctor.engine.preparation import PreparedRun
from proctor.engine.stopping import StopRules
from proctor.engine.warm_processes import WarmProcesses
from proctor.engine.worker_handle import WorkerRecipe
from proctor.engine.workforce import WorkerRange
from proctor.plan import Plan
from proctor.store.outcomes import Outcomes
from proctor.store.run_directory import RunDirectory
from proctor.store.schema import EpisodeRecord, Ledger
from proctor.types import Episode, EpisodeKey


class Feed:
    """Episodes that arrive while a run goes on: any thread gives them, the event loop takes them.

    Args:
        wake: called after every change, so that a loop which waits looks again.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake, self._lock = wake, threading.Lock()
        self._arrived: list[tuple[Episode, int]] = []
        self._closed = False

    def give(self, episodes: Iterable[tuple[Episode, int]]) -> None:
        """Add episodes, and how many of its attempts each has used up."""
        with self._lock:
            self._arrived += episodes
        self._wake()

    def close(self) -> None:
        """Say that no more will come."""
        self._closed = True
        self._wake()

    def pour(self, dispatch: Dispatch) -> None:
        """Give a dispatch what has arrived since the last call."""
        closed = self._closed  # asked first: what is given before it is closed is not left behind
        with self._lock:
            arrived, self._arrived = self._arrived, []
        for episode, attempts in arrived:
            dispatch.add(episode, attempts)
        if closed:
            dispatch.close()


@dataclass(frozen=True)
class RunOrder:
    """What is to be run on this machine; everything in it is settled.

    Attributes:
        settings: all settings.
        directory: where videos, recordings and logs go.
        before: what of the plan had ended already.
        pending: the part of the plan that is to run.
        workers: how many workers there are to be.
        prepared: the policy, and what else was settled before.
        recipe: how a worker starts.
        feed: episodes that arrive while it runs, where not all are known at the start.
        warm: where processes are kept that can be used again.
        copying: how a worker starts that has a copy of the policy; `None` where it cannot have one.
        trajectories: gives the packed actions of an episode, where stored ones are played and no policy is asked.
    """

    settings: Settings
    directory: RunDirectory
    before: Outcomes
    pending: Plan
    workers: WorkerRange
    prepared: PreparedRun
    recipe: WorkerRecipe
    feed: Feed | None = None
    warm: WarmProcesses | None = None
    copying: WorkerRecipe | None = None
    trajectories: Callable[[EpisodeKey], bytes] | None = None

    def dispatch(self, ledger: Ledger, rules: StopRules | None) -> Dispatch:
        """Return the state in which the run begins."""
        return Dispatch(
            self.before,
            self.pending,
            max_attempts=self.settings.eval.max_attempts,
            max_open_tasks=self.settings.env.max_parallel_tasks,
            cut_short=ledger.running(),
            rules=rules,
            # Of episodes that arrive one by one somebody else decides how many are needed.
            demonstrations=self.settings.eval.demonstrations if self.feed is None else 0,
            logs=str(self.directory.logs),
            more=self.feed is not None,
            exitfirst=self.settings.exitfirst,
        )

    def video(self, episode: Episode) -> Path | None:
        """Return where the video of an episode goes, relative to the run directory, if it may have one."""
        may = self.prepared.films.may_have(episode.index)
        return self.directory.video(episode.task, episode.index) if may else None

    def sinks(self, episode: Episode) -> tuple[Path | None, Path | None]:
        """Return the files into which an episode is filmed and recorded, if it is."""
        video = self.video(episode)
        return (
            None if video is None else self.directory.path / video,
            self.directory.recording(episode.key) if self.settings.eval.recording else None,
        )

    @property
    def may_be_copied(self) -> bool:
        """Whether copies of the policy may be made while it runs, by what its calls turn out to take."""
        policy = self.prepared.policy
        settled = policy.settings.placement != "auto" or policy.spec.on_gpu or policy.spec.lanes > 1
        processes = [host for host in policy.hosts if host.cost is None]
        return len(processes) == len(policy.hosts) == 1 and not settled and self.warm is None and self.feed is None

    @property
    def mean_limit(self) -> int:
        """The most steps that an episode takes, on average over those that are to run."""
        return self.pending.most_steps // max(1, len(self.pending))

    def trajectory(self, episode: Episode) -> bytes:
        """Return the stored actions with which an episode is to be run; empty: with those of the policy."""
        return b"" if self.trajectories is None else self.trajectories(episode.key)

    def completed(self, record: EpisodeRecord, episode: Episode, worker: int) -> EpisodeRecord:
        """Return a worker's record with what only this side knows. Paths are relative: a run can be moved."""
        kept, shard = self.prepared.films.has(episode.index, record.success), self.directory.shard
        place = f"shard {shard.number}/" if shard is not None else ""  # where workers of several shards will meet
        video = str(self.directory.video(episode.task, episode.index)) if kept else None
        return replace(record, video_path=video, worker=f"{place}{worker}")
