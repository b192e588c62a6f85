"""The other side of a live comparison: three methods that any evaluation loop can give.

It is written in plain values, so that whoever has a loop of their own needs nothing of Proctor's to take part:

    class MyLoop:
        def begin(self, task, seed, index): ...   # reset environment and policy; returns the observation
        def act(self): ...                        # ask the policy; returns the action, or a map with "action"
        def step(self, action): ...               # returns observation, reward, terminated, truncated, info

What more it can say is compared too: a map from `act` may have `prompt`, `policy_input` and `raw_action`; methods
`layout()` and `succeeded()` may say where the episode began and what it counts as.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from proctor.blame import users_code
from proctor.config.registry import load_object
from proctor.errors import UsageError
from proctor.files import clip
from proctor.types import Task

Arrays = dict[str, NDArray[Any]]


class Harness(Protocol):
    """Another harness, stepped by `proctor diff --live`. An attribute `name` says what it is called."""

    def begin(self, task: Task, seed: int, index: int) -> Mapping[str, Any]:
        """Begin an episode; return what its environment shows, by LeRobot's keys (`observation.image`, ...)."""

    def act(self) -> Any:
        """Return the next action for the environment, or a map that also says how it came about."""

    def step(self, action: NDArray[Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Take a step as a Gymnasium environment does; success is `info["is_success"]` or `info["success"]`."""


@dataclass(frozen=True)
class Act:
    """What a harness does at a step, and how it came to that, as far as it says."""

    action: NDArray[Any]
    prompt: str | None = None
    policy_input: Arrays = field(default_factory=dict)
    raw_action: NDArray[Any] | None = None


@dataclass(frozen=True)
class Moment:
    """A simulator's state after some steps, as one of the sides shows it."""

    observation: Arrays
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    success: bool | None = None

    @property
    def ended(self) -> bool:
        """Whether the episode is over."""
        return self.terminated or self.truncated


class OtherSide:
    """A harness whose answers are read into one form. What it raises, or returns wrongly, is said to be its own.

    Args:
        harness: it.
        name: what it is called where it does not say so itself.
    """

    def __init__(self, harness: Any, name: str) -> None:
        self._harness = harness
        self.name = str(getattr(harness, "name", name))
        self._blame = f"the other harness ({clip(self.name, 80)})"

    def begin(self, task: Task, seed: int, index: int) -> Moment:
        """Begin an episode."""
        with users_code(f"{self._blame}: begin() raised"):
            return Moment(arrays_of(self._harness.begin(task, seed, index)))

    def act(self) -> Act:
        """Ask for an action."""
        with users_code(f"{self._blame}: act() raised"):
            found = self._harness.act()
            told = dict(found) if isinstance(found, Mapping) else {"action": found}
            raw = told.get("raw_action")
            return Act(
                _flat(told["action"]),
                None if told.get("prompt") is None else str(told["prompt"]),
                arrays_of(told.get("policy_input") or {}),
                None if raw is None else _flat(raw),
            )

    def step(self, action: NDArray[Any]) -> Moment:
        """Take a step."""
        with users_code(f"{self._blame}: step() raised"):
            observation, reward, terminated, truncated, info = self._harness.step(action.copy())
            success = info.get("is_success", info.get("success")) if isinstance(info, Mapping) else None
            return Moment(
                arrays_of(observation),
                float(as_array(reward).item()),
                bool(as_array(terminated).any()),
                bool(as_array(truncated).any()),
                None if success is None else bool(as_array(success).any()),
            )

    def layout(self) -> dict[str, float]:
        """Return where the episode began, if it says so."""
        with users_code(f"{self._blame}: layout() raised"):
            give = getattr(self._harness, "layout", None)
            return {} if give is None else {str(name): float(value) for name, value in (give() or {}).items()}

    def succeeded(self) -> bool | None:
        """Return what it counts the episode as, if it says so."""
        with users_code(f"{self._blame}: succeeded() raised"):
            give = getattr(self._harness, "succeeded", None)
            found = None if give is None else give()
            return None if found is None else bool(found)

    def close(self) -> None:
        """Let it free what it holds."""
        with users_code(f"{self._blame}: close() raised"):
            getattr(self._harness, "close", lambda: None)()


def load_harness(path: str, settings: Mapping[str, Any]) -> OtherSide:
    """Return the harness that `module:factory` or `file.py:factory` makes from a run's settings.

    Raises:
        UsageError: there is no such thing, or it has not the methods.
    """
    factory = load_object(path)
    with users_code(f"--harness={clip(path)}: it could not be made"):
        harness = factory(settings)
    missing = [name for name in ("begin", "act", "step") if not callable(getattr(harness, name, None))]
    if missing:
        raise UsageError(
            f"--harness={clip(path)}: what it returned has no {', '.join(missing)}. See docs/diff.md."
        )
    return OtherSide(harness, path.rpartition(":")[2])


def as_array(value: Any) -> NDArray[Any]:
    """Return a value as a NumPy array of its own; a tensor of torch's may be on any device."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    return np.array(value)


def arrays_of(values: Mapping[str, Any]) -> Arrays:
    """Return the entries of a map that are numbers, each without leading axes of length one."""
    found = {}
    for key, value in values.items():
        if value is None or isinstance(value, str | Mapping):
            continue
        array = as_array(value)
        if array.dtype.kind in "fiub":
            found[str(key)] = _single(array)
    return found


def _single(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array without the axis of a batch of one."""
    while array.ndim > 1 and array.shape[0] == 1:
        array = array[0]
    return array


def _flat(value: Any) -> NDArray[Any]:
    array = as_array(value)
    if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        raise ValueError(f"an action that is no finite numbers: {value!r:.80}")
    return array.reshape(-1)
