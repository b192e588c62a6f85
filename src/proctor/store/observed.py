"""The numbers that could be observed after every step of an episode, kept beside its film.

A run does not keep them: they follow from the stored actions. A film is a replay, and has them at hand. The file
may come from anybody, like all of a run directory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from proctor.files import open_below, read_descriptor
from proctor.store.trajectories import pack_array, unpack_array
from proctor.store.videos import numbers_place
from proctor.types import EpisodeKey

MOST_COLUMNS = 64
"""Numbers that are kept of an observation."""

MOST_KEPT = 1 << 22
"""Numbers of an episode; a longer one keeps none."""

_MOST_BYTES = 8 << 20
_MOST_NAME = 200
_FORMAT = 1


@dataclass(frozen=True)
class ObservedNumbers:
    """What could be observed.

    Attributes:
        names: of each number.
        values: a row for the beginning and one after every step.
        there: how many numbers an observation has, of which the first are kept.
    """

    names: Sequence[str]
    values: NDArray[np.float32]
    there: int


def pack_observed(observed: ObservedNumbers) -> bytes:
    """Return the numbers packed for a file."""
    packed: bytes = msgpack.packb(
        [_FORMAT, list(observed.names), pack_array(observed.values.astype("<f4")), observed.there]
    )
    return packed


def read_observed(run: Path, key: EpisodeKey, steps: int) -> ObservedNumbers | None:
    """Return the numbers beside an episode's film; `None` if there are none that can be its own.

    Args:
        run: the run directory.
        key: the episode.
        steps: how many steps it has.
    """
    place = numbers_place(key)
    try:
        with open_below(run, place) as file:
            found = _unpacked(read_descriptor(file, _MOST_BYTES, run / place))
    except (OSError, ValueError):
        return None
    return found if len(found.values) == steps + 1 else None


def _unpacked(packed: bytes) -> ObservedNumbers:
    """Return what `pack_observed` has packed. Raises `ValueError` if it is something else."""
    try:
        form, names, values, there = msgpack.unpackb(packed)
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
        raise ValueError(f"no numbers ({error})") from None
    array: NDArray[Any] = unpack_array(values, MOST_KEPT)
    sound = form == _FORMAT and array.dtype == "<f4" and array.ndim == 2 and isinstance(names, list)
    if not sound or not 0 < len(names) <= MOST_COLUMNS or array.shape[1] != len(names):
        raise ValueError("other numbers than names")
    if not all(isinstance(name, str) and len(name) <= _MOST_NAME for name in names):
        raise ValueError("names that are none")
    if type(there) is not int or not len(names) <= there < 1 << 31:
        raise ValueError("another number of numbers")
    return ObservedNumbers(names, array, there)
