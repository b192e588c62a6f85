"""The control channel between the coordinator and a child: small msgpack messages over a socket pair.

SEQPACKET keeps message boundaries and reports the other end's death as an empty message. Descriptors
(a slot's memory and bell) travel beside a message.
"""

from __future__ import annotations

import array
import os
import socket
from typing import Any

import msgpack

from proctor.errors import BenchmarkError, ChangedError, PolicyError, PolicyHostError, RunError

Message = dict[str, Any]

_LARGEST = 1 << 17
_SPACE = socket.CMSG_SPACE(8 * array.array("i").itemsize)

_IN_MEMORY = b"\xc1"
"""In place of a message too large for a socket, which lies in the first memory file beside. None is this byte."""
_ANY_TEXT = "surrogatepass"
"""File names need not be text, and travel all the same."""


_FAULTS: dict[str, type[RunError]] = {
    "policy_error": PolicyError,
    "benchmark_error": BenchmarkError,
    "changed": ChangedError,
    "policy_gone": PolicyHostError,
}
"""Errors that end a run, by the messages that tell of them. Trying again later may help of the last alone."""


class ChannelClosed(Exception):
    """The other end is gone."""


class Channel:
    """One end of a control channel."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        """Return two connected ends."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(ours), cls(theirs)

    def fileno(self) -> int:
        """Return the descriptor, for selectors."""
        return self.socket.fileno()

    def close(self) -> None:
        """Close this end."""
        self.socket.close()

    def send(self, message: Message, descriptors: list[int] | None = None) -> None:
        """Send one message. Raises `ChannelClosed` when nobody is there to read it."""
        data: bytes = msgpack.packb(message, unicode_errors=_ANY_TEXT)
        if len(data) > _LARGEST:
            with os.fdopen(os.memfd_create("proctor-message", os.MFD_CLOEXEC), "wb") as memory:
                memory.write(data)
                memory.flush()
                self._send(_IN_MEMORY, [memory.fileno(), *(descriptors or ())])
        else:
            self._send(data, descriptors or [])

    def _send(self, data: bytes, descriptors: list[int]) -> None:
        beside = (
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors).tobytes())]
            if descriptors
            else []
        )
        try:
            self.socket.sendmsg([data], beside)
        except OSError as error:
            raise ChannelClosed from error

    def receive(self) -> tuple[Message, list[int]]:
        """Wait for one message and the descriptors beside it. Raises `ChannelClosed` at the end."""
        return self._receive(0)

    def _receive(self, flags: int) -> tuple[Message, list[int]]:
        try:
            data, beside, _, _ = self.socket.recvmsg(_LARGEST, _SPACE, socket.MSG_CMSG_CLOEXEC | flags)
        except BlockingIOError:
            raise
        except OSError as error:
            raise ChannelClosed from error
        if not data:
            raise ChannelClosed
        descriptors = array.array("i")
        for level, kind, content in beside:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
        if data == _IN_MEMORY:
            with os.fdopen(descriptors.pop(0), "rb") as memory:
                data = os.pread(memory.fileno(), os.fstat(memory.fileno()).st_size, 0)
        message: Message = msgpack.unpackb(data, unicode_errors=_ANY_TEXT)
        return message, list(descriptors)

    def receive_all(self) -> list[Message]:
        """Return every message that is there already, without waiting; the end shows as `{"type": "closed"}`."""
        messages: list[Message] = []
        while True:
            try:
                messages.append(self._receive(socket.MSG_DONTWAIT)[0])
            except BlockingIOError:
                return messages
            except ChannelClosed:
                return [*messages, {"type": "closed"}]


def policy_fault(error: RunError) -> Message:
    """Return the message that an error ends the run; `policy_gone` if trying again later may help."""
    kind = next((kind for kind, known in _FAULTS.items() if isinstance(error, known)), "policy_gone")
    return {"type": kind, "message": keep_end(str(error), 4000)}


def as_error(message: Message) -> RunError:
    """Return the error that `policy_fault` told of."""
    return _FAULTS.get(message["type"], PolicyError)(message["message"])


def print_to(log: int) -> None:
    """Print into another file from now on; takes its descriptor."""
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)


def keep_end(text: str, most: int = 8000) -> str:
    """Return `text` short enough for a message, keeping its end, where tracebacks say what went wrong."""
    return text if len(text) <= most else "[...]" + text[-most:]
