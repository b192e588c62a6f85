"""A trajectory comes back from the store as it was, and one that is not Proctor's is refused."""

from __future__ import annotations

import zlib
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from proctor.store.trajectories import MOST_BYTES, Trajectory, pack_trajectory, unpack_trajectory

DTYPES = st.sampled_from(["<f4", "<f8", ">f4", "<f2", "<i8", "|u1", "<i4"])


def some_actions(draw: Any) -> NDArray[Any]:
    dtype = np.dtype(draw(DTYPES))
    shape = draw(array_shapes(min_dims=2, max_dims=2, max_side=30))
    numbers = st.floats(-9, 9, width=16) if dtype.kind == "f" else st.integers(0, 99)
    found: NDArray[Any] = draw(arrays(dtype, shape, elements=numbers))
    return found


@st.composite
def trajectories(draw: Any) -> Trajectory:
    actions = some_actions(draw)
    steps = len(actions)
    rewards = draw(arrays(np.float64, steps, elements=st.floats(-9, 9)))
    chunks = np.array([1] * (steps - 1) + [draw(st.integers(1, 50))])
    ending = draw(st.tuples(st.booleans(), st.booleans(), st.booleans()))
    return Trajectory(
        [actions], chunks, rewards, draw(st.binary(max_size=20)), draw(st.none() | st.integers(1, steps)), ending
    )


def same(one: Trajectory, other: Trajectory) -> bool:
    arrays_of = [(*each.actions, each.chunks, each.rewards) for each in (one, other)]
    pairs = zip(*arrays_of, strict=True)
    equal = all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)
    rest = [(each.marks, each.succeeded, each.ending) for each in (one, other)]
    return equal and rest[0] == rest[1]


@given(trajectories())
def test_what_is_packed_is_unpacked_to_the_bit(trajectory: Trajectory) -> None:
    assert same(unpack_trajectory(pack_trajectory(trajectory)), trajectory)


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4", "<i4"])
def test_numbers_that_are_like_noise_come_back_and_take_no_more_than_they_do_in_memory(dtype: str) -> None:
    actions = (100 * np.random.default_rng(0).normal(size=(40_000, 4))).astype(dtype)  # several of zlib's blocks
    steps = len(actions)
    rewards = actions[:, 0].astype(np.float64) / 3
    trajectory = Trajectory([actions], np.array([steps]), rewards, b"ab", None, (False, False, True))
    packed = pack_trajectory(trajectory)
    assert same(unpack_trajectory(packed), trajectory)
    assert len(packed) < 1.001 * (actions.nbytes + rewards.nbytes) + 100


def test_what_repeats_itself_is_compressed() -> None:
    steps = 5000
    for actions in (np.zeros((steps, 4), np.float32), np.tile(np.array([0.1, -0.7, 1.0, 0.3]), (steps, 1))):
        trajectory = Trajectory(
            [actions], np.ones(steps, np.int64), np.zeros(steps), b"", None, (False, False, True)
        )
        assert len(pack_trajectory(trajectory)) < steps


def test_no_more_numbers_are_unpacked_than_the_reader_allows_all_arrays_together() -> None:
    actions: list[NDArray[Any]] = [np.zeros((50, 4)), np.zeros((50, 4), np.float32)]
    packed = pack_trajectory(Trajectory(actions, np.array([100]), np.zeros(100), b"", None, (False, False, True)))
    assert unpack_trajectory(packed, 501).steps == 100
    with pytest.raises(ValueError, match="an array of 200 numbers, and 199 are read"):
        unpack_trajectory(packed, 500)


def test_a_policy_that_changes_its_dtype_keeps_both() -> None:
    actions: list[NDArray[Any]] = [np.ones((2, 3), np.float32), np.ones((1, 3), np.float64)]
    trajectory = Trajectory(actions, np.array([2, 5]), np.zeros(3), b"", None, (False, True, False))
    assert [one.dtype for one in unpack_trajectory(pack_trajectory(trajectory)).actions] == [
        np.float32,
        np.float64,
    ]


def test_one_that_is_too_long_is_not_kept() -> None:
    noise = np.random.default_rng(0).normal(size=(MOST_BYTES // 16, 3))
    steps = len(noise)
    assert (
        pack_trajectory(Trajectory([noise], np.array([steps]), np.zeros(steps), b"", None, (True, True, True)))
        == b""
    )


def plain(**changed: Any) -> bytes:
    """Return a packed trajectory of two steps of which some parts were changed by hand."""
    whole = pack_trajectory(
        Trajectory([np.ones((2, 3))], np.array([2]), np.zeros(2), b"ab", 1, (True, False, False))
    )
    names = ("form", "actions", "chunks", "rewards", "marks", "succeeded", "ending")
    parts = dict(zip(names, msgpack.unpackb(whole), strict=True))
    packed: bytes = msgpack.packb(list({**parts, **changed}.values()))
    return packed


def array(values: Any, dtype: str = "<f8", shape: Any = None) -> list[Any]:
    whole = np.asarray(values, dtype)
    planes = whole.reshape(-1, 1).view(np.uint8).T
    return [dtype, list(whole.shape) if shape is None else shape, zlib.compress(planes.tobytes())]


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\xc1",
        msgpack.packb({"a": 1}),
        msgpack.packb([1]),
        plain(form=99),
        plain(actions=[]),
        plain(actions=[array(np.ones((3, 3)))]),
        plain(actions=[array(np.full((2, 3), np.nan))]),
        plain(actions=[array(np.full((2, 3), np.inf))]),
        plain(actions=[array(np.ones(2))]),
        plain(actions=[array(np.ones((2, 3)), shape=[2, 1 << 40])]),
        plain(actions=[array(np.ones((2, 3)), shape=[2, -3])]),
        plain(actions=[["O", [2, 3], b""]]),
        plain(actions=[["<M8[s]", [2, 3], zlib.compress(bytes(48))]]),
        plain(actions=[["<f8", [2, 3], b"no zlib"]]),
        plain(actions=[["<f8", [2, 3], zlib.compress(bytes(10_000_000))]]),
        plain(chunks=array([1], "<i8")),
        plain(chunks=array([2, 2], "<i8")),
        plain(chunks=array([-1, 3], "<i8")),
        plain(rewards=array([], "<f8")),
        plain(rewards=array([0.0, 0.0], "<f4")),
        plain(marks="text"),
        plain(succeeded=3),
        plain(succeeded=1.5),
        plain(ending=[True]),
        plain(ending=True),
    ],
)
def test_what_proctor_did_not_write_is_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        unpack_trajectory(packed)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_are_a_trajectory_or_refused(noise: bytes, place: int) -> None:
    whole = plain()
    for packed in (noise, whole[:place] + noise + whole[place:], whole[:place] + noise[:1] + whole[place + 1 :]):
        try:
            unpack_trajectory(packed)
        except ValueError:
            pass
