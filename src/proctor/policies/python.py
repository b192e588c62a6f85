"""A user's own policy: `--policy.path=file.py:Name` or `module:Name`, or a live object in Python.

It may be a full `Policy`, or anything with a plain `act(observation) -> action`, or a bare function. A plain
one sees the newest observation as a dict and returns one action or a chunk of them. If its `act` takes a
second argument, it gets the episode's random generator. If it has a `reset()`, it keeps state, so every
episode gets a copy of its own.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from proctor.config.content_hashes import by_content, source_hash
from proctor.config.registry import load_object
from proctor.config.settings import Locates, PolicySettings
from proctor.errors import UsageError
from proctor.policies.names import LIVE
from proctor.policies.protocol import Actions, Cost, Generators, Memory, Pass, Policy, PolicySpec, Window
from proctor.types import BenchmarkSpec, Task


@dataclass(frozen=True, kw_only=True)
class PythonPolicySettings(PolicySettings):
    """`--policy.*` of a Python policy."""

    kwargs: Annotated[
        dict[str, Any], Locates("values"), "arguments of its constructor: --policy.kwargs.name=value"
    ] = field(default_factory=dict)


class PlainPolicy(Policy):
    """Adapts `act(observation) -> action` to the batch protocol."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain
        self._stateful = callable(getattr(plain, "reset", None))
        self._takes_generator = _takes_two(_act_of(plain))

    @property
    def spec(self) -> PolicySpec:
        """It looks at all that the benchmark's settings offer, whenever it is asked."""
        declared = getattr(self._plain, "observation_keys", None)
        return PolicySpec(
            observation_keys=None if declared is None else tuple(declared),
            stochastic=self._takes_generator,
            fingerprint=getattr(self._plain, "fingerprint", None),
            env_processors=getattr(self._plain, "env_processors", None),
        )

    def begin(self, task: Task) -> Memory:
        """Return this episode's own copy if the policy keeps state."""
        if not self._stateful:
            return None
        own = copy.deepcopy(self._plain)
        own.reset()
        return own

    def act(self, windows: Sequence[Window], memories: Sequence[Memory], generators: Generators) -> Actions:
        """Ask for each episode in turn."""
        chunks = []
        for window, own, generator in zip(windows, memories, generators, strict=True):
            function = _act_of(self._plain if own is None else own)
            action = function(window[-1], generator) if self._takes_generator else function(window[-1])
            array = _to_numpy(action)
            chunks.append(array.reshape(1, -1) if array.ndim < 2 else array)  # a bare index is an action too
        return Actions(chunks, memories)


class PythonPolicy(Policy):
    """A policy loaded from the user's source, known by the hash of that source and its arguments."""

    Settings = PythonPolicySettings

    def __init__(self, inner: Policy, fingerprint: str) -> None:
        own = inner.spec.fingerprint
        self._spec = dataclasses.replace(
            inner.spec, fingerprint=fingerprint if own is None else f"{fingerprint}:{own}"
        )
        self._inner = inner

    @classmethod
    def from_settings(cls, settings: PythonPolicySettings, benchmark: BenchmarkSpec) -> PythonPolicy:
        """Load the source and build what it names."""
        if not settings.path:
            raise UsageError("--policy.type=python needs --policy.path=file.py:Name or module:Name.")
        if settings.path.startswith(LIVE):
            raise UsageError("this run's policy was a live Python object: only the script that made it can go on.")
        found = load_object(settings.path)
        if inspect.isclass(found):
            arguments = dict(settings.kwargs)
            if "benchmark" in _parameters(found):
                arguments.setdefault("benchmark", benchmark)
            found = found(**arguments)
        elif settings.kwargs:
            raise UsageError(f"--policy.kwargs go to a class's constructor, and {settings.path} is not a class.")
        return cls(as_policy(found, settings.path), _fingerprint(settings))

    @property
    def spec(self) -> PolicySpec:
        """The inner policy's, with the source's fingerprint."""
        return self._spec

    @property
    def cost(self) -> Cost | None:
        """What the user's policy measured; an object that only looks like a `Policy` measures nothing."""
        return self._inner.cost if isinstance(self._inner, Policy) else None

    def passes(self, sizes: Sequence[int]) -> list[Pass]:
        """Let the user's policy measure its forward passes."""
        return self._inner.passes(sizes) if isinstance(self._inner, Policy) else []

    def begin(self, task: Task) -> Memory:
        """Let the user's policy begin."""
        return self._inner.begin(task)

    def act(self, windows: Sequence[Window], memories: Sequence[Memory], generators: Generators) -> Actions:
        """Ask the user's policy."""
        return self._inner.act(windows, memories, generators)


def as_policy(found: Any, name: str) -> Policy:
    """Return a live object as a policy, adapting a plain one."""
    if inspect.isclass(found):
        raise UsageError(f"{name} is a class; give an object of it.")
    if isinstance(found, Policy):
        return found
    if all(hasattr(found, attribute) for attribute in ("spec", "begin", "act")):
        full: Policy = found
        return full
    if callable(_act_of(found)):
        return PlainPolicy(found)
    raise UsageError(
        f"{name} is no policy: it is neither a proctor.Policy nor callable, and has no act(observation)."
    )


def _act_of(plain: Any) -> Callable[..., Any]:
    act: Callable[..., Any] = getattr(plain, "act", plain)
    return act


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # written in C, as every exception's constructor is
        return {}


def _takes_two(function: Callable[..., Any]) -> bool:
    places = [p for p in _parameters(function).values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(places) > 1 and (places[1].default is places[1].empty or places[1].name in ("generator", "rng"))


def _to_numpy(action: Any) -> np.ndarray[Any, Any]:
    # A torch tensor may live on a GPU or need its gradient dropped; torch itself is never imported here.
    if hasattr(action, "detach"):
        action = action.detach().cpu().numpy()
    return np.asarray(action)


def _fingerprint(settings: PythonPolicySettings) -> str:
    # Not where files lie, but what they hold: a run can be resumed from another directory or machine. A checkpoint
    # given as an argument decides the behaviour as much as the source does.
    path = settings.path or ""
    parts = [path.rpartition(":")[2], source_hash(path), by_content(settings.kwargs)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]
