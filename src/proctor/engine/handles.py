"""What the event loop holds of the others: a handle on each worker, and on whatever serves the policy."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from proctor.benchmarks.rendering import NO_GL
from proctor.config.settings import LimitSettings
from proctor.engine.eventfd import EventFd
from proctor.engine.interrupts import Interrupts
from proctor.engine.messages import ChannelClosed, Message, as_error
from proctor.engine.policy_host import CELL_BYTES, HOST_MEMORY, MOST_LANES, HostBoot, LaneCount, PolicyServer
from proctor.engine.process import ChannelChild, Readable, wait_readable
from proctor.engine.queue import TaskKey, task_key
from proctor.engine.retries import Cause, Failure
from proctor.engine.transport import Phase, PhaseCell, Slot, map_memory, new_memory, now
from proctor.engine.watchdog import Stillness, overdue
from proctor.engine.worker import WorkerBoot
from proctor.errors import Interrupted, PolicyHostError, RunError, UsageError
from proctor.installation import install_command
from proctor.machine.processes import describe_exit
from proctor.policies.protocol import Cost, Pass, Policy, PolicySpec
from proctor.store.schema import RunningEpisode
from proctor.types import Episode


@dataclass(frozen=True, kw_only=True)
class HostRecipe(HostBoot):
    """All that is needed to start a host, and to start it again; `reloads`: or to load it in place of another."""

    log: Path
    python: str | None = None
    reloads: bool = False


def _boot(kind: type[WorkerBoot | HostBoot], recipe: WorkerBoot | HostBoot) -> dict[str, Any]:
    """Return the part of a recipe that the child is told."""
    return {field.name: getattr(recipe, field.name) for field in fields(kind)} | {"spawned": now()}


class HostHandle:
    """A policy host in a process of its own."""

    def __init__(self, recipe: HostRecipe, bell: EventFd | None = None) -> None:
        self.recipe, self.generation = recipe, recipe.generation
        self.bell = EventFd() if bell is None else bell
        self.startup = 0.0
        self.cost: Cost | None = None
        self.identity: dict[str, Any] = recipe.expected or {}
        self.versions: dict[str, str] = {}
        self.verdict: str | None = None
        memory = new_memory("proctor-host", HOST_MEMORY)
        self._shared = map_memory(memory, HOST_MEMORY)
        self._cells = [PhaseCell(self._shared, CELL_BYTES * place) for place in range(1 + MOST_LANES)]
        self._counts = [LaneCount(self._shared, lane) for lane in range(MOST_LANES)]
        self._cells[0].write(Phase.START, now())
        self._watch = LaneWatch(self._cells)
        try:
            boot, descriptors = _boot(HostBoot, recipe), [self.bell.fileno(), memory]
            self.child = ChannelChild("host", boot, descriptors, log=recipe.log, env={}, python=recipe.python)
        except BaseException:
            self._free()
            if bell is None:
                self.bell.close()
            raise
        finally:
            os.close(memory)

    def wait_ready(
        self, limits: LimitSettings, interrupts: Interrupts, waiting: Callable[[], None] = lambda: None
    ) -> PolicySpec:
        """Wait until the policy is loaded; returns what it needs. `waiting` is called again and again meanwhile.

        Raises:
            UsageError: the policy cannot be loaded, and why.
            PolicyHostError: the process died or hung while loading.
        """
        message = self._receive(limits, interrupts, waiting)
        if message is None:
            ending = describe_exit(self.child.reap())
            words, python = self.child.last_words(), self.recipe.python
            if "No module named" in words and python is not None:
                self.child.log.unlink()  # it says no more than this
                raise UsageError(f"--policy.python: {words}. Run: {install_command(pip=f'{python} -m pip')}")
            words = f": {words}" if words else ""
            raise PolicyHostError(f"the policy's process {ending} while loading{words}{self.child.log_note}")
        if message["type"] == "changed":
            raise as_error(message)
        if message["type"] != "ready":
            problem = message["message"]
            if not message["usage"]:
                problem = f"the policy could not be loaded: {problem}{self.child.log_note}"
            raise UsageError(problem)
        self.startup = message["startup"]
        self.identity, self.versions = message["identity"], message["versions"]
        self.cost = Cost(**message["cost"]) if message["cost"] else None
        return PolicySpec.from_wire(message["spec"])

    def _receive(
        self, limits: LimitSettings, interrupts: Interrupts, waiting: Callable[[], None] = lambda: None
    ) -> Message | None:
        """Wait for what it has to say; `None`: it has ended. Raises if it hangs, or a signal comes."""
        sources: list[Readable | int] = [self.child.channel, self.child.pidfd, interrupts]
        while True:
            ready = wait_readable(sources, 0.5)
            waiting()
            if interrupts.count:
                raise Interrupted
            if self.child.channel in ready:
                with contextlib.suppress(ChannelClosed):
                    return self.child.channel.receive()[0]
            if self.child.pidfd in ready:
                return None
            reason = self.hung(limits)
            if reason is not None:
                raise PolicyHostError(f"{reason}{self.child.log_note}")

    def again(self) -> HostHandle:
        """Start another in its place, which must turn out to hold the very same policy."""
        recipe = replace(self.recipe, expected=self.identity, generation=self.generation + 1)
        return HostHandle(recipe, self.bell)

    def can_load(self, recipe: HostRecipe) -> bool:
        """Whether it may load another policy in place of its own, and will be as good as a new process."""
        own = self.recipe
        return recipe.reloads and (own.policy, own.python) == (recipe.policy, recipe.python)

    def unload(self) -> None:
        """Let it forget its policy, which nobody asks any more, and wait for another."""
        self.child.tell({"type": "unload"})

    def load(self, recipe: HostRecipe) -> None:
        """Let it load another policy than the one that it was told to forget; `wait_ready` follows."""
        self.generation += 1
        self.recipe = replace(recipe, generation=self.generation)
        self._cells[0].write(Phase.START, now())
        with self.child.move_log(recipe.log) as log:
            self.child.tell({"type": "load", "boot": _boot(HostBoot, self.recipe)}, [log.fileno()])

    def measure(self, sizes: Sequence[int], limits: LimitSettings, interrupts: Interrupts) -> list[Pass]:
        """Let the policy measure forward passes of several batch sizes; nobody may be asking meanwhile."""
        self.child.tell({"type": "measure", "sizes": list(sizes)})
        message = self._receive(limits, interrupts)
        if message is None or message["type"] != "passes":
            words = f"{self.child.last_words()}{self.child.log_note}"
            raise PolicyHostError(f"the policy died while its speed was measured: {words}")
        return [Pass(*one) for one in message["passes"]]

    def one_more(self, number: int) -> HostHandle:
        """Start another beside it, which must turn out to hold the very same policy."""
        log = self.recipe.log.with_name(f"host-{number}.log")
        return HostHandle(replace(self.recipe, expected=self.identity, generation=1, log=log))

    def answered(self) -> tuple[int, float]:
        """Return how many questions it has answered, and the seconds that the calls for them took."""
        answers, seconds = zip(*(count.read() for count in self._counts), strict=True)
        return sum(answers), math.fsum(seconds)

    def attach(self, number: int, slot: Slot) -> None:
        """Serve a worker."""
        self.child.tell({"type": "attach", "slot": number}, slot.descriptors)

    def detach(self, number: int) -> None:
        """Forget a worker."""
        self.child.tell({"type": "detach", "slot": number})

    def kill_if_hung(self, limits: LimitSettings, asked: bool) -> None:
        """End a host that hangs; its death is handled like any other."""
        if self.verdict is None:
            self.verdict = self.hung(limits, asked)
            if self.verdict is not None:
                self.child.abort()

    def hung(self, limits: LimitSettings, asked: bool = False) -> str | None:
        """Return why the host counts as hung, or `None`; `asked`: whether a question waits for it."""
        return self._watch.hung(limits, asked)

    def stop(self, patience: float) -> None:
        """Ask it to end; kill it if it does not."""
        self.child.ask_to_stop()
        self.child.reap(patience)
        self._free()
        self.bell.close()

    def _free(self) -> None:
        for cell, count in zip_longest(self._cells, self._counts):
            cell.release()
            if count is not None:
                count.release()
        self._shared.close()


class LaneWatch:
    """Sees whether those who load and run a policy get on with it, by the phases that they note.

    Args:
        cells: one for loading, if there is any, and one per lane.
    """

    def __init__(self, cells: Sequence[PhaseCell]) -> None:
        self._cells = cells
        self._each = [Stillness() for _ in cells]
        self._all = Stillness()

    def hung(self, limits: LimitSettings, asked: bool) -> str | None:
        """Return why they count as hung, or `None`; `asked`: whether a question waits for them."""
        phases = [cell.read() for cell in self._cells]
        reasons = [
            overdue(phase, still.seconds((phase, since)), limits)
            for (phase, since), still in zip(phases, self._each, strict=True)
            if phase != Phase.IDLE
        ]
        if not reasons:
            # Nobody is at work. That is as it should be, unless a question waits.
            seconds = self._all.seconds((asked, *phases))
            reasons = [overdue(Phase.IDLE, seconds, limits)] if asked else []
        return next((f"the policy hangs: {reason}" for reason in reasons if reason is not None), None)


class HostThread:
    """A live policy object, served by a thread of the caller's own process."""

    generation = 0
    startup = 0.0
    child = None

    def __init__(self, policy: Policy, action_size: int, bell: EventFd, blame: Callable[[RunError], None]) -> None:
        self.bell = bell
        cells = [PhaseCell(mmap.mmap(-1, CELL_BYTES))]
        self._watch, self._blame = LaneWatch(cells), blame
        self._server = PolicyServer(policy, action_size, bell, self.generation, blame, cells)
        self._server.start()

    def attach(self, number: int, slot: Slot) -> None:
        """Serve a worker."""
        self._server.attach(number, slot)

    def detach(self, number: int) -> None:
        """Forget a worker."""
        self._server.detach(number)

    def kill_if_hung(self, limits: LimitSettings, asked: bool) -> None:
        """End the run if the policy hangs: a thread can be left behind, but not replaced."""
        reason = self._watch.hung(limits, asked)
        if reason is not None:
            self._blame(PolicyHostError(f"{reason}. A live policy cannot be replaced; the same call goes on."))

    def stop(self, patience: float) -> None:
        """End the lanes; a thread cannot be killed, so one that hangs is left behind as a daemon."""
        self._server.stop(max(patience, 2.0))


Host = HostHandle | HostThread


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
                _boot(WorkerBoot, recipe),
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
            self.child.tell({"type": "run", "boot": _boot(WorkerBoot, recipe)}, [bell, log.fileno()])

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
        self.child.tell({"type": "copy", "boot": _boot(WorkerBoot, recipe)})

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
