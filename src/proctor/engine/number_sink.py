"""Takes what could be observed after every step of an episode that is replayed for a film."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from proctor.engine.video import VideoError
from proctor.store.observed import MOST_COLUMNS, MOST_KEPT, ObservedNumbers, pack_observed
from proctor.types import BenchmarkSpec, Look, Observation


class NumberSink:
    """Keeps the numbers of an episode, the first of them if an observation has many, and writes them to a file.

    Args:
        path: where they go.
        spec: what can be observed; what a camera makes is no number.
    """

    def __init__(self, path: Path, spec: BenchmarkSpec) -> None:
        self._path = path
        sizes = {
            key: int(np.prod(feature.shape, dtype=np.int64))
            for key, feature in {**spec.features, **spec.privileged}.items()
            if not feature.drawn
        }
        self._there = sum(sizes.values())
        self._names: list[str] = []
        self._sources: list[str] = []
        for key, size in sizes.items():
            kept = min(size, MOST_COLUMNS - len(self._names))
            if kept > 0:
                self._sources.append(spec.sources.get(key, key))
                self._names += [key] if size == 1 else [f"{key} {number}" for number in range(kept)]
        self.look: Look = frozenset(self._sources)
        self._rows: list[NDArray[np.float32]] = []

    def add(self, observation: Observation) -> None:
        """Take what is observed now."""
        if self._names and (len(self._rows) + 1) * len(self._names) <= MOST_KEPT:
            whole = np.concatenate([np.asarray(observation[source]).reshape(-1) for source in self._sources])
            self._rows.append(whole[: len(self._names)].astype(np.float32))

    def finish(self, steps: int) -> None:
        """The episode has ended after so many steps: write them, if all are there."""
        if not self._names or len(self._rows) != steps + 1:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_bytes(pack_observed(ObservedNumbers(self._names, np.stack(self._rows), self._there)))
        except OSError as error:
            raise VideoError(f"cannot write {self._path}: {error}") from error

    def abandon(self) -> None:
        """The episode came to nothing: drop them."""
        with contextlib.suppress(OSError):
            self._path.unlink()
