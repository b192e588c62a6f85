"""What a coordinator holds of a worker process."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from proctor.benchmarks.rendering import NO_GL
from proctor.config.settings import LimitSettings
from proctor.engine.host_handle import Host, told
from proctor.engine.process import ChannelChild
from proctor.engine.queue import TaskKey, task_key
from proctor.engine.retries import Cause, Failure
from proctor.engine.transport import Phase, Slot, now
from proctor.engine.watchdog import Stillness, overdue
from proctor.engine.worker import WorkerBoot
from proctor.machine.processes import describe_exit
from proctor.store.schema import RunningEpisode
from proctor.types import Episode


@dataclass(frozen=True, kw_only=True)
class WorkerRecipe(WorkerBoot):
    """All that is needed to start a worker, and to start it again."""

    logs: Path
    environment: Mapping[str, str]
    python: str | None = None


_POLICY_PHASES = (Phase.LOAD, Phase.ACT)

_WORLD = ("benchmark", "env", "benchmark_identity", "python", "policy", "policy_settings")
"""What of a recipe is settled when a worker has started, with its environment; the rest it can be told anew."""


def _log(recipe: WorkerRecipe, number: int) -> Path:
    return recipe.logs / f"worker-{number}.log"


class WorkerHandle:
    """One worker process: its slot, and the episodes it was given (the first is the one it runs)."""

    def __init__(self, number: int, recipe: WorkerRecipe, host: Host | None) -> None:
        self.number, self.host, self._recipe = number, host, recipe
        self._steps_before = 0
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
        self.held_task: TaskKey | None = None
        """The task whose simulator the worker has, or will have when it gets to its last order."""
        try:
            if host is not None:
                host.attach(number, self.slot)
            self.child = ChannelChild(
                "worker",
                told(WorkerBoot, recipe),
                # A worker without a host rings nobody; its own bell stands in.
                [*self.slot.descriptors, (self.slot if host is None else host).bell.fileno()],
                log=_log(recipe, number),
                env=dict(recipe.environment),
                python=recipe.python,
            )
        except BaseException:  # no room for one more process or descriptor, say: nothing of it may stay behind
            if host is not None:
                host.detach(number)
            self.slot.close()
            raise

    def fits(self, recipe: WorkerRecipe) -> bool:
        """Whether what it has loaded is what a recipe says: benchmark, processors, and a policy of its own."""
        if any(getattr(self._recipe, name) != getattr(recipe, name) for name in _WORLD):
            return False
        # One that can draw may as well draw nothing.
        if recipe.environment not in (self._recipe.environment, NO_GL):
            return False
        own, other = self._recipe.policy_identity, recipe.policy_identity
        if recipe.policy is not None:
            return own["fingerprint"] is not None and bool(own == other)
        return bool(own["env_processors"] == other["env_processors"])

    def join(self, number: int, recipe: WorkerRecipe, host: Host | None) -> None:
        """Work for another run, whose recipe it fits."""
        self.number, self._recipe = number, recipe
        self._steps_before += self.steps
        if host is not None:
            self.serve_by(host)
        bell = (self.slot if host is None else host).bell.fileno()
        with self.child.move_log(_log(recipe, number)) as log:
            self.child.tell({"type": "run", "boot": told(WorkerBoot, recipe)}, [bell, log.fileno()])

    @property
    def steps(self) -> int:
        """How many steps it has made for its run."""
        return self.slot.counted()[0] - self._steps_before

    def leave(self) -> None:
        """Be done with a run, and be nobody's until it joins another."""
        if self.host is not None:
            self.host.detach(self.number)
            self.host = None

    def give(
        self,
        episode: Episode,
        video: Path | None = None,
        recording: Path | None = None,
        trajectory: bytes = b"",
    ) -> None:
        """Order an episode; a worker reads its next order when it has ended the one before."""
        if not self.assigned:
            self.begun = now()
        self.assigned.append(episode)
        self.held_task = task_key(episode)
        self.child.tell(
            {
                "type": "episode",
                "episode": episode.to_wire(),
                "video": str(video) if video else None,
                "recording": str(recording) if recording else None,
                "trajectory": trajectory,
            }
        )

    def build(self, episode: Episode) -> None:
        """Order a simulator for an episode's task, of which others may be run on it later."""
        self.held_task = task_key(episode)
        self.child.tell({"type": "build", "episode": episode.to_wire()})

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

    def move_to(self, host: Host) -> None:
        """Be served by another host than before; it must have nothing to do, or its episode would be lost."""
        self.leave()
        self.serve_by(host)
        self.child.tell({"type": "host"}, [host.bell.fileno()])

    def load_copy(self, recipe: WorkerRecipe) -> None:
        """Let it load a policy of its own after what it was given; if it cannot, its host goes on serving."""
        self.child.tell({"type": "copy", "boot": told(WorkerBoot, recipe)})

    def own_copy(self, recipe: WorkerRecipe) -> None:
        """Note that it has loaded one."""
        self._recipe = recipe
        self.leave()

    def retire(self) -> None:
        """Let it end after what it was given."""
        self.retiring = True
        self.child.ask_to_stop()

    @property
    def is_ready(self) -> bool:
        """Whether it has built a simulator."""
        phase = self.slot.phase.read()[0]
        waits = phase == Phase.IDLE and not self.assigned
        return self.steps > 0 or waits or phase not in (Phase.START, Phase.LOAD, Phase.BUILD, Phase.IDLE)

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
            self.verdict = f"the policy hangs: {reason}" if phase in _POLICY_PHASES else reason
            self.child.abort()

    def bury(self) -> Failure:
        """Collect the dead process, and return what its death is to the episode that it was at."""
        phase, _ = self.slot.phase.read()
        ending = describe_exit(self.child.reap())
        words = self.child.last_words()
        reason = f"the worker {ending} during {phase.name.lower()}" + (f": {words}" if words else "")
        cause = Cause.POLICY if phase in _POLICY_PHASES else Cause.SIMULATOR
        return Failure(cause, self.verdict or reason, self.number, lasted=now() - self.begun)
