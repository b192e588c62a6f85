"""Everything in this process, one episode at a time: `--eval.use_async_envs=false`, for debuggers.

Breakpoints and tracebacks work as in any script. There is no worker to replace and no watchdog; results are
the same, digest for digest.
"""

from __future__ import annotations

import os
import time
import traceback

from proctor.benchmarks.protocol import Benchmark
from proctor.engine.executors.protocol import Ending, Publisher, RunContext
from proctor.engine.executors.run_order import RunOrder
from proctor.engine.meter import Meter
from proctor.engine.queue import task_key
from proctor.engine.retries import Cause, Failure
from proctor.engine.rollout import LocalActor
from proctor.engine.stopping import StopRules
from proctor.engine.video import VideoError
from proctor.engine.worker import EpisodePlayer
from proctor.errors import Interrupted, PolicyLostError, RunError, StoreError
from proctor.recording.recorder import RecordingError
from proctor.store.schema import EpisodeRecord, Ledger, RunningEpisode
from proctor.types import Episode


def run_inline(
    order: RunOrder,
    benchmark: Benchmark,
    actor: LocalActor,
    context: RunContext,
    ledger: Ledger,
    rules: StopRules | None = None,
) -> Ending:
    """Run the pending episodes here and store each as it ends."""
    meter, held, steps = Meter(), None, 0
    player = EpisodePlayer(order.recipe, benchmark, actor, meter)
    dispatch = order.dispatch(ledger, rules)
    publisher, interrupts = Publisher(dispatch, ledger, context.watcher), context.interrupts
    try:
        while not interrupts.count and (episode := dispatch.take(held)) is not None:
            held, began = task_key(episode), time.monotonic()
            cut_short: list[RunningEpisode] = []
            publisher.begun(episode)
            try:
                with interrupts.abruptly():
                    record = _play_here(player, episode, order)
            except Interrupted:
                cut_short = [RunningEpisode(episode.key, meter.steps)]
            except RunError as error:
                traceback.print_exc()  # whoever runs inline is looking for exactly this
                cut_short = [RunningEpisode(episode.key, meter.steps)]
                dispatch.end(error)
            except (VideoError, RecordingError) as error:
                dispatch.end(StoreError(f"{error}. Free some space, then run it again."))
            except PolicyLostError as error:
                dispatch.fail(episode, Failure(Cause.POLICY, str(error), worker=0))
            except BaseException as error:  # a simulator that calls sys.exit has failed like any other
                failure = Failure(Cause.SIMULATOR, player.describe(error), 0, time.monotonic() - began)
                player.close()  # the simulator's state is unknown now
                dispatch.fail(episode, failure)
            else:
                dispatch.finish(record)
                steps += record.steps
            publisher.publish(cut_short.copy, last=True)
            if dispatch.is_over or interrupts.count or publisher.is_due():
                publisher.show(steps, busy=1)
    finally:
        player.close()
    return Ending(interrupts.first, dispatch.error)


def _play_here(player: EpisodePlayer, episode: Episode, order: RunOrder) -> EpisodeRecord:
    process = os.getpid()
    try:
        record = player.play(episode, *order.sinks(episode), order.trajectory(episode))
    finally:
        if os.getpid() != process:
            os._exit(0)  # a copy that somebody's fork has made: one of us is enough
    return order.completed(record, episode, worker=0)
