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
from proctor.errors import ChangedError, PolicyError, PolicyLostError, RunError
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

    def build(self, episode: Episode) -> None:
        """Have a simulator ready for an episode's task, with what a first reset and a first picture take."""
        simulator = self._cache.simulator_for(episode)
        self._meter.enter(Phase.RESET)
        simulator.reset(episode, frozenset(self._spec.features))
        simulator.observe()

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
        actor = RemoteActor(slot, EventFd(host_bell)) if settings.policy is None else own_copy(settings, meter)
        player = EpisodePlayer(settings, benchmark, actor, meter)
    except RunError as error:
        print(traceback.format_exc(), flush=True)  # noqa: T201 - goes to this worker's log
        channel.send(policy_fault(error))
        return
    meter.enter(Phase.IDLE)
    channel.send({"type": "ready", "startup": now() - settings.spawned})
    Worker(channel, slot, meter, player, settings, actor).run()


class Worker:
    """A worker that is ready: it does what it is ordered, one thing after the other.

    Args:
        channel: where orders come from, and what it has to say goes.
        slot: its shared memory.
        meter: where the time goes.
        player: runs episodes.
        settings: what it was told of its run.
        actor: where actions come from.
    """

    def __init__(
        self,
        channel: Channel,
        slot: Slot,
        meter: Meter,
        player: EpisodePlayer,
        settings: WorkerBoot,
        actor: Actor,
    ) -> None:
        self._channel, self._slot, self._meter, self._player = channel, slot, meter, player
        self._settings, self._actor = settings, actor

    def run(self) -> None:
        """Work until told to stop, or until something broke that only a fresh process mends."""
        goes_on = True
        while goes_on:
            order, beside = self._channel.receive()
            match order["type"]:
                case "stop":
                    self._meter.enter(Phase.BUILD)
                    self._player.close()
                    return
                case "run":
                    self._join(WorkerBoot(**order["boot"]), *beside)
                case "build":
                    goes_on = self._build(Episode.from_wire(order["episode"]))
                case "host":
                    self._ask(beside[0])
                case "copy":
                    goes_on = self._load_copy(WorkerBoot(**order["boot"]))
                case _:
                    goes_on = self._play(order)
            self._meter.enter(Phase.IDLE)

    def _join(self, settings: WorkerBoot, host_bell: int, log: int) -> None:
        """Work for another run."""
        print_to(log)
        self._settings = settings
        if settings.policy is None:
            self._ask(host_bell)
        else:  # a policy of its own is the one that it has: otherwise it would not have been asked
            self._player.play_for(settings, self._actor)
        self._channel.send({"type": "ready", "startup": now() - settings.spawned})

    def _build(self, episode: Episode) -> bool:
        """Build a simulator before anybody wants it. Of what fails nobody hears who has not given it work yet."""
        try:
            self._player.build(episode)
        except BaseException as error:
            self._tell_failure(error)
            return False
        return True

    def _tell_failure(self, error: BaseException) -> None:
        print(traceback.format_exc(), flush=True)  # noqa: T201 - goes to this worker's log
        reason = keep_end(self._player.describe(error), 2000)
        self._channel.send({"type": "simulator_error", "reason": reason})

    def _ask(self, host_bell: int) -> None:
        """Ask the host behind this bell from now on."""
        self._actor = RemoteActor(self._slot, EventFd(host_bell))
        self._player.play_for(self._settings, self._actor)

    def _load_copy(self, settings: WorkerBoot) -> bool:
        """Ask a policy of its own from now on; if it cannot be loaded here, the host as before."""
        try:
            self._actor = own_copy(settings, self._meter)
        except ChangedError as error:
            self._channel.send(policy_fault(error))
            return False
        except RunError as error:
            print(traceback.format_exc(), flush=True)  # noqa: T201 - goes to this worker's log
            self._channel.send({"type": "no_copy", "reason": keep_end(str(error), 2000)})
        else:
            self._settings = settings
            self._player.play_for(settings, self._actor)
            self._channel.send({"type": "copied"})
        return True

    def _play(self, order: Message) -> bool:
        """Run an episode and report it; returns whether this process is still good for another."""
        video, recording = (order[kind] and Path(order[kind]) for kind in ("video", "recording"))
        try:
            episode = Episode.from_wire(order["episode"])
            record = self._player.play(episode, video, recording, order["trajectory"])
        except PolicyLostError as error:
            self._channel.send({"type": "policy_lost", "reason": keep_end(str(error), 2000)})
        except RunError as error:
            print(traceback.format_exc(), flush=True)  # noqa: T201 - goes to this worker's log
            self._channel.send(policy_fault(error))
        except (VideoError, RecordingError) as error:
            self._channel.send({"type": "video_error", "message": str(error)})
        except BaseException as error:  # a simulator that calls sys.exit has failed like any other
            # The simulator's state is unknown now: this process ends and another takes its place.
            if self._meter.phase == Phase.ACT:
                print(traceback.format_exc(), flush=True)  # noqa: T201 - goes to this worker's log
                fault = PolicyError(f"the policy failed: {described(error)}")
                self._channel.send(policy_fault(fault))
            else:
                self._tell_failure(error)
            return False
        else:
            self._channel.send({"type": "done", "record": record.to_wire()})
        return True


def own_copy(settings: WorkerBoot, meter: Meter) -> LocalActor:
    """Load a worker's own copy of the policy, which must turn out to be the run's."""
    assert settings.policy is not None
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
