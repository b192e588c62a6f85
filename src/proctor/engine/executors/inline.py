"""Everything in this process, one episode at a time: `--eval.use_async_envs=false`, for debuggers.

Breakpoints and tracebacks work as in any script. There is no worker to replace and no watchdog; results are
the same, digest for digest.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace

from proctor.benchmarks.processors import processors_for
from proctor.benchmarks.protocol import Benchmark
from proctor.blame import named
from proctor.engine.dispatch import Cause, Failure
from proctor.engine.executors.local import RunOrder, stored_path
from proctor.engine.executors.protocol import Ending, Publisher
from proctor.engine.interrupts import Interrupts
from proctor.engine.meter import Meter
from proctor.engine.proof import BenchmarkProof
from proctor.engine.queue import task_key
from proctor.engine.rollout import EpisodeSinks, LocalActor, View
from proctor.engine.stopping import StopRules
from proctor.engine.video import VideoError, VideoSink
from proctor.engine.worker import SimulatorCache, play
from proctor.errors import Interrupted, PolicyLostError, RunError, StoreError
from proctor.events import Watcher
from proctor.policies.protocol import PolicySpec
from proctor.recording.recorder import EpisodeRecorder, RecordingError
from proctor.store.schema import EpisodeRecord, Ledger, RunningEpisode
from proctor.types import BenchmarkSpec, Episode


def run_inline(
    order: RunOrder,
    benchmark: Benchmark,
    actor: LocalActor,
    ledger: Ledger,
    watchers: Sequence[Watcher],
    interrupts: Interrupts,
    rules: StopRules | None = None,
) -> Ending:
    """Run the pending episodes here and store each as it ends."""
    inline, held, steps = _Inline(order, benchmark, actor), None, 0
    dispatch = order.dispatch(ledger, rules)
    publisher = Publisher(dispatch, ledger, watchers)
    try:
        while not interrupts.count and (episode := dispatch.take(held)) is not None:
            held, began = task_key(episode), time.monotonic()
            cut_short: list[RunningEpisode] = []
            publisher.begun(episode)
            try:
                with interrupts.abruptly():
                    record = inline.play(episode)
            except Interrupted:
                cut_short = inline.running(episode)
            except RunError as error:
                traceback.print_exc()  # whoever runs inline is looking for exactly this
                cut_short = inline.running(episode)
                dispatch.end(error)
            except (VideoError, RecordingError) as error:
                dispatch.end(StoreError(f"{error}. Free some space, then run it again."))
            except BaseException as error:  # a simulator that calls sys.exit has failed like any other
                cause = Cause.POLICY if isinstance(error, PolicyLostError) else Cause.SIMULATOR
                lasted = time.monotonic() - began
                dispatch.fail(episode, Failure(cause, inline.describe(error), worker=0, lasted=lasted))
            else:
                dispatch.finish(record)
                steps += record.steps
            publisher.publish(cut_short.copy, last=True)
            if dispatch.is_over or interrupts.count or publisher.is_due():
                publisher.show(steps, busy=1)
    finally:
        inline.close()
    return Ending(interrupts.first, dispatch.error)


class _Inline:
    """A worker's work, done here."""

    def __init__(self, order: RunOrder, benchmark: Benchmark, actor: LocalActor) -> None:
        spec = BenchmarkSpec.from_wire(order.recipe.spec)
        policy_spec = PolicySpec.from_wire(order.recipe.policy_spec)
        self._order, self._fps, self._spec = order, order.recipe.fps, spec
        self._meter = Meter()
        self._cache = SimulatorCache(benchmark, processors_for(benchmark, policy_spec.env_processors), self._meter)
        self._actor = actor
        self._prove = BenchmarkProof(order.recipe.benchmark, benchmark, order.recipe.benchmark_identity)
        self._view = View.of(policy_spec, spec)
        self.close = self._cache.close

    def play(self, episode: Episode) -> EpisodeRecord:
        video, recording = self._order.video_path(episode), self._order.recording_path(episode)
        sinks = EpisodeSinks(
            VideoSink(video, self._fps, self._order.eval.video_fps) if video else None,
            EpisodeRecorder(recording, episode, self._spec, self._fps) if recording else None,
        )
        process = os.getpid()
        try:
            record = play(self._cache, episode, self._actor, self._view, self._meter, sinks)
        finally:
            if os.getpid() != process:
                os._exit(0)  # a copy that somebody's fork has made: one of us is enough
        self._prove()
        return replace(record, video_path=stored_path(video), worker="0")

    def running(self, episode: Episode) -> list[RunningEpisode]:
        """Return how far the episode is, in which something has broken off."""
        return [RunningEpisode(episode.key, self._meter.steps)]

    def describe(self, error: BaseException) -> str:
        """Say what broke, and drop the simulator, whose state is unknown now."""
        phase = self._meter.phase.name.lower()
        self._cache.close()
        return f"{phase} raised {named(error)}"
