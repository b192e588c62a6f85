"""What may have been done to a vector on its way, a state or an action, tried on the vectors themselves.

Every hypothesis says what would make theirs of ours, and holds if it does so for every pair, but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proctor.diff.rotations import MOTION, rotation_diagnoses

Vector = NDArray[Any]

ROUNDING = 1e-5
"""Of a number's size, at least 1: what other threads, devices and batches make of the same arithmetic."""

_SCALES = {
    57.29577951308232: "degrees where ours are radians",
    0.017453292519943295: "radians where ours are degrees",
}


class VectorPair(NamedTuple):
    """A vector after so many steps, as both sides have it."""

    step: int
    ours: Vector
    theirs: Vector


def equal(ours: Any, theirs: Any) -> bool:
    """Whether two arrays are equal but for rounding."""
    if ours is None or theirs is None:
        return False
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if ours.shape != theirs.shape:
        return False
    room = ROUNDING * np.maximum(1.0, np.abs(ours.astype(np.float64)))
    return bool((np.abs(ours.astype(np.float64) - theirs.astype(np.float64)) <= room).all())


def every(pairs: Sequence[VectorPair], make: Callable[[VectorPair], Any]) -> bool:
    """Whether what is made for each pair is theirs, and is not simply ours."""
    return all(equal(make(pair), pair.theirs) for pair in pairs)


def vector_diagnoses(
    pairs: Sequence[VectorPair],
    *,
    before: Mapping[int, Vector] | None = None,
    known: Mapping[str, Callable[[VectorPair], Any]] | None = None,
) -> list[str]:
    """Return every hypothesis that explains how their vectors come of ours.

    Args:
        pairs: vectors that differ.
        before: our vectors by step, to find one that came late.
        known: hypotheses of the place where the vectors were taken, by their words.
    """
    found = [words for words, make in (known or {}).items() if every(pairs, make)]
    if found:
        return found
    if all(not pair.theirs.any() for pair in pairs):
        return ["all zero: it is not sent"]
    if before and all(equal(before.get(pair.step - 1), pair.theirs) for pair in pairs):
        found.append("one step late: it is ours of the step before")
    found += [*_order(pairs), *_signs(pairs), *_length(pairs)]
    found = found or [*_scale(pairs), *_shifted(pairs), *_clipped(pairs), *_thresholded(pairs)]
    return found or _rotations(pairs)


def _alike(pairs: Sequence[VectorPair]) -> bool:
    return all(pair.ours.shape == pair.theirs.shape and pair.ours.ndim == 1 for pair in pairs)


def _columns(pairs: Sequence[VectorPair]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.stack([pair.ours for pair in pairs]).astype(float), np.stack([p.theirs for p in pairs]).astype(float)


def _order(pairs: Sequence[VectorPair]) -> Iterator[str]:
    """Find an order of our numbers that gives theirs in every pair."""
    if not _alike(pairs):
        return
    ours, theirs = _columns(pairs)
    places: list[int] = []
    for column in theirs.T:
        fitting = [
            place for place in range(ours.shape[1]) if equal(ours[:, place], column) and place not in places
        ]
        if not fitting:
            return
        own = len(places)
        places.append(own if own in fitting else fitting[0])
    if places != sorted(places):
        yield f"in another order: its numbers are ours at places {', '.join(map(str, places))}"


def _signs(pairs: Sequence[VectorPair]) -> Iterator[str]:
    if not _alike(pairs):
        return
    ours, theirs = _columns(pairs)
    kept = [equal(ours[:, place], theirs[:, place]) for place in range(ours.shape[1])]
    turned = [equal(-ours[:, place], theirs[:, place]) for place in range(ours.shape[1])]
    if not all(a or b for a, b in zip(kept, turned, strict=True)):
        return
    places = [place for place, same in enumerate(kept) if not same]
    if places == [ours.shape[1] - 1]:
        yield "its last number has the other sign, as of a gripper the wrong way round"
    elif len(places) == ours.shape[1]:
        yield "every number has the other sign"
    elif places:
        yield f"the numbers at places {', '.join(map(str, places))} have the other sign"


def _length(pairs: Sequence[VectorPair]) -> Iterator[str]:
    sizes = {(pair.ours.size, pair.theirs.size) for pair in pairs if pair.ours.ndim == pair.theirs.ndim == 1}
    if len(sizes) != 1:
        return
    ours, theirs = sizes.pop()
    if theirs < ours and every(pairs, lambda pair: pair.ours[:theirs]):
        yield f"shorter: it is the first {theirs} of our {ours} numbers"
    elif theirs < ours and every(pairs, lambda pair: pair.ours[-theirs:]):
        yield f"shorter: it is the last {theirs} of our {ours} numbers"
    elif theirs > ours and all(equal(pair.ours, pair.theirs[:ours]) for pair in pairs):
        yield f"longer: it begins with our {ours} numbers, and {theirs - ours} follow"


def _scale(pairs: Sequence[VectorPair]) -> Iterator[str]:
    if not _alike(pairs):
        return
    ours, theirs = _columns(pairs)
    large = np.unravel_index(np.abs(ours).argmax(), ours.shape)
    if abs(ours[large]) < ROUNDING or ours.size < 2:
        return
    factor = float(theirs[large] / ours[large])
    if abs(factor) > ROUNDING and every(pairs, lambda pair: factor * pair.ours):
        words = next((text for scale, text in _SCALES.items() if abs(factor / scale - 1) < ROUNDING), "")
        yield words or f"scaled: it is ours times {factor:.6g}"


def _shifted(pairs: Sequence[VectorPair]) -> Iterator[str]:
    """Find what is added to some of our numbers, the same at every step; of numbers that rest nobody can tell."""
    if len(pairs) <= 2 or not _alike(pairs):
        return
    ours, theirs = _columns(pairs)
    shift = (theirs - ours)[0]
    places = np.flatnonzero(np.abs(shift) > ROUNDING * np.maximum(1.0, np.abs(ours[0])))
    if len(places) and np.ptp(ours[:, places], axis=0).max() > MOTION and equal(ours + shift, theirs):
        numbers = ", ".join(f"{shift[place]:.6g} at place {place}" for place in places)
        yield f"shifted: it is ours and {numbers}"


def _rotations(pairs: Sequence[VectorPair]) -> list[str]:
    if len({(pair.ours.shape, pair.theirs.shape) for pair in pairs}) != 1 or pairs[0].ours.ndim != 1:
        return []
    return rotation_diagnoses(*_columns(pairs)) if pairs[0].theirs.ndim == 1 else []


def _clipped(pairs: Sequence[VectorPair]) -> Iterator[str]:
    if every(pairs, lambda pair: np.clip(pair.ours, -1, 1)):
        yield "clipped: it is ours within -1 and 1"
    elif every(
        [pair._replace(ours=pair.theirs, theirs=pair.ours) for pair in pairs], lambda p: np.clip(p.ours, -1, 1)
    ):
        yield "not clipped: within -1 and 1 it is ours"


def _thresholded(pairs: Sequence[VectorPair]) -> Iterator[str]:
    """Find out whether the last number is one of two, by a threshold on ours."""
    if not _alike(pairs) or not all(equal(pair.ours[:-1], pair.theirs[:-1]) for pair in pairs):
        return
    by_value: dict[float, list[float]] = {}
    for pair in pairs:
        by_value.setdefault(float(pair.theirs[-1]), []).append(float(pair.ours[-1]))
    values = sorted(by_value)
    if len(pairs) > 1 and len(values) == 1:
        yield f"its last number is always {values[0]:g}"
    elif len(pairs) > 2 and len(values) == 2:
        low, high = (by_value[value] for value in values)
        if max(low) <= min(high) or max(high) <= min(low):
            two = f"{values[0]:g} or {values[1]:g}"
            yield f"its last number is made {two} by a threshold, as of a gripper"
