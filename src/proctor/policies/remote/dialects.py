"""What every dialect of policy servers has in common: a greeting, a start, questions and an end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from proctor.policies.remote.connection import Connection, garbage
from proctor.types import BenchmarkSpec, Task

Metadata = dict[str, Any]
Message = dict[str, Any]


class Dialect(Protocol):
    """How one kind of server is spoken to. It keeps no state: a connection holds all there is."""

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


@dataclass(frozen=True)
class Wire:
    """Under which names an observation travels. A name `a:b` is the entry `b` of a map `a`."""

    keys: dict[str, str]
    prompt_key: str

    def message(self, values: Message, prompt: str) -> Message:
        """Return an observation as the server wants it."""
        message: Message = {self.prompt_key: prompt}
        for key, value in values.items():
            *outer, name = self.keys.get(key, key).split(":")
            place = message
            for part in outer:
                place = place.setdefault(part, {})
            place[name] = value
        return message


def actions_in(connection: Connection, answer: Any, *names: str) -> NDArray[Any]:
    """Return the chunk in an answer, of shape (steps, size); one bare action is a chunk of one."""
    if not isinstance(answer, dict):
        raise garbage(connection.address, "answered with no map", answer)
    found = next((answer[name] for name in names if name in answer), None)
    if found is None:
        keys = sorted(map(str, answer))
        raise garbage(connection.address, f"answered without '{names[0]}'; it gave", keys)
    try:
        actions = np.asarray(found)
    except ValueError:
        raise garbage(connection.address, "answered with actions that are no array", found) from None
    if actions.dtype.kind not in "fiu":
        raise garbage(connection.address, f"answered with actions of type {actions.dtype}", found)
    if actions.ndim == 1:
        actions = actions[None]
    if actions.ndim != 2 or not len(actions):
        raise garbage(connection.address, "answered with actions of shape", actions.shape)
    return actions
