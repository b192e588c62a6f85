"""The policy itself: every episode has a connection of its own, and the server's answers are its actions.

A server that is `proctor serve` says what it serves and takes seeds: such a run has the digests of a local one.
Any other server draws its own random numbers; such a run says that it is not reproducible.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from proctor.config.settings import EXECUTION, AtLeast, MoreThan, PolicySettings
from proctor.errors import PolicyError, PolicyHostError, PolicyLostError, UsageError
from proctor.installation import require
from proctor.policies.protocol import Actions, Generators, Memory, Policy, PolicySpec, Window
from proctor.policies.remote.connection import Address, Connection, ServerUnreachable
from proctor.policies.remote.dialects import DIALECTS, ClientSide, DialectName, Message, Metadata, load_dialect
from proctor.policies.remote.handshake import EPISODE, SEED, SERVED, TASK, WINDOW, served_spec
from proctor.policies.remote.messages import MessageLayout, pack, resize_with_pad
from proctor.types import BenchmarkSpec, Observation, Task

_LANES = 16
"""Asks that may be under way at once where one process asks for all episodes: they only wait."""


@dataclass(frozen=True, kw_only=True)
class RemotePolicySettings(PolicySettings):
    """`--policy.*` of a policy server."""

    # Where the server is does not matter; what it serves is in the fingerprint, as far as it says so.
    path: Annotated[str | None, EXECUTION, "ws://HOST:PORT"] = None
    protocol: Annotated[DialectName, "what the server speaks"] = "openpi"
    keys: Annotated[
        dict[str, str],
        "the observations to send and their names at the server, as JSON: {benchmark's key: server's key}; "
        "a:b is the entry b of a map a [all, by the benchmark's names]",
    ] = field(default_factory=dict)
    prompt_key: Annotated[str, "the server's name of the task in words [the protocol's own]"] = ""
    image_size: Annotated[int, AtLeast(0), "images are sent as squares of this size, padded; 0: as drawn"] = 0
    n_action_steps: Annotated[int, AtLeast(0), "executed actions of each chunk; 0: all that come"] = 0
    timeout: Annotated[float, MoreThan(0), EXECUTION, "seconds that one answer may take"] = 60.0
    reconnect: Annotated[float, AtLeast(0), EXECUTION, "seconds that a lost server is waited for"] = 60.0

    @property
    def changes(self) -> list[Any]:
        """What the user changes on the way to the server: it changes the policy that the run evaluates."""
        return [self.keys, self.prompt_key, self.image_size, self.n_action_steps]


class Conversation:
    """An episode's memory: its task and, from its first question on, its connection."""

    def __init__(self, task: Task, dialect: ClientSide) -> None:
        self.task, self.asked = task, 0
        self.connection: Connection | None = None
        self.takes_seed = False
        self._dialect = dialect

    def close(self) -> None:
        """End it; what the server remembers of the episode ends with the connection."""
        connection, self.connection = self.connection, None
        if connection is not None:
            self._dialect.end(connection)
            connection.close()

    def __del__(self) -> None:
        # An episode's memory is dropped when the next one begins: so no socket outlives its episode for long.
        self.close()


class RemotePolicy(Policy):
    """A policy server's answers."""

    Settings = RemotePolicySettings
    light = True

    @classmethod
    def check_installed(cls) -> None:
        """Say how to get what connects to a server."""
        require("a policy server", "remote", "websockets")

    def __init__(
        self, settings: RemotePolicySettings, benchmark: BenchmarkSpec, spec: PolicySpec | None = None
    ) -> None:
        if not settings.path:
            raise UsageError("--policy.type=remote needs --policy.path=ws://HOST:PORT.")
        self._settings, self._benchmark = settings, benchmark
        self._dialect = load_dialect(settings.protocol).client
        self._address = Address(settings.path, settings.timeout, settings.reconnect)
        self._layout = MessageLayout(
            keys=settings.keys or self._dialect.keys(benchmark),
            prompt_key=settings.prompt_key or self._dialect.prompt_key,
        )
        self._spec = spec or self._spec_by(self._first_contact())

    @classmethod
    def from_settings(cls, settings: RemotePolicySettings, benchmark: BenchmarkSpec) -> RemotePolicy:
        """Ask the server what it is. One that is not there is refused before any simulator starts."""
        return cls(settings, benchmark)

    @classmethod
    def rebuild(cls, settings: RemotePolicySettings, benchmark: BenchmarkSpec, spec: PolicySpec) -> RemotePolicy:
        """Build a worker's copy without asking: the server may be away just now, and is waited for later."""
        return cls(settings, benchmark, spec)

    @property
    def spec(self) -> PolicySpec:
        """What the server said it needs, or what the settings send."""
        return self._spec

    def begin(self, task: Task) -> Memory:
        """Return an episode's memory. It connects with its first question, which no simulator's limit times."""
        return Conversation(task, self._dialect)

    def act(self, windows: Sequence[Window], memories: Sequence[Memory], generators: Generators) -> Actions:
        """Ask for each episode on its own connection; the server sees to batches."""
        chunks = []
        for window, memory, generator in zip(windows, memories, generators, strict=True):
            try:
                chunks.append(self._ask(memory, window, generator))
            except (PolicyError, PolicyLostError):
                memory.close()
                raise
        return Actions(chunks, memories)

    def _ask(self, episode: Conversation, window: Window, generator: np.random.Generator) -> NDArray[Any]:
        if episode.connection is None:
            self._open(episode)
        assert episode.connection is not None
        message = self._message(window)
        if episode.takes_seed:
            message[WINDOW] = len(window)
            if not episode.asked:
                message |= _opening(episode.task, generator)
        actions = self._dialect.ask(episode.connection, message, episode.asked)
        episode.asked += 1
        return self._executed(actions)

    def _open(self, episode: Conversation) -> None:
        connection, metadata = Connection.patiently(self._address, self._dialect.greet)
        try:
            now = self._spec_by(metadata)
            same = (now.fingerprint, now.identity) == (self.spec.fingerprint, self.spec.identity)
        except UsageError:
            same = False
        if not same:
            raise PolicyHostError(
                f"{self._address} serves another policy now than when this run began. "
                "Serve the old one again, or use a new --output_dir."
            )
        self._dialect.start(connection, episode.task)
        episode.connection, episode.takes_seed = connection, SERVED in metadata

    def _message(self, window: Window) -> Message:
        shown = [self._prepared(observation) for observation in window]
        values = {
            key: np.stack([one[key] for one in shown]) if len(shown) > 1 else value
            for key, value in shown[-1].items()
        }
        return self._layout.message(values, window[-1]["task"])

    def _prepared(self, observation: Observation) -> Observation:
        ready = {key: value for key, value in observation.items() if key != "task"}
        if self._settings.image_size:
            for key, value in ready.items():
                if self._benchmark.every[key].drawn:
                    ready[key] = resize_with_pad(value, self._settings.image_size)
        return ready

    def _executed(self, actions: NDArray[Any]) -> NDArray[Any]:
        wanted = self._settings.n_action_steps
        if wanted > len(actions):
            raise PolicyError(
                f"{self._address} returned a chunk of {len(actions)} actions, "
                f"and --policy.n_action_steps={wanted} asks for {wanted}."
            )
        return actions[:wanted] if wanted else actions

    # What the server is.

    def _first_contact(self) -> Metadata:
        try:
            connection = Connection(self._address)
            try:
                return self._dialect.greet(connection)
            finally:
                connection.close()
        except ServerUnreachable as error:
            raise UsageError(
                f"--policy.path={self._address.url}: no policy server there: {error}. "
                "Start it, then run the same command again."
            ) from None
        except (PolicyLostError, PolicyError) as error:
            others = " or ".join(name for name in DIALECTS if name != self._settings.protocol)
            raise UsageError(f"{error}. Does it speak --policy.protocol={others}?") from None

    def _spec_by(self, metadata: Metadata) -> PolicySpec:
        s = self._settings
        if SERVED in metadata:
            return served_spec(metadata[SERVED], s, self._address, _LANES)
        identity = [s.path, s.protocol, *s.changes, metadata]
        return PolicySpec(
            observation_keys=tuple(s.keys) if s.keys else None,
            action_steps=s.n_action_steps or None,
            stochastic=True,
            fingerprint=hashlib.sha256(pack(identity)).hexdigest()[:32],
            lanes=_LANES,
            reproducible=False,
            notes=(f"{self._address} cannot be seeded: this run is not reproducible.",),
        )


def _opening(task: Task, generator: np.random.Generator) -> Message:
    """Return what makes a served policy's episode the one that a local policy would have."""
    key = generator.bit_generator.state["state"]["key"]
    return {
        EPISODE: uuid.uuid4().hex,
        SEED: [int(word) for word in key],
        TASK: task.to_wire(),
    }
