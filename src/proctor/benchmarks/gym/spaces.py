"""Gymnasium's spaces in Proctor's terms: observation keys and features, and one flat array per action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proctor.errors import UsageError
from proctor.types import ENVIRONMENT_STATE, IMAGE, IMAGES, STATE, Feature

_ALIASES = {
    "agent_pos": STATE,
    "observation": STATE,
    "environment_state": ENVIRONMENT_STATE,
    "pixels": IMAGE,
}
"""LeRobot's names for what environments for it give, and `observation` of goal environments."""


class Leaf(NamedTuple):
    """One array of an observation: where it is found, and what it looks like."""

    path: tuple[Any, ...]
    feature: Feature

    def read(self, observation: Any) -> NDArray[Any]:
        """Return it as an array of its own, in the type that the space promises (environments are careless)."""
        value = observation
        for part in self.path:
            value = value[part]
        array = np.array(value).astype(self.feature.dtype, casting="same_kind", copy=False)
        return array if array.ndim else array.reshape(1)


def leaves(space: Any, task: str) -> dict[str, Leaf]:
    """Return the arrays of an observation space by our keys, in its own order.

    Raises:
        UsageError: it holds something that cannot be passed on.
    """
    found = _walk(space, (), task)
    if not found:
        raise UsageError(f"--env.task={task} has no observation that is an array.")
    own = {_plain_key(leaf.path) for leaf in found if leaf.path}
    keyed: dict[str, Leaf] = {}
    for leaf in found:
        key = _key(leaf)
        # A name that LeRobot gives to another one gives way to the environment's own.
        if key in keyed or (key in own and key != _plain_key(leaf.path)):
            key = _plain_key(leaf.path)
        if key in keyed:
            raise UsageError(f"--env.task={task} has two observations that would be called {key}.")
        keyed[key] = leaf
    return keyed


def _walk(space: Any, path: tuple[Any, ...], task: str) -> list[Leaf]:
    from gymnasium import spaces

    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        return [leaf for name, part in parts for leaf in _walk(part, (*path, name), task)]
    if isinstance(space, spaces.Text):
        return []
    if isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        shape = tuple(int(size) for size in space.shape) or (1,)
        dtype = np.dtype(space.dtype)
        return [Leaf(path, Feature(shape, str(dtype), drawn=dtype == np.uint8 and len(shape) == 3))]
    where = f" in '{'.'.join(map(str, path))}'" if path else ""
    raise UsageError(
        f"--env.task={task} has observations of a {type(space).__name__} space{where}, which has no fixed shape. "
        "Wrap the environment so that it gives arrays."
    )


def _plain_key(path: tuple[Any, ...]) -> str:
    return f"observation.{'.'.join(map(str, path))}"


def _key(leaf: Leaf) -> str:
    path = leaf.path
    if not path:
        return IMAGE if leaf.feature.drawn else STATE
    if len(path) > 1 and path[0] == "pixels":
        return f"{IMAGES}.{'.'.join(map(str, path[1:]))}"
    return _ALIASES.get(path[0], _plain_key(path)) if len(path) == 1 else _plain_key(path)


@dataclass(frozen=True)
class ActionForm:
    """How a flat array of numbers becomes an action of a space.

    Attributes:
        size: numbers in an action.
        low: their lower bounds; `high` the upper.
        integers: only whole numbers are actions.
        shape: the action's own shape; `None`: it is a single number.
        dtype: the action's own type.
    """

    size: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    integers: bool
    shape: tuple[int, ...] | None
    dtype: str

    @property
    def bounds(self) -> tuple[float | tuple[float, ...], float | tuple[float, ...]]:
        """Both bounds, as one number where all are the same."""
        low, high = (b[0] if len(set(b)) == 1 else b for b in (self.low, self.high))
        return low, high

    def action(self, numbers: NDArray[Any]) -> Any:
        """Return the environment's own action, in an array that it may change. Raises `ValueError`."""
        if not self.integers:
            return np.array(numbers, self.dtype).reshape(self.shape or ())
        whole = np.rint(numbers)
        if (whole < self.low).any() or (whole > self.high).any():
            raise ValueError(f"{numbers.tolist()}; whole numbers from {_list(self.low)} to {_list(self.high)}")
        return int(whole[0]) if self.shape is None else whole.astype(self.dtype).reshape(self.shape)


def _list(bounds: tuple[float, ...]) -> str:
    texts = [f"{bound:g}" for bound in bounds]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def action_form(space: Any, task: str) -> ActionForm:
    """Return how actions of a space are made. Raises `UsageError` where a flat array cannot say one."""
    from gymnasium import spaces

    low: NDArray[Any]
    high: NDArray[Any]
    if isinstance(space, spaces.Box):
        low, high = space.low, space.high
    elif isinstance(space, spaces.Discrete):
        low, high = np.array([space.start]), np.array([space.start + space.n - 1])
    elif isinstance(space, spaces.MultiDiscrete):
        start = np.asarray(getattr(space, "start", 0))
        low, high = np.broadcast_to(start, space.nvec.shape), start + space.nvec - 1
    elif isinstance(space, spaces.MultiBinary):
        low, high = np.zeros(space.shape), np.ones(space.shape)
    else:
        raise UsageError(
            f"--env.task={task} takes actions of a {type(space).__name__} space, which is no array of numbers. "
            "Wrap the environment so that it takes one."
        )
    return ActionForm(
        size=int(np.size(low)),
        low=tuple(float(bound) for bound in np.ravel(low)),
        high=tuple(float(bound) for bound in np.ravel(high)),
        integers=np.dtype(space.dtype).kind in "iub",
        shape=None if isinstance(space, spaces.Discrete) else tuple(space.shape),
        dtype=str(np.dtype(space.dtype)),
    )


def look_up(info: Mapping[str, Any], name: str) -> Any:
    """Return an entry of `info`, also of one inside it by a dotted name; `None` if it is not there."""
    for tree in (info, info.get("final_info")):
        value: Any = tree
        for part in (name,) if isinstance(tree, Mapping) and name in tree else name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    return None
