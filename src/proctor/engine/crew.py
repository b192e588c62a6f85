"""The workers of a run, as the coordinator sees them: who is alive, and who has which episode."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from proctor.config.settings import LimitSettings
from proctor.engine.child import Child
from proctor.engine.hosts import Host
from proctor.engine.messages import ChannelClosed
from proctor.engine.queue import TaskKey, task_key
from proctor.engine.transport import Phase, Slot, now
from proctor.engine.watchdog import Stillness, overdue
from proctor.engine.worker import WorkerBoot
from proctor.machine.processes import describe_exit
from proctor.store.schema import RunningEpisode
from proctor.types import Episode


@dataclass(frozen=True)
class WorkerRecipe:
    """All that is needed to start a worker, and to start it again."""

    benchmark: str
    env: dict[str, Any]
    spec: dict[str, Any]
    policy_spec: dict[str, Any]
    benchmark_identity: dict[str, Any]
    policy_identity: dict[str, Any]
    logs: Path
    environment: Mapping[str, str]
    policy: str | None = None
    policy_settings: dict[str, Any] | None = None
    fps: int = 30
    video_fps: int = 30
    python: str | None = None


class Death(NamedTuple):
    """Why a worker died, whether in its own copy of the policy, and how long its episode had been under way."""

    reason: str
    of_policy: bool
    lasted: float


_THE_POLICYS = (Phase.LOAD, Phase.ACT)


class Worker:
    """One worker process: its slot, and the episodes it was given (the first is the one it runs)."""

    def __init__(self, number: int, recipe: WorkerRecipe, host: Host | None) -> None:
        self.number, self.host = number, host
        self.slot = Slot.create()
        self.slot.announce(0 if host is None else host.generation)
        self.slot.phase.write(Phase.START, now())
        self.assigned: deque[Episode] = deque()
        self.finished = 0
        self._over = 0  # episodes of this process that are no longer its own, however they ended
        self.verdict: str | None = None
        self.retiring = False
        self.begun = now()
        """When it was given the episode that it is at, or came to it."""
        self._stillness = Stillness()
        self._last_task: TaskKey | None = None
        if host is not None:
            host.attach(number, self.slot)
        boot = WorkerBoot(
            benchmark=recipe.benchmark,
            env=recipe.env,
            spec=recipe.spec,
            policy_spec=recipe.policy_spec,
            spawned=now(),
            benchmark_identity=recipe.benchmark_identity,
            policy_identity=recipe.policy_identity,
            policy=recipe.policy,
            policy_settings=recipe.policy_settings,
            fps=recipe.fps,
            video_fps=recipe.video_fps,
        )
        self.child = Child(
            "worker",
            asdict(boot),
            # A worker without a host rings nobody; its own bell stands in.
            [*self.slot.descriptors, (self.slot if host is None else host).bell.fileno()],
            log=recipe.logs / f"worker-{number}.log",
            env=dict(recipe.environment),
            python=recipe.python,
        )

    @property
    def held_task(self) -> TaskKey | None:
        """The task whose simulator the worker has, or will have when it gets to its last order."""
        return self._last_task

    def give(self, episode: Episode, video: Path | None = None, recording: Path | None = None) -> None:
        """Order an episode; a worker reads its next order when it has ended the one before."""
        if not self.assigned:
            self.begun = now()
        self.assigned.append(episode)
        self._last_task = task_key(episode)
        try:
            self.child.channel.send(
                {
                    "type": "episode",
                    "episode": episode.to_wire(),
                    "video": str(video) if video else None,
                    "recording": str(recording) if recording else None,
                }
            )
        except ChannelClosed:
            pass  # it died; its pidfd tells, and the episode goes to another

    def release(self) -> Episode:
        """Return the episode that it was at, which has ended or was lost."""
        self._over += 1
        self.begun = now()
        return self.assigned.popleft()

    def running(self) -> RunningEpisode | None:
        """Return the episode that it is at, and how many steps that has made."""
        if not self.assigned:
            return None
        number, steps = self.slot.advanced()
        # The word in shared memory may be ahead of, or behind, what the worker has told in messages.
        return RunningEpisode(self.assigned[0].key, steps if number == self._over + 1 else 0)

    def serve_by(self, host: Host) -> None:
        """Be served by another host, in place of one that died; an episode in flight starts again."""
        self.host = host
        host.attach(self.number, self.slot)
        self.slot.announce(host.generation)

    def retire(self) -> None:
        """Let it end after what it was given."""
        self.retiring = True
        self.child.ask_to_stop()

    @property
    def asks(self) -> bool:
        """Whether a question of its waits for its host."""
        return self.host is not None and self.slot.asks(self.host.generation)

    def kill_if_hung(self, limits: LimitSettings) -> None:
        """End a worker whose phase exceeds its limit; its death is handled like any other."""
        if self.verdict is not None:
            return
        phase, since = self.slot.phase.read()
        # It owes nothing while its host does (which has limits of its own), or while it has no order.
        owes = not self.asks if phase == Phase.WAIT else phase != Phase.IDLE or self.assigned or self.retiring
        seconds = self._stillness.seconds((phase, since, bool(owes)))
        if owes and (reason := overdue(phase, seconds, limits)) is not None:
            self.verdict = f"the policy hangs: {reason}" if phase in _THE_POLICYS else reason
            self.child.abort()

    def bury(self) -> Death:
        """Collect the dead process."""
        phase, _ = self.slot.phase.read()
        ending = describe_exit(self.child.reap())
        words = self.child.last_words()
        reason = f"the worker {ending} during {phase.name.lower()}" + (f": {words}" if words else "")
        return Death(self.verdict or reason, of_policy=phase in _THE_POLICYS, lasted=now() - self.begun)
