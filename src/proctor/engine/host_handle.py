"""What a coordinator holds of whatever serves the policy: a process, or a thread of its own."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from proctor.config.settings import LimitSettings
from proctor.engine.eventfd import EventFd
from proctor.engine.interrupts import Interrupts
from proctor.engine.messages import ChannelClosed, Message, as_error
from proctor.engine.policy_host import CELL_BYTES, HOST_MEMORY, MOST_LANES, HostBoot, LaneCount, PolicyServer
from proctor.engine.process import ChannelChild, Readable, wait_readable
from proctor.engine.transport import Phase, PhaseCell, Slot, map_memory, new_memory, now
from proctor.engine.watchdog import Stillness, overdue
from proctor.errors import Interrupted, PolicyHostError, RunError, UsageError
from proctor.installation import install_command
from proctor.machine.processes import describe_exit
from proctor.policies.protocol import Cost, Pass, Policy, PolicySpec


@dataclass(frozen=True, kw_only=True)
class HostRecipe(HostBoot):
    """All that is needed to start a host, and to start it again; `reloads`: or to load it in place of another."""

    log: Path
    python: str | None = None
    reloads: bool = False


def told(kind: type[Any], recipe: Any) -> dict[str, Any]:
    """Return the part of a recipe that its child is told, by the class of that."""
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
            boot, descriptors = told(HostBoot, recipe), [self.bell.fileno(), memory]
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
            self.child.tell({"type": "load", "boot": told(HostBoot, self.recipe)}, [log.fileno()])

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
