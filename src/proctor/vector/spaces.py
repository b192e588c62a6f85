"""A benchmark's features as Gymnasium spaces, in the layout that LeRobot's environments have.

`lerobot.envs.utils.preprocess_observation` turns that layout back into the very keys that Proctor's policies see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from numbers import Integral
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from proctor.config.settings import MOST_SEED
from proctor.errors import UsageError
from proctor.types import IMAGE, IMAGES, STATE, BenchmarkSpec, Feature

Place = tuple[str, ...]
"""Where a feature is in a Gymnasium observation: a key, or a key in a dict of cameras."""

_PREFIX = "observation."
_CAMERAS = f"{IMAGES}."
_RENAMED: dict[str, Place] = {IMAGE: ("pixels",), STATE: ("agent_pos",)}


def places(features: Iterable[str]) -> dict[str, Place]:
    """Return where each feature goes.

    >>> places(["observation.image", "observation.state"])
    {'observation.image': ('pixels',), 'observation.state': ('agent_pos',)}
    >>> places(["observation.images.front"])
    {'observation.images.front': ('pixels', 'front')}
    """
    found = {key: _place(key) for key in features}
    taken = list(found.values())
    one_camera_and_more = ("pixels",) in taken and any(len(place) > 1 for place in taken)
    another = any(place in _RENAMED.values() and key not in _RENAMED for key, place in found.items())
    if len(set(taken)) < len(taken) or one_camera_and_more or another:
        raise UsageError(
            f"{', '.join(found)} do not all fit into LeRobot's layout of a vector environment, "
            "where observation.image is 'pixels' and observation.images.* are entries of it."
        )
    return found


def _place(key: str) -> Place:
    if key in _RENAMED:
        return _RENAMED[key]
    if key.startswith(_CAMERAS):
        return ("pixels", key.removeprefix(_CAMERAS))
    return (key.removeprefix(_PREFIX),)


def arranged(observation: Mapping[str, Any], where: Mapping[str, Place]) -> dict[str, Any]:
    """Return an observation, or its spaces, in LeRobot's layout."""
    result: dict[str, Any] = {}
    for key, place in where.items():
        *outer, last = place
        level = result.setdefault(outer[0], {}) if outer else result
        level[last] = observation[key]
    return result


def observation_space(spec: BenchmarkSpec, n: int | None = None) -> Any:
    """Return the space of what a simulator shows, or of what n of them show.

    Equal ones are shared, because a Box of pixels keeps its bounds in full: a batch of 16 takes 44 MB.
    """
    return _observation_space(tuple(spec.features.items()), n)


@lru_cache(maxsize=16)
def _observation_space(features: tuple[tuple[str, Feature], ...], n: int | None) -> Any:
    if n is not None:
        return batch_space(_observation_space(features, None), n)
    boxes = {key: _box(feature) for key, feature in features}
    nested = arranged(boxes, places(boxes))
    return spaces.Dict(
        {key: spaces.Dict(item) if isinstance(item, dict) else item for key, item in nested.items()}
    )


def _box(feature: Feature) -> Any:
    dtype = np.dtype(feature.dtype)
    low: float | int
    high: float | int
    if dtype.kind == "f":
        low, high = -np.inf, np.inf
    elif dtype.kind == "b":
        low, high = 0, 1
    else:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return spaces.Box(low, high, feature.shape, dtype.type)


def action_space(spec: BenchmarkSpec) -> Any:
    """Return the space of one action. Never shared: whoever samples from it seeds it."""
    kind = np.int64 if spec.action_integers else np.float32
    low, high = (
        np.broadcast_to(np.asarray(bound, kind), (spec.action_size,)).copy()
        for bound in (spec.action_low, spec.action_high)
    )
    return spaces.Box(low, high, dtype=kind)


def checked_action(action: Any, space: Any) -> NDArray[Any]:
    """Return an action, or one for each of several environments, as an array of the space's shape.

    Raises:
        ValueError: it has another shape, or is not made of finite numbers. That is the caller's mistake, told
            before any simulator has moved.
    """
    array = np.asarray(action)
    *environments, _ = space.shape
    count = len(environments)
    if list(array.shape[:count]) != environments:
        raise ValueError(
            f"Expected one action for each environment, shape (num_envs, action_dim) = {space.shape}, "
            f"but got shape {array.shape}"
        )
    wanted, given = space.shape[count:], array.shape[count:]
    if len(given) != 1:  # LeRobot's words
        raise ValueError(
            f"Expected action to be 1-D (shape (action_dim,)), but got shape {given} with ndim={len(given)}"
        )
    if given != wanted:
        raise ValueError(f"Expected action to have shape {wanted}, but got shape {given}")
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise ValueError(f"Expected action to be finite numbers, but got {array!r:.200}")
    return array


def checked_seeds(seed: Any, environments: int) -> list[int | None] | None:
    """Return a seed for each environment, as Gymnasium spreads one over them.

    Raises:
        UsageError: it is no whole number that simulators take, or there is not one for each.
    """
    if seed is None:
        return None
    if isinstance(seed, np.ndarray):
        seed = seed.tolist()
    seeds = [seed + number for number in range(environments)] if _is_whole(seed) else seed
    if not isinstance(seeds, Sequence) or len(seeds) != environments:
        raise UsageError(
            f"seed={seed!r:.80}: give a whole number, or {environments} of them, one per environment."
        )
    for one in seeds:
        if one is not None and not (_is_whole(one) and 0 <= one <= MOST_SEED):
            raise UsageError(f"seed={one!r:.80}: simulators take whole numbers from 0 to {MOST_SEED}.")
    return [None if one is None else int(one) for one in seeds]


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
