"""Digests of an episode: equal ones mean that it went the same way, to the bit."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any, NamedTuple

import msgpack
import numpy as np
from numpy.typing import NDArray

from proctor.store.trajectories import MARK, Trajectory, pack_trajectory


class Digest:
    """A running SHA-256 over named arrays: their names, types, shapes and bytes, in their order.

    What comes before an array's bytes says how many they are, so two sequences that differ in anything have other
    digests. Small arrays are gathered first, and marks are made when those are hashed: between two steps of a
    simulator, which empty the CPU's caches, the same calls take three times as long as one after the other.
    """

    _SMALL, _MANY = 1 << 12, 1 << 16

    def __init__(self) -> None:
        self._hash, self._gathered = hashlib.sha256(), bytearray()
        self._marked: list[int] = []  # the bytes gathered before each mark that is still to be made
        self._marks: list[bytes] = []

    def add(self, name: str, array: NDArray[Any]) -> None:
        """Take an array."""
        header = _header(name, array.dtype.str, array.shape)
        if array.nbytes < self._SMALL:
            self.take(header, array.tobytes())
        else:
            self._gathered += header
            self._flush()
            self._hash.update(np.ascontiguousarray(array).data)

    def take(self, header: bytes, content: bytes) -> None:
        """Take the bytes of an array, and what comes before them."""
        self._gathered += header
        self._gathered += content
        if len(self._gathered) > self._MANY:
            self._flush()

    def mark(self) -> None:
        """Remember a few bytes of the digest so far: the first that differ tell where two sequences part."""
        self._marked.append(len(self._gathered))

    def marks(self) -> list[bytes]:
        """Return what was to be remembered."""
        self._flush()
        return self._marks

    def hexdigest(self) -> str:
        """Return the digest of everything taken so far."""
        self._flush()
        return self._hash.hexdigest()

    def _flush(self) -> None:
        hashed, gathered, begin = self._hash, self._gathered, 0
        if self._marked:
            for end in self._marked:
                hashed.update(gathered[begin:end])
                self._marks.append(hashed.digest()[:MARK])
                begin = end
            self._marked.clear()
        hashed.update(gathered[begin:] if begin else gathered)
        gathered.clear()


class _Alike(NamedTuple):
    """Actions of one type, one after the other."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    contents: list[bytes]

    def array(self) -> NDArray[Any]:
        return np.frombuffer(b"".join(self.contents), self.dtype).reshape(-1, *self.shape)


class EpisodeDigests:
    """The two digests of an episode, and the trajectory that they are of.

    Its physics can be compared between renderers and image sizes.

    Args:
        drawn: the observation keys that the policy looks at and a camera makes.
        keeps: whether the trajectory is wanted.
    """

    def __init__(self, drawn: frozenset[str], keeps: bool = False) -> None:
        self._drawn, self._keeps = drawn, keeps
        self._physics, self._pixels = Digest(), Digest()
        self._actions: list[_Alike] = []
        self._header, self._contents = b"", list[bytes]()  # of the actions that are like the last one
        self._chunks: list[int] = []
        self._seen: list[Digest] = []  # which has taken each array that the policy saw, if there are two that may
        self.trajectory = b""
        """Packed, once the episode has ended; empty if it is not wanted."""

    def saw(self, step: int, key: str, array: NDArray[Any]) -> None:
        """Take one key of what the policy saw after so many steps."""
        digest = self._pixels if key in self._drawn else self._physics
        digest.add(f"{step} {key}" if digest is self._pixels else key, array)
        if self._keeps:
            digest.mark()
            if self._drawn:
                self._seen.append(digest)

    def asked(self, chunk: int) -> None:
        """Take how many actions the policy has answered with."""
        self._chunks.append(chunk)

    def acted(self, action: NDArray[Any]) -> None:
        """Take an action as it is about to be given to the simulator, which may write to it."""
        header, content = _header("action", action.dtype.str, action.shape), action.tobytes()
        self._physics.take(header, content)
        if self._keeps:
            # The bytes that the digest has taken: another copy would cost more than all the rest.
            if header != self._header:
                self._header, self._contents = header, []
                self._actions.append(_Alike(action.dtype, action.shape, self._contents))
            self._contents.append(content)

    def ended(
        self,
        rewards: NDArray[Any],
        success: bool | None,
        succeeded: int | None,
        *,
        terminated: bool,
        truncated: bool,
        limited: bool,
    ) -> None:
        """Take what the episode came to, since when it had succeeded, and why it was over."""
        self._physics.add("rewards", rewards)
        told = [] if success is None else [success]
        self._physics.add("success", np.array(told, np.bool_))
        self._physics.add("end", np.array([terminated, truncated, limited], np.bool_))
        if self._keeps:
            alike = [one.array() for one in self._actions]
            ending = terminated, truncated, limited
            chunks = np.array(self._chunks, np.int64)
            self.trajectory = pack_trajectory(Trajectory(alike, chunks, rewards, self._marks(), succeeded, ending))

    def _marks(self) -> bytes:
        """Return the marks of both digests in the order of what was seen."""
        if not self._drawn:
            return b"".join(self._physics.marks())
        made = {digest: iter(digest.marks()) for digest in (self._physics, self._pixels)}
        return b"".join([next(made[digest]) for digest in self._seen])

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
