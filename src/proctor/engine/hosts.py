"""The coordinator's handles on what serves the policy: a host process, or threads of this process."""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from proctor.config.settings import LimitSettings
from proctor.engine.bell import Bell
from proctor.engine.child import Child
from proctor.engine.host import CELL_BYTES, HOST_MEMORY, MOST_LANES, PolicyServer
from proctor.engine.interrupts import Interrupts
from proctor.engine.messages import ChannelClosed, as_error
from proctor.engine.transport import Phase, PhaseCell, Slot, map_memory, new_memory, now
from proctor.engine.waiting import Readable, wait_readable
from proctor.engine.watchdog import Stillness, overdue
from proctor.errors import Interrupted, PolicyHostError, RunError, UsageError
from proctor.installation import install_command
from proctor.machine.processes import describe_exit
from proctor.policies.protocol import Cost, Pass, Policy, PolicySpec


@dataclass(frozen=True)
class HostRecipe:
    """All that is needed to start a host, and to start it again."""

    policy: str
    settings: dict[str, Any]
    benchmark: dict[str, Any]
    before_processors: dict[str, Any]
    log: Path
    python: str | None = None
    expected: dict[str, Any] | None = None
    """The identity that a host must have which is started in place of another."""


class HostProcess:
    """A policy host in a process of its own."""

    def __init__(self, recipe: HostRecipe, bell: Bell, generation: int) -> None:
        self.recipe, self.bell, self.generation = recipe, bell, generation
        self.startup = 0.0
        self.cost: Cost | None = None
        self.identity: dict[str, Any] = recipe.expected or {}
        self.versions: dict[str, str] = {}
        self.verdict: str | None = None
        memory = new_memory("proctor-host", HOST_MEMORY)
        self._shared = map_memory(memory, HOST_MEMORY)
        self._cells = [PhaseCell(self._shared, CELL_BYTES * place) for place in range(1 + MOST_LANES)]
        self._cells[0].write(Phase.START, now())
        self._watch = LaneWatch(self._cells)
        boot = {
            "policy": recipe.policy,
            "settings": recipe.settings,
            "benchmark": recipe.benchmark,
            "before_processors": recipe.before_processors,
            "generation": generation,
            "expected": recipe.expected,
            "spawned": now(),
        }
        try:
            self.child = Child("host", boot, [bell.fileno(), memory], log=recipe.log, env={}, python=recipe.python)
        except BaseException:
            self._free()
            raise
        finally:
            os.close(memory)

    def wait_ready(self, limits: LimitSettings, interrupts: Interrupts) -> PolicySpec:
        """Wait until the policy is loaded; returns what it needs.

        Raises:
            UsageError: the policy cannot be loaded, and why.
            PolicyHostError: the process died or hung while loading.
        """
        sources: list[Readable | int] = [self.child.channel, self.child.pidfd, interrupts]
        while True:
            ready = wait_readable(sources, 0.5)
            if interrupts.count:
                raise Interrupted
            if self.child.channel in ready:
                with contextlib.suppress(ChannelClosed):
                    message, _ = self.child.channel.receive()
                    if message["type"] == "ready":
                        self.startup = message["startup"]
                        self.identity, self.versions = message["identity"], message["versions"]
                        self.cost = Cost(**message["cost"]) if message["cost"] else None
                        return PolicySpec.from_wire(message["spec"])
                    problem = message["message"]
                    if message["type"] == "changed":
                        raise as_error(message)
                    if message["usage"]:
                        raise UsageError(problem)
                    raise UsageError(f"the policy could not be loaded: {problem}{self.child.log_note}")
            if self.child.pidfd in ready:
                ending = describe_exit(self.child.reap())
                words = self.child.last_words()
                if "No module named" in words and self.recipe.python is not None:
                    python = self.recipe.python
                    self.child.log.unlink()  # it says no more than this
                    raise UsageError(f"--policy.python: {words}. Run: {install_command(pip=f'{python} -m pip')}")
                raise PolicyHostError(
                    f"the policy's process {ending} while loading"
                    + (f": {words}" if words else "")
                    + self.child.log_note
                )
            reason = self.hung(limits)
            if reason is not None:
                raise PolicyHostError(f"{reason}{self.child.log_note}")

    def again(self) -> HostProcess:
        """Start another in its place, which must turn out to hold the very same policy."""
        return HostProcess(replace(self.recipe, expected=self.identity), self.bell, self.generation + 1)

    def measure(self, sizes: Sequence[int], limits: LimitSettings, interrupts: Interrupts) -> list[Pass]:
        """Let the policy measure forward passes of several batch sizes; nobody may be asking meanwhile."""
        with contextlib.suppress(ChannelClosed):
            self.child.channel.send({"type": "measure", "sizes": list(sizes)})
            while not wait_readable([self.child.channel, self.child.pidfd], 0.5):
                if interrupts.count:
                    raise Interrupted
                reason = self.hung(limits)
                if reason is not None:
                    raise PolicyHostError(f"{reason}{self.child.log_note}")
            message, _ = self.child.channel.receive()
            if message["type"] == "passes":
                return [Pass(*one) for one in message["passes"]]
        raise PolicyHostError(
            f"the policy died while its speed was measured: {self.child.last_words()}{self.child.log_note}"
        )

    def attach(self, number: int, slot: Slot) -> None:
        """Serve a worker."""
        with contextlib.suppress(ChannelClosed):  # its death is noticed elsewhere
            self.child.channel.send({"type": "attach", "slot": number}, slot.descriptors)

    def detach(self, number: int) -> None:
        """Forget a worker."""
        with contextlib.suppress(ChannelClosed):
            self.child.channel.send({"type": "detach", "slot": number})

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

    def _free(self) -> None:
        for cell in self._cells:
            cell.release()
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

    def __init__(self, policy: Policy, action_size: int, bell: Bell, blame: Callable[[RunError], None]) -> None:
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


Host = HostProcess | HostThread
