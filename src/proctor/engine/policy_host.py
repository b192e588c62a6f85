"""The host: holds the policy, once, and answers whatever episodes are waiting, from any task.

No fixed wait, no barrier, no knowledge of tasks: a lane takes what is there, up to the policy's batch, runs
one forward pass and answers. Several lanes are several threads (torch frees the GIL) around one copy of the
weights; one lane at a time collects, the others compute.
"""

from __future__ import annotations

import atexit
import gc
import mmap
import os
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any

import msgpack

from proctor.benchmarks.processors import named_processors, spec_behind
from proctor.blame import described
from proctor.config.registry import load_object
from proctor.engine.eventfd import EventFd
from proctor.engine.identity_proof import PolicyProof
from proctor.engine.messages import Channel, ChannelClosed, Message, keep_end, policy_fault, print_to
from proctor.engine.policy_session import PolicySession, answer
from proctor.engine.transport import Phase, PhaseCell, Slot, Word, map_memory, now
from proctor.errors import ChangedError, PolicyError, PolicyLostError, ProctorError, RunError
from proctor.machine.versions import interpreter_versions
from proctor.policies.protocol import Policy
from proctor.types import BenchmarkSpec, Episode, Observation

CELL_BYTES = 64
MOST_LANES = 63
HOST_MEMORY = CELL_BYTES * (1 + MOST_LANES)
"""A host's shared memory: one phase cell for loading, then one per lane, with what it has done behind it."""

_ANSWERS, _BUSY_NS = 16, 24


class LaneCount:
    """What a lane has done: the questions that it has answered, and the nanoseconds of the calls."""

    def __init__(self, memory: mmap.mmap, lane: int) -> None:
        cell = CELL_BYTES * (1 + lane)
        self._answers, self._busy = Word(memory, cell + _ANSWERS), Word(memory, cell + _BUSY_NS)

    def add(self, answers: int, seconds: float) -> None:
        """Note a call. Only its lane writes here."""
        self._answers.write(self._answers.read() + answers)
        self._busy.write(self._busy.read() + int(seconds * 1e9))

    def read(self) -> tuple[int, float]:
        """Return answers and seconds so far."""
        return self._answers.read(), self._busy.read() / 1e9

    def release(self) -> None:
        """Let go of the memory."""
        self._answers.release()
        self._busy.release()


_MEMORY = 0.9
"""How much of the past the running averages keep at each pass."""

_LANES_END = 5.0
"""Seconds that lanes get to end, of which nobody asks anything any more."""

_BUSY = 0.5
"""The share of time in passes above which the device counts as what everybody waits for."""


class BatchHold:
    """Watches passes and says how long to hold the next one back. Times are in seconds, by any one clock.

    A batch has one shape, so a pass with few rows costs as much as a full one. While the device has time to spare
    that does not matter, and a question is answered at once. When passes follow each other without a pause the
    device is what everybody waits for, and a pass with more rows serves more: then the next one is held back, at
    most for as long as a pass takes, or until it is full, or until nobody else is left to ask.
    """

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._pass = self._cycle = 0.0
        self._last_end: float | None = None

    def passed(self, start: float, end: float) -> None:
        """Note a pass."""
        since = start if self._last_end is None else min(self._last_end, start)
        self._last_end = end
        self._pass += (1 - _MEMORY) * (end - start - self._pass)
        self._cycle += (1 - _MEMORY) * (end - since - self._cycle)

    @property
    def busy(self) -> bool:
        """Whether passes follow each other without much of a pause."""
        return self._pass > _BUSY * self._cycle

    def hold(self, waiting: int, others: int, oldest: float, now: float) -> float:
        """Return for how many seconds to wait for more; 0: start now.

        Args:
            waiting: questions that could be answered now.
            others: workers that are served and have not asked yet.
            oldest: when the first of those questions was seen.
            now: the time.
        """
        if waiting >= self._batch or not others or not self.busy:
            return 0.0
        return max(0.0, oldest + self._pass - now)


@dataclass(eq=False)
class _Client:
    """A worker's slot, the episode that asks through it, and whether a lane has its question in hand."""

    slot: Slot
    session: PolicySession | None = None
    taken: bool = False


class PolicyServer:
    """Serves one policy to any number of slots. It runs in a host process, or in threads of the caller's.

    Args:
        policy: the policy.
        action_size: numbers in one action of the benchmark.
        bell: what workers ring.
        generation: which incarnation of the host this is; requests to an earlier one are not for us.
        blame: called once with the error if the policy fails; the server stops then.
        cells: where each lane notes its phase, for the watchdog; there are as many lanes.
        counts: where each lane notes what it has done, if anybody wants to know.
        prove: called after every pass; raises if the policy may be another than the run began with.
    """

    def __init__(
        self,
        policy: Policy,
        action_size: int,
        bell: EventFd,
        generation: int,
        blame: Callable[[RunError], None],
        cells: Sequence[PhaseCell],
        counts: Sequence[LaneCount] = (),
        prove: Callable[[], None] = lambda: None,
    ) -> None:
        self._prove = prove
        self._policy, self._action_size = policy, action_size
        self._bell, self._generation, self._blame = bell, generation, blame
        self._batch = policy.spec.batch
        self._clients: dict[int, _Client] = {}
        self._waiting: deque[_Client] = deque()
        self._news: deque[tuple[int, Slot | None]] = deque()
        self._turn = threading.Lock()
        self._questions = self._calls = 0
        self._computing: set[int] = set()
        self._hold = BatchHold(self._batch)
        self._oldest = 0.0
        self._stopped = False
        self._lanes = [
            threading.Thread(target=self._serve, args=lane, name=f"proctor-lane-{number}", daemon=True)
            for number, lane in enumerate(zip_longest(cells, counts))
        ]

    def start(self) -> None:
        """Start the lanes."""
        for lane in self._lanes:
            lane.start()

    def attach(self, number: int, slot: Slot) -> None:
        """Serve another worker's slot from now on."""
        self._news.append((number, slot))
        self._bell.ring()

    def detach(self, number: int) -> None:
        """Forget a worker that is gone, with its episode's memory."""
        self._news.append((number, None))
        self._bell.ring()

    def stop(self, patience: float) -> None:
        """End the lanes. A call of the policy in flight is waited for, but not for ever: it may hang."""
        self._stopped = True
        self._bell.ring()
        deadline = now() + patience
        for lane in self._lanes:
            lane.join(max(0.0, deadline - now()))
        self._clients.clear()
        self._waiting.clear()
        self._news.clear()

    def describe(self) -> str:
        """Say how full the batches were; nothing if nobody has asked."""
        asked = self._questions
        return f"answered {asked} questions in {self._calls} calls of the policy" if asked else ""

    def _serve(self, cell: PhaseCell, count: LaneCount | None) -> None:
        while not self._stopped:
            with self._turn:
                clients = self._collect()
                if not clients:
                    continue
                self._computing.add(threading.get_ident())
            start = now()
            cell.write(Phase.ACT, start)
            try:
                self._answer(clients)
            except BaseException as error:  # a lane that ended without a word would be waited for
                if not self._stopped:
                    self._stopped = True
                    self._blame(error if isinstance(error, RunError) else _host_fault(error))
            end = now()
            self._computing.discard(threading.get_ident())
            cell.write(Phase.IDLE, end)
            if count is not None:
                count.add(len(clients), end - start)
            if self._batch > 1:
                self._hold.passed(start, end)
                self._bell.ring()  # another lane may hold a batch back until now
        self._bell.ring()  # pass the end on to the next lane

    def _collect(self) -> list[_Client]:
        """Return up to a batch of those that wait for an answer, first come first served.

        A batch that is not full costs as much as a full one. So while another lane computes, one is held back
        until it is full or that lane is done; `BatchHold` says whether longer.
        """
        if not self._waiting:
            self._bell.wait()
        self._gather()
        while self._waiting and len(self._waiting) < self._batch and not self._stopped:
            others = sum(not client.taken for client in self._clients.values())
            hold = self._hold.hold(len(self._waiting), others, self._oldest, now())
            if not self._computing and not hold:
                break
            if self._bell.wait(None if self._computing else hold):
                self._gather()
        taken = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
        self._questions += len(taken)
        self._calls += bool(taken)
        return taken

    def _gather(self) -> None:
        while self._news:
            number, slot = self._news.popleft()
            # The last reference to the old one frees its memory: a lane may still answer there.
            self._clients.pop(number, None)
            if slot is not None:
                self._clients[number] = _Client(slot)
        for client in self._clients.values():
            if not client.taken and client.slot.asked():
                if not self._waiting:
                    self._oldest = now()
                client.taken = True
                self._waiting.append(client)

    def _answer(self, clients: list[_Client]) -> None:
        asking: list[_Client] = []
        sessions: list[PolicySession] = []
        windows: list[list[Observation]] = []
        for client in clients:
            generation, first, window = client.slot.request()
            if generation != self._generation:
                client.taken = False
                continue
            if first:
                try:
                    client.session = PolicySession(self._policy, Episode.from_wire(msgpack.unpackb(first)))
                except PolicyLostError as error:
                    self._release(client, partial(client.slot.lose, str(error)))
                    continue
            assert client.session is not None
            asking.append(client)
            sessions.append(client.session)
            windows.append(window)
        if not asking:
            return
        try:
            chunks = answer(self._policy, self._action_size, sessions, windows)
        except PolicyLostError as error:
            for client in asking:
                self._release(client, partial(client.slot.lose, str(error)))
            return
        self._prove()
        for client, chunk in zip(asking, chunks, strict=True):
            self._release(client, partial(client.slot.answer, chunk))

    def _release(self, client: _Client, reply: Callable[[], None]) -> None:
        """Give the worker its reply, and only then let its next question be taken.

        The other way round another lane would see the old question still standing there, and answer it again.
        """
        reply()
        client.taken = False
        if client.slot.asked():
            self._bell.ring()  # it asked again already, when nobody would take it


def _host_fault(error: BaseException) -> PolicyError:
    fault = PolicyError(f"the policy's host failed: {described(error)}")
    fault.__cause__ = error
    return fault


@dataclass(frozen=True)
class HostBoot:
    """What a host is told at its start. Plain values: it crosses a process boundary.

    `expected` is the identity that a host must have which is started in place of another.
    """

    policy: str
    settings: dict[str, Any]
    benchmark: dict[str, Any]
    before_processors: dict[str, Any]
    generation: int = 1
    expected: dict[str, Any] | None = None
    spawned: float = 0.0


def run_host(channel: Channel, boot: Message, descriptors: list[int]) -> None:
    """Be a host process: load the policy, say what it needs, serve until told to stop, or to wait for another."""
    ending = _QuickExit()
    bell, memory = EventFd(descriptors[0]), descriptors[1]
    shared = map_memory(memory, HOST_MEMORY)
    while _load_and_serve(channel, HostBoot(**boot), bell, shared, ending):
        _free_memory()
        try:
            order, files = channel.receive()
        except ChannelClosed:
            break
        if order["type"] == "stop":
            break
        print_to(files[0])
        boot = order["boot"]
    ending.is_due = True


class _QuickExit:
    """Spares a process that has done its work to take apart what it has imported: a second, for LeRobot.

    Its threads have ended by then, and whatever others have registered to be done at the end has been done: this
    is registered first, and so comes last. Only where a policy says that it leaves nothing open, such as a file
    that Python would flush.
    """

    def __init__(self) -> None:
        self.is_due, self.is_allowed = False, True  # allowed by every policy that it has had
        atexit.register(self._exit)

    def _exit(self) -> None:
        if self.is_due and self.is_allowed:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)


def _free_memory() -> None:
    """Give back what the last policy has used. What was imported stays, and need not be looked through again."""
    gc.collect()
    gc.freeze()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _load_and_serve(
    channel: Channel, told: HostBoot, bell: EventFd, shared: mmap.mmap, ending: _QuickExit
) -> bool:
    """Serve one policy; returns whether another may be loaded in its place, or it is time to end."""
    loading = PhaseCell(shared)
    loading.write(Phase.LOAD, now())
    try:
        benchmark = BenchmarkSpec.from_wire(told.benchmark)
        policy_class: type[Policy] = load_object(told.policy)
        settings = policy_class.Settings(**told.settings)
        proof = PolicyProof(
            told.policy, settings, lambda: policy_class.from_settings(settings, benchmark), told.expected
        )
        policy, spec = proof.policy, proof.policy.spec
        ending.is_allowed &= policy_class.may_end_at_once(settings)
        if spec.env_processors is not None:
            before = BenchmarkSpec.from_wire(told.before_processors)
            benchmark = spec_behind(named_processors(spec.env_processors), before)
    except ChangedError as error:
        channel.send(policy_fault(error))
        return False
    except ProctorError as error:
        channel.send({"type": "load_error", "message": str(error), "usage": error.exit_status == 2})
        return False
    except BaseException as error:
        print(traceback.format_exc(), flush=True)  # noqa: T201 - goes to the host's log
        channel.send({"type": "load_error", "message": keep_end(described(error), 4000), "usage": False})
        return False
    loading.write(Phase.IDLE, now())

    def blame(error: RunError) -> None:
        print("".join(traceback.format_exception(error)), flush=True)  # noqa: T201 - goes to the host's log
        channel.send(policy_fault(error))

    cells = [PhaseCell(shared, CELL_BYTES * (1 + lane)) for lane in range(min(spec.lanes, MOST_LANES))]
    counts = [LaneCount(shared, lane) for lane in range(len(cells))]
    server = PolicyServer(policy, benchmark.action_size, bell, told.generation, blame, cells, counts, proof)
    server.start()
    channel.send(
        {
            "type": "ready",
            "spec": spec.to_wire(),
            "identity": proof.identity,
            "versions": interpreter_versions(),
            "cost": None if policy.cost is None else policy.cost._asdict(),
            "startup": now() - told.spawned,
        }
    )
    while True:
        try:
            order, fds = channel.receive()
        except ChannelClosed:
            return False
        if order["type"] in ("stop", "unload"):
            if words := server.describe():
                print(words, flush=True)  # noqa: T201 - goes to the host's log
            server.stop(_LANES_END if order["type"] == "unload" else 0.0)
            return bool(order["type"] == "unload")
        if order["type"] == "attach":
            server.attach(order["slot"], Slot(*fds))
        elif order["type"] == "detach":
            server.detach(order["slot"])
        else:
            loading.write(Phase.ACT, now())
            passes = policy.passes(order["sizes"])
            loading.write(Phase.IDLE, now())
            channel.send({"type": "passes", "passes": passes})
