"""Between a dispatch and the nodes: who gets which episodes, and what their reports and losses mean."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path

from proctor.engine.dispatch import Dispatch
from proctor.engine.executors.protocol import Publisher
from proctor.engine.executors.ray_cluster.node import NodeReport, NodeResult
from proctor.engine.executors.ray_cluster.nodes import NodeHandle
from proctor.engine.queue import task_key
from proctor.engine.retries import Cause, Failure
from proctor.errors import StoreError
from proctor.events import Watcher
from proctor.recording.recorder import PART
from proctor.store.filesystem import write_bytes
from proctor.store.run_directory import RunDirectory
from proctor.store.schema import Ledger, RunningEpisode
from proctor.store.videos import video_place
from proctor.types import Episode, EpisodeKey

ROUND_TRIP = 0.1
"""Seconds from an episode's end on a node to the next one's arrival there; what is given ahead bridges it."""


class NodeScheduler:
    """Hands the episodes of a dispatch out to nodes, and takes what they report.

    Args:
        dispatch: the state of the run.
        ledger: where results go.
        directory: where videos and recordings go.
        watcher: who is told of progress.
    """

    def __init__(self, dispatch: Dispatch, ledger: Ledger, directory: RunDirectory, watcher: Watcher) -> None:
        self.dispatch, self._directory = dispatch, directory
        self._publisher = Publisher(dispatch, ledger, watcher)
        self._running: dict[EpisodeKey, int] = {}
        self._steps_of_the_gone = 0

    def begin(self, node: NodeHandle, nodes: Sequence[NodeHandle]) -> None:
        """Let one of the nodes start to work, and know about how much there is for it."""
        left = self.dispatch.waiting + sum(len(other.outstanding) for other in nodes)
        node.actor.begin.remote(max(1, ceil(left / len(nodes))))

    def serve(self, nodes: Sequence[NodeHandle]) -> None:
        """Give every node what it can start now, and as much ahead as bridges the way to it, one by one."""
        helpings: dict[NodeHandle, list[tuple[Episode, int]]] = {node: [] for node in nodes}
        # Few are left: whoever is free first takes the next, and nobody keeps any for later.
        last = self.dispatch.waiting <= sum(node.workers for node in nodes)

        def room(node: NodeHandle) -> float:
            wanted = node.workers + (0 if last else self._ahead(node.workers))
            return (wanted - len(node.outstanding) - len(helpings[node])) / node.workers

        while nodes and room(freest := max(nodes, key=room)) > 0:
            held = freest.freed.popleft() if freest.freed else None
            episode = self.dispatch.take(held)
            if episode is None:
                break
            helpings[freest].append((episode, self.dispatch.attempts(episode)))
        for node, helping in helpings.items():
            if helping:
                node.give(helping)

    def _ahead(self, workers: int) -> int:
        if not self.dispatch.tally.finished:
            return 0
        return min(workers, ceil(workers * ROUND_TRIP / max(self.dispatch.tally.mean_episode(), 1e-3)))

    def receive(self, node: NodeHandle, report: NodeReport) -> None:
        """Store what a node sends; it is durable when this returns."""
        node.workers, node.busy, node.steps = report.workers or node.workers, report.busy, report.steps
        node.begun.update(report.begun)
        self._running.update(one for one in report.running if one.key in node.outstanding)
        for attempt in report.attempts:
            self.dispatch.note_attempt(attempt.key, f"{attempt.reason} ({node.where})", attempt.worker)
        for result in report.results:
            record = result.record
            episode = node.outstanding.pop(record.key, None)
            if episode is None:
                continue
            node.begun.discard(episode.key)
            node.freed.append(task_key(episode))
            self._running.pop(record.key, None)
            self._keep_files(result)
            error = record.error and f"{record.error} ({node.where})"
            worker = record.worker and f"{node.name}/{record.worker}"
            self.dispatch.finish(replace(record, error=error, worker=worker))
        self.publish()

    def lose(self, node: NodeHandle, reason: str, *, blame: bool = True, forgive: bool = False) -> None:
        """Put a lost node's episodes back. Those that had begun have used up an attempt, if there is `blame`.

        With `forgive` the attempts that failed there do not count either: the node is left out for them.
        """
        self._steps_of_the_gone += node.steps
        # Nothing was heard of any: one of them may have ended the node before it could tell.
        charged = set(node.begun & node.outstanding.keys()) or set(node.outstanding)
        for key, episode in node.outstanding.items():
            if blame and key in charged:
                # The loss of the node is told once for all its episodes.
                self.dispatch.fail(episode, Failure(Cause.NODE, f"{reason} ({node.where})", told=True))
            else:
                self.dispatch.put_back(episode, forgive=forgive)
        node.outstanding.clear()
        self.publish()

    def show(self, nodes: Sequence[NodeHandle], *, force: bool = False) -> None:
        """Tell the watchers how it goes, a few times a second."""
        if not self._publisher.is_due() and not force:
            return
        self.dispatch.workers = sum(node.workers for node in nodes)
        steps = self._steps_of_the_gone + sum(node.steps for node in nodes)
        self._publisher.show(steps, sum(node.busy for node in nodes), self._in_flight())

    def publish(self, *, last: bool = False) -> None:
        """Store and tell what was decided; at the last, also how far the episodes are that were cut short."""
        self._publisher.publish(self._in_flight, last=last)

    def _in_flight(self) -> list[RunningEpisode]:
        return [RunningEpisode(key, steps) for key, steps in self._running.items()]

    def _keep_files(self, result: NodeResult) -> None:
        """Write the video and the recording of an episode, before its record is stored."""
        key = result.record.key
        try:
            if result.video is not None:
                video = self._directory.path / video_place(key)
                video.parent.mkdir(parents=True, exist_ok=True)
                write_bytes(video, result.video)
            if result.recording:
                folder = self._directory.recording(key)
                partial = folder.with_name(folder.name + PART)
                partial.mkdir(parents=True, exist_ok=True)
                for name, content in result.recording.items():
                    write_bytes(partial / Path(name).name, content)
                shutil.rmtree(folder, ignore_errors=True)
                partial.rename(folder)
        except OSError as error:
            raise StoreError(
                f"cannot write to {self._directory.path}: {error}. Run it again to continue from here."
            ) from error
