"""Shared memory between one worker, the policy's host and the coordinator.

Each worker owns a `Slot`: an anonymous memory file and an eventfd. Nothing has a name, so nothing can be
left behind. The worker writes an observation window and rings the host's bell; the host writes the chunk
and rings the slot's bell. Two system calls each way, no copy through a pipe, no pickle.

A slot's first page holds the worker's phase and the time it began, which the coordinator's watchdog reads:
a hung simulator cannot keep a heartbeat going.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import struct
import time
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.protocol import Observation
from proctor.errors import SimulatorError

REQUEST_BYTES = 256 << 20
RESPONSE_BYTES = 16 << 20
_PAGE = 4096
# The file is sparse: only what is written takes memory, so a generous size costs nothing.
_SLOT_BYTES = _PAGE + REQUEST_BYTES + RESPONSE_BYTES

_SINCE, _PHASE, _STEPS, _DRAWS, _STATE, _GENERATION = 0, 8, 16, 24, 32, 36
# Native formats: they move a number in one instruction. "=d" would write it byte by byte, and the watchdog
# could read half of the old time and half of the new.
_F64, _U32, _U64 = struct.Struct("@d"), struct.Struct("@I"), struct.Struct("@Q")

_F_ADD_SEALS, _F_SEAL_SHRINK, _F_SEAL_GROW = 1033, 2, 4


class Phase(IntEnum):
    """What a child is doing; the watchdog has a limit for each but the first two."""

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


class State(IntEnum):
    """Whose turn it is in a slot."""

    FREE = 0
    ASKED = 1
    ANSWERED = 2


class HostLost(Exception):
    """The host died with this episode's memory: the episode starts again from its beginning."""


class PhaseCell:
    """A phase and the monotonic time at which it began, in shared memory."""

    def __init__(self, memory: mmap.mmap, offset: int = 0) -> None:
        self._memory, self._offset = memory, offset

    def write(self, phase: Phase, now: float) -> None:
        """Note that `phase` begins. Time goes first: a reader in between sees the old phase as younger."""
        _F64.pack_into(self._memory, self._offset + _SINCE, now)
        _U32.pack_into(self._memory, self._offset + _PHASE, phase)

    def read(self) -> tuple[Phase, float]:
        """Return the phase and the monotonic time at which it began."""
        (phase,) = _U32.unpack_from(self._memory, self._offset + _PHASE)
        (since,) = _F64.unpack_from(self._memory, self._offset + _SINCE)
        return Phase(phase), since


def new_memory(name: str, size: int) -> int:
    """Return the descriptor of an anonymous memory file whose size nobody can change."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, _F_ADD_SEALS, _F_SEAL_SHRINK | _F_SEAL_GROW)
    return descriptor


class Slot:
    """One worker's shared memory and bell; both ends use this class."""

    def __init__(self, memory: int, bell: int) -> None:
        self.memory_fd, self.bell = memory, bell
        self._map = mmap.mmap(memory, _SLOT_BYTES)
        self._bytes: NDArray[np.uint8] | None = np.frombuffer(self._map, np.uint8)
        self.phase = PhaseCell(self._map)

    @classmethod
    def create(cls) -> Slot:
        """Make a new slot; its descriptors are passed to the worker and to the host."""
        return cls(new_memory("proctor-slot", _SLOT_BYTES), os.eventfd(0, os.EFD_CLOEXEC))

    @property
    def descriptors(self) -> list[int]:
        """What the other ends need to open the same slot."""
        return [self.memory_fd, self.bell]

    def close(self) -> None:
        """Free this process's end. Only when no lane can be answering here; else the last reference frees it."""
        if not self._map.closed:
            self._bytes = None
            self._map.close()
            os.close(self.memory_fd)
            os.close(self.bell)

    __del__ = close

    @property
    def state(self) -> State:
        """Whose turn it is."""
        return State(_U32.unpack_from(self._map, _STATE)[0])

    @property
    def generation(self) -> int:
        """Which incarnation of the host serves; the coordinator counts it up when one dies."""
        return int(_U32.unpack_from(self._map, _GENERATION)[0])

    def announce(self, generation: int) -> None:
        """Tell the worker that another host serves from now on, and wake it if it waits."""
        _U32.pack_into(self._map, _GENERATION, generation)
        ring(self.bell)

    def count(self, steps: int, draws: int) -> None:
        """Note the worker's totals, for the live display."""
        _U64.pack_into(self._map, _STEPS, steps)
        _U64.pack_into(self._map, _DRAWS, draws)

    def counted(self) -> tuple[int, int]:
        """Return the worker's totals: steps and drawings."""
        return int(_U64.unpack_from(self._map, _STEPS)[0]), int(_U64.unpack_from(self._map, _DRAWS)[0])

    # The worker's end.

    def ask(
        self, header: dict[str, Any], window: Sequence[Observation], host_bell: int, generation: int
    ) -> NDArray[Any]:
        """Send a window to the host and wait for the chunk. Raises `HostLost` when the host died meanwhile."""
        if self.generation != generation:
            raise HostLost
        self._write(_PAGE, REQUEST_BYTES, {**header, "generation": generation}, window)
        _U32.pack_into(self._map, _STATE, State.ASKED)
        ring(host_bell)
        while True:
            os.eventfd_read(self.bell)
            if self.generation != generation:
                _U32.pack_into(self._map, _STATE, State.FREE)
                raise HostLost
            if self.state is State.ANSWERED:
                break
        _U32.pack_into(self._map, _STATE, State.FREE)
        _, (answer,) = self._read(_PAGE + REQUEST_BYTES)
        chunk: NDArray[Any] = answer["chunk"]
        return chunk

    # The host's end.

    def asked(self) -> bool:
        """Whether a request waits."""
        return bool(_U32.unpack_from(self._map, _STATE)[0] == State.ASKED)

    def request(self) -> tuple[dict[str, Any], list[Observation]]:
        """Return the waiting request: its header and its window, copied out of the shared memory."""
        return self._read(_PAGE)

    def answer(self, chunk: NDArray[Any]) -> None:
        """Give the chunk to the worker."""
        self._write(_PAGE + REQUEST_BYTES, RESPONSE_BYTES, {}, [{"chunk": chunk}])
        _U32.pack_into(self._map, _STATE, State.ANSWERED)
        ring(self.bell)

    def _write(self, start: int, room: int, header: dict[str, Any], window: Sequence[Observation]) -> None:
        # A header with the arrays' places, then the arrays, aligned so that NumPy reads them in place.
        # An observation that stands in the window twice (the first one does) is sent once.
        layout, arrays, place = [], [], 0
        sent: dict[int, list[tuple[str, str, tuple[int, ...], int]]] = {}
        for observation in window:
            if id(observation) in sent:
                layout.append(sent[id(observation)])
                continue
            entries = sent[id(observation)] = []
            for key, value in observation.items():
                array = np.ascontiguousarray(value)
                entries.append((key, array.dtype.str, array.shape, place))
                arrays.append((place, array))
                place += (array.nbytes + 63) & ~63
            layout.append(entries)
        packed = msgpack.packb((header, layout))
        body = start + ((4 + len(packed) + 63) & ~63)
        if body + place > start + room:
            raise SimulatorError(f"an observation window of {place / 2**20:.0f} MB; at most {room >> 20} MB fit")
        _U32.pack_into(self._map, start, len(packed))
        self._map[start + 4 : start + 4 + len(packed)] = packed
        assert self._bytes is not None
        for offset, array in arrays:
            self._bytes[body + offset : body + offset + array.nbytes] = array.reshape(-1).view(np.uint8)

    def _read(self, start: int) -> tuple[dict[str, Any], list[Observation]]:
        (length,) = _U32.unpack_from(self._map, start)
        header, layout = msgpack.unpackb(self._map[start + 4 : start + 4 + length])
        body = start + ((4 + length + 63) & ~63)
        window: list[Observation] = []
        for entries in layout:
            observation: Observation = {}
            for key, dtype, shape, place in entries:
                # A copy: the worker writes here again, while a policy may keep what it was shown.
                flat = np.frombuffer(self._map, dtype, count=math.prod(shape), offset=body + place).copy()
                observation[key] = flat.reshape(shape)
            window.append(observation)
        return header, window


def ring(bell: int) -> None:
    """Wake whoever waits at an eventfd."""
    os.eventfd_write(bell, 1)


def now() -> float:
    """Return the clock that every process on this machine shares."""
    return time.monotonic()
