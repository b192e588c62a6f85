"""A worker: one process, one simulator at a time, reused across episodes and tasks.

It imports almost nothing before its first episode, so it starts in tenths of a second. It knows no store,
no queue and no other worker; it is told episodes and reports records.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
from numpy.typing import NDArray

from proctor.benchmarks.processors import EnvProcessor, make_simulator, processors_for
from proctor.benchmarks.protocol import Benchmark, Simulator
from proctor.blame import described, named
from proctor.config.plain_values import from_plain
from proctor.config.registry import load_object
from proctor.engine.action_noise import ActionNoise, EpisodeNoise
from proctor.engine.eventfd import EventFd
from proctor.engine.identity_proof import BenchmarkProof, PolicyProof
from proctor.engine.messages import Channel, Message, keep_end, policy_fault, print_to
from proctor.engine.meter import Meter
from proctor.engine.number_sink import NumberSink
from proctor.engine.rollout import Actor, EpisodeSinks, LocalActor, PolicyView, run_episode
from proctor.engine.stored_actor import StoredActor
from proctor.engine.transport import Phase, Slot, now
from proctor.engine.video import VideoError, VideoSink
from proctor.errors import PolicyError, PolicyLostError, RunError
from proctor.policies.protocol import Policy, PolicySpec
from proctor.recording.recorder import EpisodeRecorder, RecordingError, RecordingOptions
from proctor.store.schema import EpisodeRecord
from proctor.store.trajectories import unpack_trajectory
from proctor.types import NO_VIDEOS, BenchmarkSpec, Episode, Observation, VideoChoice


@dataclass(frozen=True)
class WorkerBoot:
    """What a worker is told at its start. Plain values: it crosses a process boundary."""

    benchmark: str
    env: dict[str, Any]
    spec: dict[str, Any]
    policy_spec: dict[str, Any]
    benchmark_identity: dict[str, Any]
    policy_identity: dict[str, Any]
    policy: str | None = None
    policy_settings: dict[str, Any] | None = None
    fps: int = 30
    video_fps: int = 30
    films: dict[str, Any] | None = None
    only_success: bool = False
    noise: dict[str, Any] | None = None
    store_actions: bool = True
    spawned: float = 0.0


class RemoteActor:
    """A policy in the host process, reached through shared memory."""

    phase = Phase.WAIT

    def __init__(self, slot: Slot, host_bell: EventFd) -> None:
        self._slot, self._host_bell = slot, host_bell
        self._first = b""
        self._generation = 0

    def begin(self, episode: Episode) -> None:
        """The host learns of the episode with its first question."""
        self._first = msgpack.packb(episode.to_wire())
        self._generation = self._slot.generation

    def act(self, window: Sequence[Observation]) -> NDArray[Any]:
        """Ask the host and wait."""
        chunk = self._slot.ask(self._first, window, self._host_bell, self._generation)
        self._first = b""
        return chunk


class SimulatorCache:
    """Keeps the simulator of the last task, because the next episode is usually of the same one."""

    def __init__(self, benchmark: Benchmark, processors: Sequence[EnvProcessor], meter: Meter) -> None:
        self._benchmark, self._processors, self._meter = benchmark, processors, meter
        self._simulator: Simulator | None = None
        self._task: tuple[str, int] | None = None

    def simulator_for(self, episode: Episode) -> Simulator:
        """Return a simulator for the episode's task, building one if the last was for another."""
        key = (episode.task.group, episode.task.task_id)
        if self._simulator is None or self._task != key:
            self._meter.enter(Phase.BUILD)
            self.close()
            self._simulator = make_simulator(self._benchmark, episode.task, self._processors)
            self._task = key
        return self._simulator

    def close(self) -> None:
        """Free the simulator. Two that draw in one process would give wrong images."""
        if self._simulator is not None:
            self._simulator.close()
            self._simulator = None


def play(
    cache: SimulatorCache,
    episode: Episode,
    actor: Actor,
    view: PolicyView,
    meter: Meter,
    sinks: EpisodeSinks,
    noise: EpisodeNoise | None = None,
) -> EpisodeRecord:
    """Run one episode on a cached simulator; what is kept of it is durable when this returns."""
    meter.start_episode()
    try:
        record = run_episode(cache.simulator_for(episode), episode, actor, view, meter, sinks, noise)
        meter.enter(Phase.ENCODE)
        sinks.finish(record)
    except BaseException:
        sinks.abandon()
        raise
    return record


class EpisodePlayer:
    """Runs one episode after the other, in a worker or in the caller's own process.

    Args:
        boot: what a worker is told.
        benchmark: the benchmark.
        actor: where actions come from.
        meter: where the time goes.
    """

    def __init__(self, boot: WorkerBoot, benchmark: Benchmark, actor: Actor, meter: Meter) -> None:
        self._meter = meter
        self._prove = BenchmarkProof(boot.benchmark, benchmark, boot.benchmark_identity)
        processors = PolicySpec.from_wire(boot.policy_spec).env_processors
        self._cache = SimulatorCache(benchmark, processors_for(benchmark, processors), meter)
        self.play_for(boot, actor)

    def play_for(self, boot: WorkerBoot, actor: Actor) -> None:
        """Play the episodes of a run, on the simulator that is there: benchmark and processors are the same."""
        self._boot, self._actor = boot, actor
        self._spec = BenchmarkSpec.from_wire(boot.spec)
        self._view = PolicyView.of(PolicySpec.from_wire(boot.policy_spec), self._spec, boot.store_actions)
        self._noise: ActionNoise | None = None if boot.noise is None else from_plain(ActionNoise, boot.noise)
        self._films = NO_VIDEOS if boot.films is None else VideoChoice(**boot.films)
        self._recording = RecordingOptions(boot.fps, self._noise is not None, boot.only_success)

    def play(
        self, episode: Episode, video: Path | None, recording: Path | None, trajectory: bytes = b""
    ) -> EpisodeRecord:
        """Run an episode, filmed and recorded into these files; with stored actions if there are any."""
        actor = StoredActor(unpack_trajectory(trajectory)) if trajectory else self._actor
        sinks = EpisodeSinks(
            VideoSink(video, self._boot.fps, self._boot.video_fps) if video else None,
            EpisodeRecorder(recording, episode, self._spec, self._recording) if recording else None,
            self._films,
            # A replay for a film looks at no camera, so that observing costs next to nothing.
            NumberSink(video.with_suffix(".numbers"), self._spec) if video and trajectory else None,
        )
        # Stored actions are those that were executed: noise is in them.
        noise = None if self._noise is None or trajectory else self._noise.of_episode(episode, self._spec)
        record = play(self._cache, episode, actor, self._view, self._meter, sinks, noise)
        self._meter.enter(Phase.BUILD)
        self._prove()  # its simulator may have been built from code that was imported only now
        return record

    def describe(self, error: BaseException) -> str:
        """Say what an error broke off."""
        return f"{self._meter.phase.name.lower()} raised {named(error)}"

    def close(self) -> None:
        """Free the simulator."""
        self._cache.close()


def run_worker(channel: Channel, boot: Message, descriptors: list[int]) -> None:
    """Be a worker until told to stop, or until something broke that only a fresh process mends."""
    settings = WorkerBoot(**boot)
    memory, bell, host_bell = descriptors
    slot = Slot(memory, bell)
    meter = Meter(slot)
    meter.enter(Phase.START)
    benchmark_class: type[Benchmark] = load_object(settings.benchmark)
    benchmark = benchmark_class(benchmark_class.Settings(**settings.env))
    try:
        actor = _actor(settings, slot, EventFd(host_bell), meter)
        player = EpisodePlayer(settings, benchmark, actor, meter)
    except RunError as error:
        print(traceback.format_exc(), flush=True)  # noqa: T201 - goes to this worker's log
        channel.send(policy_fault(error))
        return
    meter.enter(Phase.IDLE)
    channel.send({"type": "ready", "startup": now() - settings.spawned})
    while True:
        order, beside = channel.receive()
        if order["type"] == "stop":
            meter.enter(Phase.BUILD)
            player.close()
            return
        if order["type"] == "run":
            settings = WorkerBoot(**order["boot"])
            host_bell, log = beside
            print_to(log)
            # A policy of its own is the one that it has: otherwise it would not have been asked.
            actor = RemoteActor(slot, EventFd(host_bell)) if settings.policy is None else actor
            player.play_for(settings, actor)
            channel.send({"type": "ready", "startup": now() - settings.spawned})
            continue
        video, recording = (order[kind] and Path(order[kind]) for kind in ("video", "recording"))
        try:
            record = player.play(Episode.from_wire(order["episode"]), video, recording, order["trajectory"])
        except PolicyLostError as error:
            channel.send({"type": "policy_lost", "reason": keep_end(str(error), 2000)})
        except RunError as error:
            print(traceback.format_exc(), flush=True)  # noqa: T201 - goes to this worker's log
            channel.send(policy_fault(error))
        except (VideoError, RecordingError) as error:
            channel.send({"type": "video_error", "message": str(error)})
        except BaseException as error:  # a simulator that calls sys.exit has failed like any other
            # The simulator's state is unknown now: this process ends and another takes its place.
            print(traceback.format_exc(), flush=True)  # noqa: T201 - goes to this worker's log
            if meter.phase == Phase.ACT:
                channel.send(policy_fault(PolicyError(f"the policy failed: {described(error)}")))
                return
            channel.send({"type": "simulator_error", "reason": keep_end(player.describe(error), 2000)})
            return
        else:
            channel.send({"type": "done", "record": record.to_wire()})
        finally:
            meter.enter(Phase.IDLE)


def _actor(settings: WorkerBoot, slot: Slot, host_bell: EventFd, meter: Meter) -> Actor:
    if settings.policy is None:
        return RemoteActor(slot, host_bell)
    spec = BenchmarkSpec.from_wire(settings.spec)
    meter.enter(Phase.LOAD)
    try:
        policy_class: type[Policy] = load_object(settings.policy)
        own_settings = policy_class.Settings(**(settings.policy_settings or {}))
        spec_of_the_run = PolicySpec.from_wire(settings.policy_spec)
        proof = PolicyProof(
            settings.policy,
            own_settings,
            lambda: policy_class.rebuild(own_settings, spec, spec_of_the_run),
            settings.policy_identity,
        )
    except RunError:
        raise
    except BaseException as error:
        raise PolicyError(f"the policy could not be loaded: {described(error)}") from error
    return LocalActor(proof.policy, spec.action_size, proof)
