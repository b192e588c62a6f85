"""Everything in this process, one episode at a time: `--eval.use_async_envs=false`, for debuggers.

Breakpoints and tracebacks work as in any script. There is no worker to replace and no watchdog; results are
the same, digest for digest.
"""

from __future__ import annotations

import os
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from proctor.benchmarks.processors import processors_for
from proctor.benchmarks.protocol import Benchmark
from proctor.blame import named
from proctor.engine.coordinator import TICK
from proctor.engine.interrupts import Interrupts
from proctor.engine.job import Ending, Job, stored_path
from proctor.engine.meter import Meter
from proctor.engine.proof import BenchmarkProof
from proctor.engine.queue import EpisodeQueue, task_key
from proctor.engine.rollout import LocalActor, View, Witnesses
from proctor.engine.tally import Tally
from proctor.engine.video import VideoError, VideoSink
from proctor.engine.worker import Stage, play
from proctor.errors import Interrupted, PolicyHostError, PolicyLostError, RunError, StoreError
from proctor.events import Watcher
from proctor.policies.protocol import PolicySpec
from proctor.recording.recorder import EpisodeRecorder, RecordingError
from proctor.store.schema import Attempt, EpisodeRecord, Ledger, RunningEpisode
from proctor.types import BenchmarkSpec, Episode


def run_inline(
    job: Job,
    benchmark: Benchmark,
    actor: LocalActor,
    table: Ledger,
    watchers: Sequence[Watcher],
    interrupts: Interrupts,
) -> Ending:
    """Run the pending episodes here and store each as it ends."""
    inline = _Inline(job, benchmark, actor)
    queue, held = EpisodeQueue(job.plan, job.pending), None
    tally, steps = Tally(job.before, table.running()), 0
    failures: Counter[Episode] = Counter()
    shown = 0.0
    try:
        while not interrupts.count and (episode := queue.take(held)) is not None:
            held = task_key(episode)
            try:
                with interrupts.abruptly():
                    record = replace(inline.play(episode), attempts=1 + failures[episode])
            except Interrupted:
                table.write([], [], [RunningEpisode(episode.key, inline.steps)])
                return Ending(stopped_by=interrupts.first)
            except RunError as error:
                traceback.print_exc()  # whoever runs inline is looking for exactly this
                table.write([], [], [RunningEpisode(episode.key, inline.steps)])
                return Ending(error=error)
            except (VideoError, RecordingError) as error:
                return Ending(error=StoreError(f"{error}. Free some space, then run the same command again."))
            except BaseException as error:  # a simulator that calls sys.exit has failed like any other
                failures[episode] += 1
                reason = inline.describe(error)
                table.write([], [Attempt(episode.key, failures[episode], reason, 0)])
                for watcher in watchers:
                    watcher.note(f"{episode}: attempt {failures[episode]} failed: {reason}")
                if failures[episode] < job.eval.max_attempts:
                    queue.put_back(episode)
                    continue
                if isinstance(error, PolicyLostError):
                    lost = f"{episode} lost its policy {failures[episode]} times, the last time because {error}. "
                    return Ending(error=PolicyHostError(f"{lost}The same command goes on from here."))
                record = EpisodeRecord.failed(episode, failures[episode], reason)
            finally:
                queue.ended(episode)
            table.write([record])
            tally.add(record)
            steps += record.steps
            for watcher in watchers:
                watcher.episode(record)
            last = not len(queue) or bool(interrupts.count)
            if last or time.monotonic() - shown >= TICK:
                shown, moment = time.monotonic(), tally.progress(steps, busy=1, workers=1)
                for watcher in watchers:
                    watcher.progress(moment)
    finally:
        inline.close()
    return Ending(stopped_by=interrupts.first)


class _Inline:
    """A worker's work, done here."""

    def __init__(self, job: Job, benchmark: Benchmark, actor: LocalActor) -> None:
        spec = BenchmarkSpec.from_wire(job.recipe.spec)
        policy_spec = PolicySpec.from_wire(job.recipe.policy_spec)
        self._job, self._fps, self._spec = job, job.recipe.fps, spec
        self._meter = Meter()
        self._stage = Stage(benchmark, processors_for(benchmark, policy_spec.env_processors), self._meter)
        self._actor = actor
        self._prove = BenchmarkProof(job.recipe.benchmark, benchmark, job.recipe.benchmark_identity)
        self._view = View.of(policy_spec, spec)
        self.close = self._stage.close

    def play(self, episode: Episode) -> EpisodeRecord:
        video, recording = self._job.video_path(episode), self._job.recording_path(episode)
        witnesses = Witnesses(
            VideoSink(video, self._fps, self._job.eval.video_fps) if video else None,
            EpisodeRecorder(recording, episode, self._spec, self._fps) if recording else None,
        )
        process = os.getpid()
        try:
            record = play(self._stage, episode, self._actor, self._view, self._meter, witnesses)
        finally:
            if os.getpid() != process:
                os._exit(0)  # a copy that somebody's fork has made: one of us is enough
        self._prove()
        return replace(record, video_path=stored_path(video), worker="0")

    @property
    def steps(self) -> int:
        """How far the episode is."""
        return self._meter.steps

    def describe(self, error: BaseException) -> str:
        """Say what broke, and drop the simulator, whose state is unknown now."""
        phase = self._meter.phase.name.lower()
        self._stage.close()
        return f"{phase} raised {named(error)}"
