"""Digests of an episode: equal ones mean that it went the same way, to the bit."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray


class Digest:
    """A running SHA-256 over named arrays: their names, types, shapes and bytes, in their order.

    What comes before an array's bytes says how many they are, so two sequences that differ in anything have other
    digests. Small arrays are gathered first: a call costs more than hashing them.
    """

    _SMALL, _MANY = 1 << 12, 1 << 16

    def __init__(self) -> None:
        self._hash, self._gathered = hashlib.sha256(), bytearray()

    def add(self, name: str, array: NDArray[Any]) -> None:
        """Take an array."""
        self._gathered += _header(name, array.dtype.str, array.shape)
        if array.nbytes < self._SMALL:
            self._gathered += array.tobytes()
            if len(self._gathered) > self._MANY:
                self._flush()
        else:
            self._flush()
            self._hash.update(np.ascontiguousarray(array).data)

    def hexdigest(self) -> str:
        """Return the digest of everything taken so far."""
        self._flush()
        return self._hash.hexdigest()

    def _flush(self) -> None:
        self._hash.update(self._gathered)
        self._gathered.clear()


class EpisodeDigests:
    """The two digests of an episode. Its physics can be compared between renderers and image sizes.

    Args:
        drawn: the observation keys that the policy looks at and a camera makes.
    """

    def __init__(self, drawn: frozenset[str]) -> None:
        self._drawn = drawn
        self._physics, self._pixels = Digest(), Digest()

    def saw(self, step: int, key: str, array: NDArray[Any]) -> None:
        """Take one key of what the policy saw after so many steps."""
        if key in self._drawn:
            self._pixels.add(f"{step} {key}", array)
        else:
            self._physics.add(key, array)

    def acted(self, action: NDArray[Any]) -> None:
        """Take an action as the simulator was given it: what it makes of it, by clipping, follows from that."""
        self._physics.add("action", action)

    def ended(
        self, rewards: NDArray[Any], success: bool | None, *, terminated: bool, truncated: bool, limited: bool
    ) -> None:
        """Take what the episode came to, and why it was over: by its simulator, or by the limit of steps."""
        self._physics.add("rewards", rewards)
        told = [] if success is None else [success]
        self._physics.add("success", np.array(told, np.bool_))
        self._physics.add("end", np.array([terminated, truncated, limited], np.bool_))

    @property
    def physics(self) -> str:
        """The digest of what was seen and not drawn, of actions, rewards, success and the end."""
        return self._physics.hexdigest()

    @property
    def pixels(self) -> str | None:
        """The digest of the drawn observations that the policy saw; `None` if it looks at none."""
        return self._pixels.hexdigest() if self._drawn else None


@lru_cache(maxsize=1024)
def _header(name: str, dtype: str, shape: tuple[int, ...]) -> bytes:
    header: bytes = msgpack.packb([name, dtype, shape])
    return header
