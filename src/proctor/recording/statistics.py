"""Minimum, maximum, mean, deviation and quantiles: what LeRobot normalises with.

Every episode has its own, and those of the dataset are made from them the way LeRobot makes its own: all are exact
but the quantiles, which are the episodes' weighted by their lengths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Stats = dict[str, NDArray[Any]]

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}

NAMES = ("min", "max", "mean", "std", "count", *QUANTILES)

_SIDE = 150
"""Pixels to which an image's sides are thinned out for its statistics."""


def stats_of(values: NDArray[Any]) -> Stats:
    """Return the statistics over the first axis."""
    exact = values.astype(np.float64)
    quantiles = np.quantile(exact, list(QUANTILES.values()), axis=0)
    return {
        "min": exact.min(axis=0),
        "max": exact.max(axis=0),
        "mean": exact.mean(axis=0),
        "std": exact.std(axis=0),
        "count": np.array([len(values)]),
        **dict(zip(QUANTILES, quantiles, strict=True)),
    }


def stats_of_columns(columns: Mapping[str, NDArray[Any]]) -> dict[str, Stats]:
    """Return the statistics of columns that have a row for every step; a number is a vector of one.

    All are computed in one go: for the short columns of one episode NumPy's calls are what takes the time.
    """
    steps = len(next(iter(columns.values())))
    flat = [values.reshape(steps, -1).astype(np.float64) for values in columns.values()]
    together = stats_of(np.concatenate(flat, axis=1))
    ends = np.cumsum([part.shape[1] for part in flat])
    return {
        name: {
            stat: value if stat == "count" else value[end - part.shape[1] : end].reshape(values.shape[1:] or (1,))
            for stat, value in together.items()
        }
        for (name, values), part, end in zip(columns.items(), flat, ends, strict=True)
    }


class ImageStats:
    """Counts the values of each colour over many frames."""

    def __init__(self) -> None:
        self._counts = np.zeros((3, 256), np.int64)
        self._frames = 0

    def add(self, frame: NDArray[np.uint8]) -> None:
        """Take one frame."""
        stride = max(1, min(frame.shape[:2]) // _SIDE)
        thinned = frame[::stride, ::stride]
        for colour, counts in enumerate(self._counts):
            counts += np.bincount(thinned[..., colour].ravel(), minlength=256)
        self._frames += 1

    def stats(self) -> Stats:
        """Return the statistics of each colour between 0 and 1, in LeRobot's shape (3, 1, 1)."""
        levels = np.arange(256) / 255
        total = self._counts.sum(axis=1)
        mean = self._counts @ levels / total
        seen = self._counts > 0
        cumulated = np.cumsum(self._counts, axis=1)
        found = {
            "min": levels[seen.argmax(axis=1)],
            "max": levels[255 - seen[:, ::-1].argmax(axis=1)],
            "mean": mean,
            "std": np.sqrt(np.maximum(0.0, self._counts @ levels**2 / total - mean**2)),
            **{
                name: levels[(cumulated >= share * total[:, None]).argmax(axis=1)]
                for name, share in QUANTILES.items()
            },
        }
        shaped = {name: value.reshape(3, 1, 1) for name, value in found.items()}
        return {name: np.array([self._frames]) if name == "count" else shaped[name] for name in NAMES}


def aggregate(parts: Sequence[Stats]) -> Stats:
    """Return the statistics of all parts together."""
    counts = np.array([int(part["count"][0]) for part in parts])
    weights = counts / counts.sum()

    def weighted(values: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.tensordot(weights, np.stack(values), axes=1)

    mean = weighted([part["mean"] for part in parts])
    variance = weighted([part["std"] ** 2 + (part["mean"] - mean) ** 2 for part in parts])
    return {
        "min": np.min([part["min"] for part in parts], axis=0),
        "max": np.max([part["max"] for part in parts], axis=0),
        "mean": mean,
        "std": np.sqrt(variance),
        "count": np.array([counts.sum()]),
        **{name: weighted([part[name] for part in parts]) for name in QUANTILES},
    }
