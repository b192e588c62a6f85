"""Shared memory between one worker, the policy's host and the coordinator.

Each worker owns a `Slot`: an anonymous memory file and an eventfd. Nothing has a name, so nothing can be
left behind. The worker writes an observation window and rings the host's bell; the host writes the chunk
and rings the slot's bell. Two system calls each way, no copy through a pipe, no pickle.

A slot's first page holds the worker's phase and the time it began, which the coordinator's watchdog reads:
a hung simulator cannot keep a heartbeat going.
"""

from __future__ import annotations

import errno
import fcntl
import math
import mmap
import os
import struct
import threading
import time
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from proctor.engine.eventfd import EventFd
from proctor.errors import PolicyLostError, RunError, SimulatorError
from proctor.types import Observation

REQUEST_BYTES = 256 << 20
RESPONSE_BYTES = 16 << 20
_PAGE = 4096
# The file is sparse: only what is written takes memory, so a generous size costs nothing.
_SLOT_BYTES = _PAGE + REQUEST_BYTES + RESPONSE_BYTES

_STEPS, _DRAWS, _STATE, _GENERATION, _ASKED_OF, _EPISODE = 16, 24, 32, 36, 40, 48
_U32 = struct.Struct("@I")
_WORD = 8

_F_ADD_SEALS, _F_SEAL_SHRINK, _F_SEAL_GROW = 1033, 2, 4


class Phase(IntEnum):
    """What a child is doing; the watchdog has a limit for each. `ACT` and `LOAD` are the policy's own."""

    IDLE = 0
    WAIT = 1
    START = 2
    BUILD = 3
    RESET = 4
    STEP = 5
    DRAW = 6
    ENCODE = 7
    LOAD = 8
    ACT = 9


HOST_DIED = "the policy's host died"
NO_SINKS = -1
"""The generation of a host that a closed slot's request is meant for: there is none such."""


class State(IntEnum):
    """Whose turn it is in a slot."""

    FREE = 0
    ASKED = 1
    ANSWERED = 2
    LOST = 3


class Word:
    """A number of 64 bits in shared memory that is read and written whole.

    `struct.pack_into` will not do: it clears the place first, so that a reader now and then sees a zero.
    """

    def __init__(self, memory: mmap.mmap, offset: int) -> None:
        self._view = memoryview(memory)[offset : offset + _WORD].cast("Q")

    def write(self, value: int) -> None:
        """Store a number."""
        self._view[0] = value

    def read(self) -> int:
        """Return it."""
        return int(self._view[0])

    def release(self) -> None:
        """Let go of the memory, which could not be unmapped otherwise."""
        self._view.release()


class PhaseCell:
    """A phase and the monotonic time at which it began, in one word: never one without the other."""

    def __init__(self, memory: mmap.mmap, offset: int = 0) -> None:
        self._word = Word(memory, offset)

    def write(self, phase: Phase, now: float) -> None:
        """Note that `phase` begins."""
        self._word.write(int(now * 1e6) << 8 | phase)

    def read(self) -> tuple[Phase, float]:
        """Return the phase and the monotonic time at which it began."""
        word = self._word.read()
        return Phase(word & 0xFF), (word >> 8) / 1e6

    def release(self) -> None:
        """Let go of the memory."""
        self._word.release()


def new_memory(name: str, size: int) -> int:
    """Return the descriptor of an anonymous memory file whose size nobody can change."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size)
    except OSError as error:
        os.close(descriptor)
        if error.errno != errno.EFBIG:
            raise
        raise RunError(
            f"a file may not have {size >> 20 or 1} MB here, which the memory that processes share counts as. "
            "Run: ulimit -f unlimited"
        ) from None
    fcntl.fcntl(descriptor, _F_ADD_SEALS, _F_SEAL_SHRINK | _F_SEAL_GROW)
    return descriptor


def map_memory(descriptor: int, size: int) -> mmap.mmap:
    """Map a memory file into this process, and into none that this one forks.

    A copy of a worker or a host that goes on, as after a policy's `os.fork()`, would ask and answer in its name:
    it ends at its next touch instead.
    """
    memory = mmap.mmap(descriptor, size)
    memory.madvise(mmap.MADV_DONTFORK)
    return memory


Array = NDArray[Any]
Entry = tuple[str, str, tuple[int, ...], int]
"""A key, the dtype and shape of its array, and its place in the body."""


class Region:
    """A part of a slot through which one side sends arrays to the other.

    A small header, then the layout of the arrays, then the arrays. The layout hardly ever changes within an
    episode, so it is written only when it does, and both sides keep NumPy views on the arrays' places.
    """

    _HEADER, _LAYOUT, _BODY = 64, 1 << 16, 1 << 17

    def __init__(self, memory: mmap.mmap, start: int, room: int) -> None:
        self._memory, self._start, self._room = memory, start, room
        self._signature: Any = None
        self._version = 0
        self._views: list[list[tuple[str, Array]]] = []

    def release(self) -> None:
        """Drop the views, which would keep the memory from being unmapped."""
        self._views, self._signature, self._version = [], None, 0

    def write(self, header: bytes, window: Sequence[Observation]) -> None:
        """Write a header and a window. An observation that stands in it twice (the first does) is sent once."""
        if not self._overwrite(window):
            unique = {id(observation): observation for observation in window}
            signature = (
                [list(unique).index(id(observation)) for observation in window] if len(window) > 1 else None,
                [[(key, a.dtype, a.shape) for key, a in observation.items()] for observation in unique.values()],
            )
            if signature != self._signature:
                self._lay_out(window, unique)
                self._signature = signature
            for observation, views in zip(unique.values(), self._views, strict=True):
                for array, (_, view) in zip(observation.values(), views, strict=True):
                    view[...] = array
        _U32.pack_into(self._memory, self._start, len(header))
        if header:
            if len(header) > self._LAYOUT - self._HEADER:
                raise SimulatorError(f"a prompt and task of {len(header)} bytes; at most {self._LAYOUT} fit")
            self._memory[self._start + self._HEADER : self._start + self._HEADER + len(header)] = header

    def _overwrite(self, window: Sequence[Observation]) -> bool:
        """Write a single observation in place of another one with its layout, as nearly all are; else say so.

        To make and compare signatures takes longer than to copy a few numbers.
        """
        # Two equal places in a row also have one view, and their order as a signature.
        if len(window) != 1 or len(self._views) != 1 or self._signature[0] is not None:
            return False
        (observation,), (views,) = window, self._views
        if len(observation) != len(views):
            return False
        for (key, array), (known, view) in zip(observation.items(), views, strict=True):
            if key != known or array.dtype != view.dtype or array.shape != view.shape:
                return False
            view[...] = array
        return True

    def _lay_out(self, window: Sequence[Observation], unique: dict[int, Observation]) -> None:
        entries: list[list[Entry]] = []
        place = 0
        for observation in unique.values():
            entries.append([])
            for key, array in observation.items():
                entries[-1].append((key, array.dtype.str, array.shape, place))
                place += (array.nbytes + 63) & ~63  # aligned, so that NumPy works on it in place
        order = [list(unique).index(id(observation)) for observation in window]
        packed: bytes = msgpack.packb((order, entries))
        if self._BODY + place > self._room or len(packed) > self._BODY - self._LAYOUT:
            raise SimulatorError(f"a message of {place / 2**20:.0f} MB; at most {self._room >> 20} MB fit")
        # Counted in the memory itself: a new host must not reuse a number that the worker has seen.
        self._version = int(_U32.unpack_from(self._memory, self._start + 4)[0]) + 1
        self._views = [self._view(observation) for observation in entries]
        start = self._start + self._LAYOUT
        self._memory[start : start + len(packed)] = packed
        _U32.pack_into(self._memory, self._start + 8, len(packed))
        _U32.pack_into(self._memory, self._start + 4, self._version)

    def read(self) -> tuple[bytes, list[Observation]]:
        """Return header and window, copied: the writer writes here again, and a policy may keep what it saw."""
        (version,) = _U32.unpack_from(self._memory, self._start + 4)
        if version != self._version:
            (length,) = _U32.unpack_from(self._memory, self._start + 8)
            start = self._start + self._LAYOUT
            self._signature, entries = msgpack.unpackb(self._memory[start : start + length])
            self._views = [self._view(observation) for observation in entries]
            self._version = version
        unique = [{key: view.copy() for key, view in views} for views in self._views]
        (length,) = _U32.unpack_from(self._memory, self._start)
        start = self._start + self._HEADER
        return self._memory[start : start + length], [unique[place] for place in self._signature]

    def _view(self, entries: Sequence[Entry]) -> list[tuple[str, Array]]:
        body = self._start + self._BODY
        return [
            (key, np.frombuffer(self._memory, dtype, math.prod(shape), body + place).reshape(shape))
            for key, dtype, shape, place in entries
        ]


class Slot:
    """One worker's shared memory and bell; both ends use this class.

    A lane of a live policy may still be answering here when the run is over and the slot is closed: what it writes
    then goes nowhere, because the host's end asks first, under a lock, whether the slot is still open.

    Args:
        memory: the descriptor of its memory file, owned from now on.
        bell: the descriptor of its eventfd, owned from now on; a new one if there is none.
    """

    def __init__(self, memory: int, bell: int | None = None) -> None:
        self.memory_fd, self.bell = memory, EventFd(bell)
        self._lock = threading.Lock()
        try:
            self._map = map_memory(memory, _SLOT_BYTES)
        except OSError:
            os.close(memory)
            raise
        self._request = Region(self._map, _PAGE, REQUEST_BYTES)
        self._response = Region(self._map, _PAGE + REQUEST_BYTES, RESPONSE_BYTES)
        self.phase = PhaseCell(self._map)
        self._steps, self._draws = Word(self._map, _STEPS), Word(self._map, _DRAWS)
        self._episode = Word(self._map, _EPISODE)

    @classmethod
    def create(cls) -> Slot:
        """Make a new slot; its descriptors are passed to the worker and to the host."""
        return cls(new_memory("proctor-slot", _SLOT_BYTES))

    @property
    def descriptors(self) -> list[int]:
        """What the other ends need to open the same slot."""
        return [self.memory_fd, self.bell.fileno()]

    def close(self) -> None:
        """Free this process's end, once."""
        with self._lock:
            if not hasattr(self, "_map") or self._map.closed:
                return  # no room was left for it, or all is done
            for part in (self._request, self._response, self.phase, self._steps, self._draws, self._episode):
                part.release()
            self._map.close()
            os.close(self.memory_fd)
            self.bell.close()

    __del__ = close

    @property
    def generation(self) -> int:
        """Which incarnation of the host serves; the coordinator counts it up when one dies."""
        return int(_U32.unpack_from(self._map, _GENERATION)[0])

    def announce(self, generation: int) -> None:
        """Tell the worker that another host serves from now on, and wake it if it waits."""
        _U32.pack_into(self._map, _GENERATION, generation)
        self.bell.ring()

    def count(self, steps: int, draws: int) -> None:
        """Note the worker's totals, for the live display."""
        self._steps.write(steps)
        self._draws.write(draws)

    def counted(self) -> tuple[int, int]:
        """Return the worker's totals: steps and drawings."""
        return self._steps.read(), self._draws.read()

    def advance(self, episode: int, steps: int) -> None:
        """Note how far the worker is in its `episode`-th episode."""
        self._episode.write(episode << 32 | steps)

    def advanced(self) -> tuple[int, int]:
        """Return which of its episodes the worker has begun last, counted from 1, and the steps made in it."""
        word = self._episode.read()
        return word >> 32, word & 0xFFFFFFFF

    # The worker's end.

    def ask(self, header: bytes, window: Sequence[Observation], host_bell: EventFd, generation: int) -> Array:
        """Send a window to the host and wait for the chunk.

        Raises:
            PolicyLostError: the host died meanwhile, or says that it lost the episode.
        """
        if self.generation != generation:
            raise PolicyLostError(HOST_DIED)
        self._request.write(header, window)
        _U32.pack_into(self._map, _ASKED_OF, generation)
        _U32.pack_into(self._map, _STATE, State.ASKED)
        host_bell.ring()
        while True:
            self.bell.wait()
            if self.generation != generation:
                _U32.pack_into(self._map, _STATE, State.FREE)
                raise PolicyLostError(HOST_DIED)
            (state,) = _U32.unpack_from(self._map, _STATE)
            if state in (State.ANSWERED, State.LOST):
                break
        _U32.pack_into(self._map, _STATE, State.FREE)
        reason, answers = self._response.read()
        if state == State.LOST:
            raise PolicyLostError(reason.decode())
        chunk: Array = answers[0]["chunk"]
        return chunk

    # The host's end.

    def asks(self, generation: int) -> bool:
        """Whether a request waits for that incarnation of the host."""
        return self.asked() and int(_U32.unpack_from(self._map, _ASKED_OF)[0]) == generation

    def asked(self) -> bool:
        """Whether a request waits."""
        try:  # without the lock: it is asked of every slot at every ring, and is over before another thread runs
            return bool(_U32.unpack_from(self._map, _STATE)[0] == State.ASKED)
        except ValueError:
            return False  # closed

    def request(self) -> tuple[int, bytes, list[Observation]]:
        """Return the waiting request: the host's generation it is meant for, its header and its window."""
        with self._lock:
            if self._map.closed:
                return NO_SINKS, b"", []
            return (int(_U32.unpack_from(self._map, _ASKED_OF)[0]), *self._request.read())

    def answer(self, chunk: Array) -> None:
        """Give the chunk to the worker."""
        self._reply(State.ANSWERED, b"", [{"chunk": chunk}])

    def lose(self, reason: str) -> None:
        """Tell the worker that its episode has to start again, and why."""
        self._reply(State.LOST, reason.encode()[:4096], [])

    def _reply(self, state: State, header: bytes, answers: Sequence[Observation]) -> None:
        with self._lock:
            if not self._map.closed:
                self._response.write(header, answers)
                _U32.pack_into(self._map, _STATE, state)
                self.bell.ring()


def now() -> float:
    """Return the clock that every process on this machine shares."""
    return time.monotonic()
