"""Everything in this process, one episode at a time: `--eval.use_async_envs=false`, for debuggers.

Breakpoints and tracebacks work as in any script. There is no worker to replace and no watchdog; results are
the same, digest for digest.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from proctor.benchmarks.protocol import Benchmark, Episode
from proctor.config.settings import RunSettings
from proctor.engine.coordinator import Ending
from proctor.engine.events import Progress, Watcher
from proctor.engine.interrupts import Interrupts
from proctor.engine.meter import Meter
from proctor.engine.queue import EpisodeQueue, Prefix, task_key
from proctor.engine.rollout import LocalActor, View
from proctor.engine.video import VideoError, VideoSink
from proctor.engine.worker import Stage, play
from proctor.errors import PolicyError, ProctorError, StoreError
from proctor.policies.protocol import Policy
from proctor.stats.intervals import wilson
from proctor.store.episodes import EpisodeTable
from proctor.store.records import Attempt, EpisodeRecord


def run_inline(
    plan: Sequence[Episode],
    pending: Sequence[Episode],
    benchmark: Benchmark,
    policy: Policy,
    settings: RunSettings,
    table: EpisodeTable,
    watchers: Sequence[Watcher],
    interrupts: Interrupts,
    video_path: Callable[[Episode], Path | None],
) -> Ending:
    """Run the pending episodes here and store each as it ends."""
    meter = Meter()
    stage = Stage(benchmark, meter)
    actor = LocalActor(policy, benchmark.spec.action_size)
    view = View.of(policy.spec, benchmark.spec)
    queue, prefix = EpisodeQueue(plan, pending), Prefix(plan)
    failures: Counter[Episode] = Counter()
    began, steps, here, held = time.monotonic(), 0, 0, None
    known = {record.key: record for record in table.records()}
    for record in known.values():
        prefix.add(record.key, record.success)
    error: ProctorError | None = None
    try:
        while not interrupts.count and (episode := queue.take(held)) is not None:
            held = task_key(episode)
            video = video_path(episode)
            sink = VideoSink(video, benchmark.fps, settings.video_fps) if video else None
            try:
                record = replace(
                    play(stage, episode, actor, view, meter, sink),
                    attempts=1 + failures[episode],
                    video_path=str(Path(*video.parts[-3:])) if video else None,
                )
            except PolicyError as problem:
                error = problem
                break
            except VideoError as problem:
                error = StoreError(f"{problem}. Free some space, then run the same command again.")
                break
            except Exception as problem:
                stage.close()
                failures[episode] += 1
                reason = f"{meter.phase.name.lower()} raised {type(problem).__name__}: {problem}"
                table.write([], [Attempt(episode.key, failures[episode], reason, 0)])
                for watcher in watchers:
                    watcher.note(f"{episode}: attempt {failures[episode]} failed: {reason}")
                queue.ended(episode)
                if failures[episode] < settings.max_attempts:
                    queue.put_back(episode)
                    continue
                record = EpisodeRecord.failed(episode, failures[episode], reason)
            else:
                queue.ended(episode)
            table.write([record])
            known[record.key] = record
            prefix.add(record.key, record.success)
            here, steps = here + 1, steps + record.steps
            for watcher in watchers:
                watcher.episode(record)
                watcher.progress(
                    Progress(
                        ended=len(known),
                        total=len(plan),
                        errors=sum(r.status == "error" for r in known.values()),
                        prefix=wilson(prefix.successes, prefix.finished),
                        steps=steps,
                        seconds=time.monotonic() - began,
                        busy=1,
                        workers=1,
                        episodes_here=here,
                    )
                )
    finally:
        stage.close()
    return Ending(stopped_by=interrupts.first, error=error)
