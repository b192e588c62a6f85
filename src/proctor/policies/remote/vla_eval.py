"""vla-eval's protocol, so that its model servers can be evaluated too.

Every message is a map of type, payload, sequence number and time, with text keys. The client speaks first. The
server answers every observation; most keep their chunks to themselves and answer with one action.
"""

from __future__ import annotations

import time
from typing import Any

from numpy.typing import NDArray

import proctor
from proctor.errors import PolicyError, PolicyLostError
from proctor.policies.remote.connection import Connection, last_line
from proctor.policies.remote.dialects import Dialect, Message, Metadata, actions_in
from proctor.policies.remote.messages import pack
from proctor.types import STATE, BenchmarkSpec, Task

PROTOCOL_VERSION = 1


class VlaEvalClient:
    """Version 1 of vla-eval's protocol, in its mode where the simulator waits for each answer."""

    prompt_key = "task_description"

    def keys(self, benchmark: BenchmarkSpec) -> dict[str, str]:
        """Its benchmarks send cameras under `images`, by name, and the robot's state as `states`."""
        return {
            key: f"images:{key.rpartition('.')[2]}" if feature.drawn else "states" if key == STATE else key
            for key, feature in benchmark.every.items()
        }

    def greet(self, connection: Connection) -> Metadata:
        """Exchange hellos."""
        hello = {"harness_version": f"proctor {proctor.__version__}", "protocol_version": PROTOCOL_VERSION}
        _send(connection, "hello", hello, 0)
        metadata = _receive(connection, "hello")
        version = metadata.get("protocol_version")
        if version != PROTOCOL_VERSION:
            raise PolicyError(
                f"{connection.address} speaks version {version} of vla-eval's protocol; "
                f"Proctor speaks version {PROTOCOL_VERSION}."
            )
        return metadata

    def start(self, connection: Connection, task: Task) -> None:
        """Tell the server of a new episode; it answers only if it cannot."""
        words = {"name": task.name, "suite": task.group, "task_id": task.task_id}
        _send(connection, "episode_start", {"task": words}, 1)

    def ask(self, connection: Connection, message: Message, number: int) -> NDArray[Any]:
        """Ask for the next action."""
        _send(connection, "observation", message, 2 + number)
        return actions_in(connection, _receive(connection, "action"), "actions", "action")

    def end(self, connection: Connection) -> None:
        """Tell the server that the episode is over."""
        try:
            _send(connection, "episode_end", {}, 0)
        except (PolicyError, PolicyLostError):
            pass  # it is gone already, which ends the episode as well


def _send(connection: Connection, kind: str, payload: Message, number: int) -> None:
    message = {"type": kind, "payload": payload, "seq": number, "timestamp": time.time()}
    connection.send(pack(message, "text"))


def _receive(connection: Connection, wanted: str) -> Metadata:
    message = connection.receive()
    if not isinstance(message, dict) or not isinstance(message.get("payload"), dict):
        raise connection.garbage("answered with no message of vla-eval's", message)
    payload: Metadata = message["payload"]
    if message.get("type") == "error":
        raise PolicyError(
            f"{connection.address} answered with an error: {last_line(str(payload.get('error', payload)))}"
        )
    if message.get("type") != wanted:
        raise connection.garbage(f"answered with no {wanted}", message)
    return payload


DIALECT = Dialect(VlaEvalClient())
