"""The wire protocols that policy servers speak.

Each is one file, which holds what a client says and what a server answers, and one entry of `DIALECTS`. The flag
`--policy.protocol` takes its values from there; what a server says of itself in the greeting decides the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from proctor.config.registry import load_object
from proctor.policies.remote.connection import Connection
from proctor.types import BenchmarkSpec, Task

DIALECTS = {
    "openpi": "proctor.policies.remote.openpi:DIALECT",
    "vla-eval": "proctor.policies.remote.vla_eval:DIALECT",
}
"""Where each lies, by what `--policy.protocol` calls it."""

if TYPE_CHECKING:
    DialectName = str
else:
    DialectName = Literal[tuple(DIALECTS)]

Metadata = dict[str, Any]
Message = dict[str, Any]


class ClientSide(Protocol):
    """How a server of this kind is asked. It keeps no state: a connection holds all there is."""

    prompt_key: str
    """Where this kind of server looks for the task in words."""

    def keys(self, benchmark: BenchmarkSpec) -> dict[str, str]:
        """Return the server's name of each observation that a benchmark offers, where the user names none."""

    def greet(self, connection: Connection) -> Metadata:
        """Open the conversation; returns what the server says about itself."""

    def start(self, connection: Connection, task: Task) -> None:
        """Begin an episode."""

    def ask(self, connection: Connection, message: Message, number: int) -> NDArray[Any]:
        """Send the `number`-th observation of an episode and return the actions that come back."""

    def end(self, connection: Connection) -> None:
        """End the episode; the connection is closed next."""


class Reply(NamedTuple):
    """What a server sends back at once, without asking the policy; `None`: nothing."""

    data: bytes | None


class ServerSide(Protocol):
    """How `proctor serve` answers clients of this kind. What it keeps of a connection is in `serve/session.py`."""

    def greeting(self, metadata: Metadata) -> bytes | None:
        """Return what is sent as soon as a client connects, if the server speaks first."""

    def read(self, data: bytes) -> Any | Reply:
        """Return what a client shows the policy, for the session to check; or how anything else is answered.

        Raises:
            MalformedMessage: it is none of the protocol's.
        """

    def answer(self, actions: NDArray[Any], seconds: float) -> bytes:
        """Return the message with a chunk of actions, which the policy took so long for."""


class Dialect(NamedTuple):
    """Both sides of a protocol; without a server's, `proctor serve` does not speak it."""

    client: ClientSide
    server: ServerSide | None = None


def load_dialect(name: str) -> Dialect:
    """Return the dialect of that name."""
    dialect: Dialect = load_object(DIALECTS[name])
    return dialect


def actions_in(connection: Connection, answer: Any, *names: str) -> NDArray[Any]:
    """Return the chunk in an answer, of shape (steps, size); one bare action is a chunk of one."""
    if not isinstance(answer, dict):
        raise connection.garbage("answered with no map", answer)
    found = next((answer[name] for name in names if name in answer), None)
    if found is None:
        raise connection.garbage(f"answered without '{names[0]}'; it gave", sorted(map(str, answer)))
    try:
        actions = np.asarray(found)
    except ValueError:
        raise connection.garbage("answered with actions that are no array", found) from None
    if actions.dtype.kind not in "fiu":
        raise connection.garbage(f"answered with actions of type {actions.dtype}", found)
    if actions.ndim == 1:
        actions = actions[None]
    if actions.ndim != 2 or not len(actions):
        raise connection.garbage("answered with actions of shape", actions.shape)
    return actions
