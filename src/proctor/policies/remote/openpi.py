"""openpi's protocol: the server speaks first, then each observation is answered by a chunk of actions."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from proctor.policies.remote.connection import Connection
from proctor.policies.remote.dialects import Dialect, Message, Metadata, actions_in
from proctor.policies.remote.messages import pack, unpack
from proctor.types import BenchmarkSpec, Task


class OpenPiClient:
    """Metadata first, msgpack with bytes keys, no reset and no episode: a new connection is a new episode."""

    prompt_key = "prompt"

    def keys(self, benchmark: BenchmarkSpec) -> dict[str, str]:
        """Every server has names of its own; without a word from the user, ours are sent."""
        return {}

    def greet(self, connection: Connection) -> Metadata:
        """Read what the server says first."""
        metadata = connection.receive()
        if not isinstance(metadata, dict):
            raise connection.garbage("began with no map of metadata", metadata)
        return metadata

    def start(self, connection: Connection, task: Task) -> None:
        """The connection itself is the start."""

    def ask(self, connection: Connection, message: Message, number: int) -> NDArray[Any]:
        """Ask for a chunk."""
        connection.send(pack(message))
        return actions_in(connection, connection.receive(), "actions")

    def end(self, connection: Connection) -> None:
        """The close is the end."""


class OpenPiServer:
    """Its messages are maps of arrays, which the session reads as they are."""

    def greeting(self, metadata: Metadata) -> bytes:
        """Return the metadata."""
        return pack(metadata)

    def read(self, data: bytes) -> Any:
        """Every message is an observation."""
        return unpack(data)

    def answer(self, actions: NDArray[Any], seconds: float) -> bytes:
        """Return the chunk, with the time that openpi's own servers tell."""
        return pack({"actions": actions, "server_timing": {"infer_ms": 1000 * seconds}})


DIALECT = Dialect(OpenPiClient(), OpenPiServer())
