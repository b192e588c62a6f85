"""What may have been done to a picture on its way to a policy, tried on the pictures themselves.

Every hypothesis says what would make theirs of ours. It holds if it does so for every pair, to the byte unless it
names its own tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[Any]

FEW = 0.03
"""Share of a picture's pixels that a marker takes at most."""

_NEAR = 2.0
"""Of 255, how far a picture that was resized by other code may be from ours on average."""

_SIDES = (0.975, 0.95, 0.925, 0.9, 0.875, 0.85, 0.8, 0.75)
"""What a crop may leave of each side."""


class PicturePair(NamedTuple):
    """A picture after so many steps, as both sides have it."""

    step: int
    ours: Picture
    theirs: Picture


def picture_diagnoses(
    pairs: Sequence[PicturePair],
    *,
    same_physics: bool = False,
    before: Mapping[int, Picture] | None = None,
    others: Mapping[str, Mapping[int, Picture]] | None = None,
) -> list[str]:
    """Return every hypothesis that explains how their pictures come of ours.

    Args:
        pairs: pictures that differ.
        same_physics: whether everything else that the simulators say is equal.
        before: our pictures by step, to find one that came late.
        others: our pictures of other cameras, by their key and step.
    """
    found = [*_moved(pairs), *_values(pairs)]
    if before and all(_equal(before.get(pair.step - 1), pair.theirs) for pair in pairs):
        found.append("one step late: it is ours of the step before")
    for key, pictures in (others or {}).items():
        if all(_equal(pictures.get(pair.step), pair.theirs) for pair in pairs):
            found.append(f"the picture of another camera: it is our {key}")
    if not found:
        found += [*_scaled(pairs), *_cropped(pairs)]
    if not found and same_physics and all(_differ_little(pair) for pair in pairs):
        found.append(
            "a few of its pixels alone differ, and physics is equal: something is drawn elsewhere that physics "
            "does not know, such as a goal marker"
        )
    return found


_TURNS: Sequence[tuple[str, Callable[[Picture], Picture]]] = (
    ("", lambda picture: picture),
    ("upside down: it is ours with its rows reversed", lambda picture: picture[::-1]),
    ("mirrored: it is ours with its columns reversed", lambda picture: picture[:, ::-1]),
    ("turned by 180 degrees: it is ours with rows and columns reversed", lambda picture: picture[::-1, ::-1]),
    ("turned by 90 degrees to the left", lambda picture: np.rot90(picture)),
    ("turned by 90 degrees to the right", lambda picture: np.rot90(picture, -1)),
    ("with rows and columns exchanged", lambda picture: picture.swapaxes(0, 1)),
)
_SWAPPED = "red and blue are exchanged: it is ours with its channels reversed"


def _moved(pairs: Sequence[PicturePair]) -> list[str]:
    found = []
    for words, turn in _TURNS:
        for swap in (False, True):
            if not words and not swap:
                continue
            if all(_equal(_with(turn, swap, pair.ours), pair.theirs) for pair in pairs):
                found.append(" and ".join(filter(None, (words, _SWAPPED * swap))))
    first = all(_equal(np.moveaxis(pair.ours, -1, 0), pair.theirs) for pair in pairs)
    return [*found, *(["channels come first"] if first else [])]


def _with(turn: Callable[[Picture], Picture], swap: bool, picture: Picture) -> Picture:
    turned = turn(picture)
    return turned[..., ::-1] if swap else turned


def _values(pairs: Sequence[PicturePair]) -> list[str]:
    if all(not pair.theirs.any() for pair in pairs):
        return ["all zero: the picture is not sent"]
    tried: dict[str, Callable[[Picture], Picture]] = {
        "0 to 255 where ours is 0 to 1": lambda ours: 255.0 * ours,
        "0 to 1 where ours is 0 to 255": lambda ours: ours / 255.0,
        "-1 to 1 where ours is 0 to 255": lambda ours: ours / 127.5 - 1.0,
        "-1 to 1 where ours is 0 to 1": lambda ours: 2.0 * ours - 1.0,
        "a negative: it is 255 less ours": lambda ours: 255.0 - ours,
    }
    return [
        words
        for words, change in tried.items()
        if all(
            pair.ours.shape == pair.theirs.shape
            and np.allclose(change(pair.ours.astype(np.float64)), pair.theirs, rtol=0, atol=1e-4)
            for pair in pairs
        )
    ]


def _scaled(pairs: Sequence[PicturePair]) -> list[str]:
    """Try to resize ours to the size of theirs."""
    first = pairs[0]
    if first.ours.ndim != 3 or first.theirs.ndim != 3 or first.ours.shape[:2] == first.theirs.shape[:2]:
        return []
    size = first.theirs.shape[:2]
    sizes = f"{size[0]} x {size[1]} pixels where ours has {first.ours.shape[0]} x {first.ours.shape[1]}"
    if all(_distance(resized(pair.ours, size), pair.theirs) <= _NEAR for pair in pairs):
        return [f"{sizes}: it is ours resized, to within {_NEAR:g} of 255 on average"]
    return []


def _cropped(pairs: Sequence[PicturePair]) -> list[str]:
    """Try to cut out the middle of ours and enlarge it again; the share that comes nearest is named."""
    if any(pair.ours.ndim != 3 or pair.ours.shape != pair.theirs.shape for pair in pairs):
        return []
    plain = max(_distance(pair.ours, pair.theirs) for pair in pairs)
    far = {side: max(_distance(cropped(pair.ours, side), pair.theirs) for pair in pairs) for side in _SIDES}
    best = min(far, key=lambda side: far[side])
    # A picture that is almost everywhere alike comes near to its own middle, too.
    if far[best] > min(_NEAR, plain / 2):
        return []
    return [
        f"cropped: it is the middle of ours, {100 * best:g} % of each side, enlarged again, to within "
        f"{_NEAR:g} of 255 on average"
    ]


def cropped(picture: Picture, side: float) -> Picture:
    """Return the middle of a picture, with so much of each side, at the size of the whole."""
    height, width = picture.shape[:2]
    tall, wide = max(1, round(height * side)), max(1, round(width * side))
    top, left = (height - tall) // 2, (width - wide) // 2
    return resized(picture[top : top + tall, left : left + wide], (height, width))


def resized(picture: Picture, size: tuple[int, int]) -> Picture:
    """Return a picture at another size: bilinear where it grows, averaged over what falls together where not."""
    rows, columns = _weights(picture.shape[0], size[0]), _weights(picture.shape[1], size[1])
    found: Picture = np.einsum("ah,hwc,bw->abc", rows, picture.astype(np.float64), columns, optimize=True)
    return found


def _weights(before: int, after: int) -> NDArray[np.float64]:
    """Return what each place after takes of each place before: a triangle as wide as the coarser grid."""
    centres = (np.arange(after) + 0.5) * before / after - 0.5
    width = max(1.0, before / after)
    weights = np.maximum(0.0, 1.0 - np.abs(np.clip(centres, 0, before - 1)[:, None] - np.arange(before)) / width)
    found: NDArray[np.float64] = weights / weights.sum(1, keepdims=True)
    return found


def _equal(ours: Picture | None, theirs: Picture) -> bool:
    return ours is not None and np.array_equal(ours, theirs)


def _distance(ours: Picture, theirs: Picture) -> float:
    return float(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).mean())


def changed_pixels(pair: PicturePair) -> NDArray[np.bool_] | None:
    """Return which pixels of two pictures of one size differ; `None` of pictures of two sizes."""
    if pair.ours.shape != pair.theirs.shape or pair.ours.ndim != 3:
        return None
    found: NDArray[np.bool_] = (pair.ours != pair.theirs).any(-1)
    return found


def _differ_little(pair: PicturePair) -> bool:
    changed = changed_pixels(pair)
    return changed is not None and bool(changed.mean() <= FEW)
