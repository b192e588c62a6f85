"""openpi's protocol: the server speaks first, then each observation is answered by a chunk of actions."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from proctor.policies.remote.connection import Connection, garbage
from proctor.policies.remote.dialects import Message, Metadata, actions_in
from proctor.policies.remote.messages import Malformed, pack, unpack
from proctor.types import BenchmarkSpec, Task


class OpenPi:
    """Metadata first, msgpack with bytes keys, no reset and no episode: a new connection is a new episode."""

    prompt_key = "prompt"

    def keys(self, benchmark: BenchmarkSpec) -> dict[str, str]:
        """Every server has names of its own; without a word from the user, ours are sent."""
        return {}

    def greet(self, connection: Connection) -> Metadata:
        """Read what the server says first."""
        metadata = _receive(connection)
        if not isinstance(metadata, dict):
            raise garbage(connection.address, "began with no map of metadata", metadata)
        return metadata

    def start(self, connection: Connection, task: Task) -> None:
        """The connection itself is the start."""

    def ask(self, connection: Connection, message: Message, number: int) -> NDArray[Any]:
        """Ask for a chunk."""
        connection.send(pack(message))
        return actions_in(connection, _receive(connection), "actions")

    def end(self, connection: Connection) -> None:
        """The close is the end."""


def _receive(connection: Connection) -> Any:
    data = connection.receive()
    try:
        return unpack(data)
    except Malformed as error:
        raise garbage(
            connection.address, "answered with something that is not its protocol", data, error
        ) from None
