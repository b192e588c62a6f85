"""What is said of pictures and vectors holds for all of them, and nothing is said where nothing holds."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from proctor.diff.numbers import VectorPair, equal, vector_diagnoses
from proctor.diff.pictures import PicturePair, cropped, picture_diagnoses, resized

RNG = np.random.default_rng(3)


def scene(seed: int, height: int = 48, width: int = 64) -> NDArray[np.uint8]:
    """Return a picture that is smooth, as drawn ones are, and alike in no direction."""
    coarse = np.random.default_rng(seed).integers(0, 256, (7, 9, 3)).astype(np.uint8)
    return np.rint(resized(coarse, (height, width))).astype(np.uint8)


def pictures(change: Callable[[NDArray[Any]], NDArray[Any]], count: int = 3) -> list[PicturePair]:
    return [PicturePair(step, scene(step), change(scene(step))) for step in range(count)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: p[::-1], "upside down"),
        (lambda p: p[:, ::-1], "mirrored"),
        (lambda p: p[::-1, ::-1], "turned by 180 degrees"),
        (np.rot90, "turned by 90 degrees to the left"),
        (lambda p: np.rot90(p, -1), "turned by 90 degrees to the right"),
        (lambda p: p[..., ::-1], "red and blue are exchanged"),
        (
            lambda p: p[::-1, :, ::-1],
            "upside down: it is ours with its rows reversed and red and blue are exchanged",
        ),
        (lambda p: np.moveaxis(p, -1, 0), "channels come first"),
        (lambda p: (p / 255).astype(np.float32), "0 to 1 where ours is 0 to 255"),
        (lambda p: (p / 127.5 - 1).astype(np.float32), "-1 to 1 where ours is 0 to 255"),
        (lambda p: 255 - p, "a negative"),
        (np.zeros_like, "all zero: the picture is not sent"),
        (lambda p: np.rint(resized(p, (24, 32))).astype(np.uint8), "24 x 32 pixels where ours has 48 x 64"),
        (lambda p: np.rint(cropped(p, 0.9)).astype(np.uint8), "cropped: it is the middle of ours, 90 %"),
    ],
)
def test_what_was_done_to_pictures_is_the_only_thing_that_is_named(change: Any, said: str) -> None:
    (found,) = picture_diagnoses(pictures(change), same_physics=True)
    assert found.startswith(said)


def test_a_cause_must_hold_for_every_picture() -> None:
    pairs = [*pictures(lambda p: p[::-1], 2), *pictures(lambda p: p[:, ::-1], 1)]
    assert picture_diagnoses(pairs, same_physics=True) == []


def test_other_pictures_have_no_cause() -> None:
    pairs = [PicturePair(step, scene(step), scene(100 + step)) for step in range(20)]
    assert [picture_diagnoses([pair], same_physics=True) for pair in pairs] == [[]] * 20


def test_few_pixels_tell_of_a_marker_only_where_physics_is_equal() -> None:
    def marked(picture: NDArray[Any]) -> NDArray[Any]:
        changed = picture.copy()
        changed[10:14, 20:25] = (255, 0, 0)
        return changed

    assert picture_diagnoses(pictures(marked), same_physics=False) == []
    (found,) = picture_diagnoses(pictures(marked), same_physics=True)
    assert "such as a goal marker" in found


def test_a_late_picture_and_another_camera_are_known_by_ours() -> None:
    ours = {step: scene(step) for step in range(4)}
    late = [PicturePair(step, ours[step], ours[step - 1]) for step in (1, 2, 3)]
    assert picture_diagnoses(late, before=ours) == ["one step late: it is ours of the step before"]
    wrist = {step: scene(50 + step) for step in range(4)}
    swapped = [PicturePair(step, ours[step], wrist[step]) for step in range(4)]
    found = picture_diagnoses(swapped, others={"observation.images.wrist": wrist})
    assert found == ["the picture of another camera: it is our observation.images.wrist"]


def vectors(change: Callable[[NDArray[Any]], NDArray[Any]], size: int = 7, count: int = 5) -> list[VectorPair]:
    ours = [np.random.default_rng(step).normal(size=size) for step in range(count)]
    return [VectorPair(step, one, change(one)) for step, one in enumerate(ours)]


def last(value: Callable[[float], float]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    return lambda vector: np.r_[vector[:-1], value(vector[-1])]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (np.zeros_like, "all zero: it is not sent"),
        (
            lambda v: v[[0, 1, 2, 6, 3, 4, 5]],
            "in another order: its numbers are ours at places 0, 1, 2, 6, 3, 4, 5",
        ),
        (lambda v: -v, "every number has the other sign"),
        (last(lambda x: -x), "its last number has the other sign"),
        (lambda v: v * [1, -1, 1, -1, 1, 1, 1], "the numbers at places 1, 3 have the other sign"),
        (lambda v: v[:6], "shorter: it is the first 6 of our 7 numbers"),
        (lambda v: v[1:], "shorter: it is the last 6 of our 7 numbers"),
        (lambda v: np.r_[v, 0.0], "longer: it begins with our 7 numbers, and 1 follow"),
        (lambda v: 0.05 * v, "scaled: it is ours times 0.05"),
        (np.degrees, "degrees where ours are radians"),
        (lambda v: np.clip(v, -1, 1), "clipped: it is ours within -1 and 1"),
        (last(lambda x: 1.0 if x > 0.0 else -1.0), "its last number is made -1 or 1 by a threshold"),
        (last(lambda x: 0.25), "its last number is always 0.25"),
        (
            lambda v: v + np.array([0, 0, 0.1, 0, 0, -2, 0]),
            "shifted: it is ours and 0.1 at place 2, -2 at place 5",
        ),
    ],
)
def test_what_was_done_to_vectors_is_the_only_thing_that_is_named(change: Any, said: str) -> None:
    (found,) = vector_diagnoses(vectors(change))
    assert found.startswith(said)


def test_other_vectors_have_no_cause() -> None:
    assert vector_diagnoses(vectors(lambda v: v + RNG.normal(size=7))) == []
    assert vector_diagnoses([VectorPair(0, np.ones(3), np.ones((2, 2)))]) == []


def test_numbers_that_rest_are_not_called_shifted() -> None:
    ours = [np.r_[np.random.default_rng(step).normal(size=3), 1.0] for step in range(5)]
    pairs = [VectorPair(step, one, one + np.array([0, 0, 0, 0.5])) for step, one in enumerate(ours)]
    assert vector_diagnoses(pairs) == ["its last number is always 1.5"]


def columns(rotations: Rotation) -> NDArray[Any]:
    matrices: NDArray[Any] = rotations.as_matrix()
    return matrices[..., :2]


FORMS: dict[str, Callable[[Rotation], NDArray[Any]]] = {
    "axis times angle": Rotation.as_rotvec,
    "Euler angles about fixed axes x, y, z": lambda rotations: rotations.as_euler("xyz"),
    "Euler angles about moving axes x, y, z": lambda rotations: rotations.as_euler("XYZ"),
    "a quaternion with w last": Rotation.as_quat,
    "a quaternion with w first": lambda rotations: np.roll(rotations.as_quat(), 1, axis=-1),
    "two columns of a matrix": lambda rotations: np.moveaxis(columns(rotations), -1, -2).reshape(-1, 6),
    "two columns of a matrix, in turns": lambda rotations: columns(rotations).reshape(-1, 6),
}


def poses(rotations: NDArray[Any], seed: int = 0) -> list[NDArray[Any]]:
    """Return rows of a position, a rotation and a gripper."""
    rng = np.random.default_rng(seed)
    return [np.r_[rng.normal(size=3), rotation, rng.uniform()] for rotation in rotations]


def poses_beside(ours: NDArray[Any], theirs: NDArray[Any]) -> list[VectorPair]:
    return [VectorPair(step, *both) for step, both in enumerate(zip(poses(ours), poses(theirs), strict=True))]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(list(itertools.permutations(FORMS, 2))))
def test_a_rotation_in_another_form_is_named_with_both_forms(seed: int, forms: tuple[str, str]) -> None:
    rotations = Rotation.random(3, random_state=seed)
    ours, theirs = (FORMS[form](rotations) for form in forms)
    (found,) = vector_diagnoses(poses_beside(ours, theirs))
    if ours.shape == theirs.shape and ours.shape[1] > 3:
        assert found.startswith("in another order: ")  # which is simpler, and as true
    else:
        mine, other = forms
        assert found == f"its rotation at places 3 to {2 + theirs.shape[1]} is {other} where ours is {mine}"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("side", ["after", "followed by"])
def test_a_rotation_with_another_one_beside_it_is_named_with_its_angle(form: str, side: str) -> None:
    rotations, turn = Rotation.random(4, random_state=5), Rotation.from_rotvec([0.2, -0.5, 0.3])
    theirs = rotations * turn if side == "after" else turn * rotations
    found = vector_diagnoses(poses_beside(FORMS[form](rotations), FORMS[form](theirs)))
    where = f"its rotation at places 3 to {2 + FORMS[form](rotations).shape[1]} is ours"
    angle = f"{np.degrees(turn.magnitude()):.4g}"
    assert f"{where} {side} another one of {angle} degrees, always the same ({form})" in found
    assert all(f"another one of {angle} degrees" in line for line in found)


def test_a_quaternion_has_two_signs_and_a_turn_two_ways_round() -> None:
    rotations = Rotation.random(4, random_state=6)
    vectors = rotations.as_rotvec()
    (found,) = vector_diagnoses(poses_beside(vectors, vectors * (1 - 2 * np.pi / rotations.magnitude())[:, None]))
    assert found == (
        "its rotation at places 3 to 5 is the same from the other side: axis times angle has two ways to write it"
    )
    quaternions = rotations.as_quat()
    signs = np.array([1, -1, 1, -1])[:, None]
    (found,) = vector_diagnoses(poses_beside(quaternions, signs * quaternions))
    assert "the same from the other side: a quaternion with w last" in found


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.integers(3, 12))
def test_numbers_that_are_no_rotations_of_ours_are_not_called_so(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = [VectorPair(step, *rng.uniform(-1, 1, (2, size))) for step in range(4)]
    assert vector_diagnoses(pairs) == []


def test_a_rotation_that_rests_tells_of_no_other_beside_it() -> None:
    resting = np.tile(Rotation.random(random_state=7).as_rotvec(), (5, 1))
    elsewhere = np.tile(Rotation.random(random_state=8).as_rotvec(), (5, 1))
    assert vector_diagnoses(poses_beside(resting, elsewhere)) == []


def test_rounding_is_no_difference_and_anything_more_is() -> None:
    ours = np.array([1e-3, 1.0, 100.0])
    assert equal(ours, ours * (1 + 1e-6))
    assert not equal(ours, ours + 1e-4)
    assert not equal(ours, ours[:2])
