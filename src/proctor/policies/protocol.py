"""What a policy is: a pure function of a batch.

Per episode one observation window, one explicit memory and one random generator go in; one chunk of
actions and one new memory come out. There is no hidden state and no `reset()` on a shared object, so any
number of episodes and tasks share one set of weights, and an episode's answer never depends on its
neighbours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proctor.config.plain_values import from_plain
from proctor.config.registry import path_of
from proctor.config.settings import PolicySettings
from proctor.types import BenchmarkSpec, Observation, Task

Window = tuple[Observation, ...]
"""One observation per offset of the spec, oldest first. Before the start, the first one is repeated."""

Generators = Sequence[np.random.Generator]
"""One per row: its episode's own, which nobody else draws from."""

Memory = Any
"""Whatever a policy carries from one call to the next within one episode; it never leaves its process."""


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """What a policy needs and does, declared before any simulator starts.

    Attributes:
        observation_keys: the keys it looks at; `None`: all that the benchmark's settings offer; empty: it
            never looks, and nothing is ever drawn for it.
        action_size: numbers in one action; `None`: whatever the benchmark takes.
        observation_offsets: which steps a window holds, relative to now, ascending and ending with 0.
        action_steps: the executed length of every chunk, where that is fixed. Knowing it, the engine
            observes exactly the steps that lie in a window; otherwise it may have to observe a few more.
        stochastic: whether it draws from its generators.
        batch: how many rows may share one call; 1 wherever rows could influence each other's bits.
        fingerprint: a hash of all that decides its behaviour; `None`: unknown, such a run cannot resume.
        tasks: the names, or prompts, of the only tasks that it can do anything with; `None`: it takes any.
        lanes: how many calls may run side by side, in threads of one process, with the same bits.
        reproducible: whether the same episode gives the same answer next time.
        env_processors: the steps between simulator and policy, each a class that extends `proctor.EnvProcessor`
            or its `module:Name` or `file.py:Name`; `None`: the benchmark's own; empty: none at all.
        identity: what else decides its bits (versions, device, dtype), by name; a resume must match it.
        notes: what the user should know before the run, in a line each.
    """

    observation_keys: tuple[str, ...] | None = None
    action_size: int | None = None
    observation_offsets: tuple[int, ...] = (0,)
    action_steps: int | None = None
    stochastic: bool = False
    batch: int = 1
    fingerprint: str | None = None
    tasks: tuple[str, ...] | None = None
    lanes: int = 1
    reproducible: bool = True
    env_processors: tuple[Any, ...] | None = None
    identity: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        offsets = tuple(self.observation_offsets)
        if not offsets or offsets[-1] != 0 or list(offsets) != sorted(set(offsets)):
            raise ValueError(f"observation_offsets must ascend and end with 0, for example (-1, 0); got {offsets}")
        for name, value in (("batch", self.batch), ("lanes", self.lanes)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if self.env_processors is not None:
            # By name, so that any process can load them.
            object.__setattr__(self, "env_processors", tuple(map(path_of, self.env_processors)))

    @property
    def on_gpu(self) -> bool:
        """Whether it says that it runs on a GPU."""
        return self.identity.get("device", "cpu") != "cpu"

    def to_wire(self) -> dict[str, Any]:
        """Return plain values that msgpack carries between processes."""
        return asdict(self)

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> PolicySpec:
        """Rebuild a spec from `to_wire`."""
        spec: PolicySpec = from_plain(cls, wire)
        return spec


class Cost(NamedTuple):
    """What a policy costs, measured at its start on made-up observations.

    Attributes:
        load: seconds to import, load and make ready.
        act: seconds of one call on its own.
        side_by_side: how many calls' worth of work all lanes together get done in the time of one call.
        memory: bytes of one more copy, weights and imports.
    """

    load: float
    act: float
    side_by_side: float
    memory: int


class Pass(NamedTuple):
    """What a forward pass of a batch size was measured to take.

    Attributes:
        rows: rows in it, all of them used.
        alone: seconds from question to answer while nothing else runs.
        busy: seconds from one answer to the next while every lane has something to do.
    """

    rows: int
    alone: float
    busy: float


class Actions(NamedTuple):
    """What `Policy.act` returns: per row, a chunk of shape (steps, action_size) and the new memory."""

    chunks: Sequence[NDArray[Any]]
    memories: Sequence[Memory]


class Policy(ABC):
    """The full protocol. `policies.python.PlainPolicy` adapts a bare `act(observation) -> action` to it."""

    Settings: ClassVar[type[PolicySettings]] = PolicySettings
    """The policy's own `--policy.*` flags: a frozen dataclass that extends `PolicySettings`."""

    light: ClassVar[bool] = False
    """Costs almost nothing to make and to call, so it may run inside every worker, without any crossing."""

    @classmethod
    def check_installed(cls) -> None:
        """Raise `UsageError` with the command that installs what is missing; `proctor list` asks."""
        return  # most policies have nothing to check

    @classmethod
    def from_settings(cls, settings: Any, benchmark: BenchmarkSpec) -> Policy:
        """Build the policy in the process that will run it."""
        return cls()

    @classmethod
    def rebuild(cls, settings: Any, benchmark: BenchmarkSpec, spec: PolicySpec) -> Policy:
        """Build a worker's copy of a policy that `from_settings` has built before, and whose spec is known."""
        return cls.from_settings(settings, benchmark)

    @classmethod
    def may_end_at_once(cls, settings: Any) -> bool:
        """Whether its process may end without Python's own ending, which flushes what others have left open."""
        return False

    @classmethod
    def reloads(cls, settings: Any) -> bool:
        """Whether `from_settings` in a process that had such a policy before is as good as in a new process.

        So it is where all that makes the policy is read anew, and none of it is code.
        """
        return False

    @property
    @abstractmethod
    def spec(self) -> PolicySpec:
        """What it needs; constant over the object's life."""

    def begin(self, task: Task) -> Memory:
        """Return the memory of an episode of `task` that has not started yet."""
        return None

    @property
    def cost(self) -> Cost | None:
        """What it was measured to cost, where it has measured that; the placement is chosen by it."""
        return None

    def passes(self, sizes: Sequence[int]) -> list[Pass]:
        """Measure forward passes of several batch sizes, of those that the policy can run at; `autotune` asks."""
        return []

    @abstractmethod
    def act(self, windows: Sequence[Window], memories: Sequence[Memory], generators: Generators) -> Actions:
        """Answer at most `spec.batch` episodes; the executed length is the length of each chunk."""


LivePolicy = Policy | Path
"""A policy of the caller's: an object that stays in its process, or a folder into which one was saved just now."""
