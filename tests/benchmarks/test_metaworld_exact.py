"""Every quick function gives the type and the bits of the one that it stands for, whatever it is given."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from metaworld.utils import reward_utils
from scipy.spatial.transform import Rotation

from proctor.benchmarks.metaworld import exact

often = settings(deadline=None, max_examples=300)
EDGES = (0.0, -0.0, 0.1, 1.0, -1.0, 5e-324, 1e-310, 1e-160, 1e150, 1e160, 1.7e308, np.inf, -np.inf, np.nan)
any_float = st.one_of(st.floats(-2, 2), st.floats(), st.sampled_from(EDGES))
real = st.one_of(any_float, any_float.map(np.float64), st.integers(-3, 3), any_float.map(np.float32))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Overflow is what is tried here."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def outcome(function: Callable[..., Any], *parts: Any, **named: Any) -> Any:
    """Return all that a call comes to, an exception included."""
    try:
        return exact.bits(function(*parts, **named))
    except Exception as error:
        return type(error), str(error)


def vectors(dtype: type) -> st.SearchStrategy[Any]:
    return arrays.arrays(
        dtype, st.integers(0, 6), elements=any_float if dtype is np.float64 else st.floats(width=32)
    )


@often
@given(x=st.one_of(vectors(np.float64), vectors(np.float32), real), ord=st.sampled_from([None, 2, 1, np.inf]))
def test_a_norm_is_numpys(x: Any, ord: Any) -> None:
    assert outcome(exact.norm, x, ord) == outcome(np.linalg.norm, x, ord)


@often
@given(x=arrays.arrays(np.float64, (5, 6), elements=any_float), step=st.integers(1, 3))
def test_a_norm_of_a_part_of_an_array_is_numpys(x: Any, step: int) -> None:
    for part in (x[0, ::step], x[:, 1], x[0, ::-1], x[1, 2:5], x):
        assert outcome(exact.norm, part) == outcome(np.linalg.norm, part)


@often
@given(a=st.one_of(real, vectors(np.float64)), low=st.one_of(st.none(), real), high=st.one_of(st.none(), real))
def test_clipping_is_numpys(a: Any, low: Any, high: Any) -> None:
    assert outcome(exact.clip, a, low, high) == outcome(np.clip, a, low, high)


@often
@given(parts=st.lists(st.one_of(real, vectors(np.float64), vectors(np.float32)), min_size=1, max_size=4))
def test_joining_arrays_is_numpys(parts: list[Any]) -> None:
    for given_as in (parts, tuple(parts)):
        assert outcome(exact.hstack, given_as) == outcome(np.hstack, given_as)


SIGMOIDS = ("long_tail", "gaussian", "hyperbolic", "reciprocal", "cosine", "linear", "quadratic", "none such")


@settings(deadline=None, max_examples=800)
@given(
    x=real, lower=real, upper=real, margin=real, sigmoid=st.sampled_from(SIGMOIDS[:2] * 5 + SIGMOIDS),
    at_margin=st.sampled_from([0.1, 0.1, 0.1, 0.2, 0.0, 1.0]), swapped=st.booleans(),
)  # fmt: skip
def test_a_tolerance_is_meta_worlds(
    x: Any, lower: Any, upper: Any, margin: Any, sigmoid: Any, at_margin: float, swapped: bool
) -> None:
    if swapped:
        lower, upper, margin = min(lower, upper), max(lower, upper), abs(margin)
    parts = x, (lower, upper), margin, sigmoid, at_margin
    assert outcome(exact.tolerance, *parts) == outcome(reward_utils.tolerance, *parts)


@often
@given(x=st.floats(-1, 1), width=st.floats(0, 0.2), margin=st.floats(0, 1), sigmoid=st.sampled_from(SIGMOIDS[:2]))
def test_a_tolerance_with_a_tasks_own_numbers_is_meta_worlds(
    x: float, width: float, margin: float, sigmoid: Any
) -> None:
    for kind in (float, np.float64):
        named = {"bounds": (0, width), "margin": kind(margin), "sigmoid": sigmoid}
        assert outcome(exact.tolerance, kind(x), **named) == outcome(reward_utils.tolerance, kind(x), **named)
    assert outcome(exact.tolerance, x) == outcome(reward_utils.tolerance, x)


def scipys(matrix: Any) -> Any:
    return Rotation.from_matrix(matrix).as_quat()


@often
@given(turn=arrays.arrays(np.float64, 4, elements=st.floats(-1, 1)).filter(lambda q: np.linalg.norm(q) > 1e-3))
def test_a_quaternion_of_a_rotation_is_scipys(turn: Any) -> None:
    matrix = Rotation.from_quat(turn).as_matrix()
    assert outcome(exact.quaternion, matrix) == outcome(scipys, matrix)
    assert outcome(lambda m: exact.ROTATION.from_matrix(m).as_quat(), matrix) == outcome(scipys, matrix)


@pytest.mark.parametrize("turn", np.vstack([np.eye(4), -np.eye(4), np.ones((1, 4)), np.eye(4)[::-1] + np.eye(4)]))
def test_a_quaternion_of_a_half_or_no_turn_is_scipys(turn: Any) -> None:
    matrix = Rotation.from_quat(turn).as_matrix()
    assert outcome(exact.quaternion, matrix) == outcome(scipys, matrix)


@often
@given(
    turn=arrays.arrays(np.float64, 4, elements=st.floats(-1, 1)).filter(lambda q: np.linalg.norm(q) > 1e-3),
    wrong=arrays.arrays(np.float64, (3, 3), elements=st.floats(-1, 1)),
    by=st.sampled_from([1e-16, 1e-14, 1e-13, 3e-13, 1e-12, 1e-11, 1e-3, 1.0]),
)
def test_a_quaternion_of_what_is_hardly_or_no_rotation_is_scipys(turn: Any, wrong: Any, by: float) -> None:
    matrix = Rotation.from_quat(turn).as_matrix() + by * wrong
    assert outcome(exact.quaternion, matrix) == outcome(scipys, matrix)
    assert outcome(exact.quaternion, -matrix) == outcome(scipys, -matrix)


@often
@given(matrix=arrays.arrays(np.float64, (3, 3), elements=st.floats(-9, 9)))  # SciPy hangs on some with infinities
def test_a_quaternion_of_any_matrix_is_scipys(matrix: Any) -> None:
    assert outcome(exact.quaternion, matrix) == outcome(scipys, matrix)


def test_the_trial_finds_the_functions_equal_here() -> None:
    pairs = list(exact.trial())
    assert all(ours == original for ours, original in pairs)
    assert len({ours for ours, _ in pairs}) > len(pairs) / 2
