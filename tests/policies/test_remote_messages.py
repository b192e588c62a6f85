"""Arrays survive the wire in both spellings; anything else is refused, and nothing is ever unpickled."""

from __future__ import annotations

import pickle
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from proctor.policies.remote.messages import MalformedMessage, Spelling, pack, unpack

DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(),
    hnp.unicode_string_dtypes(min_len=1),
    hnp.byte_string_dtypes(min_len=1),
)
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))


@settings(deadline=None)
@given(array=ARRAYS, spelling=st.sampled_from(["bytes", "text"]))
def test_every_array_comes_back_bit_for_bit(array: NDArray[Any], spelling: Spelling) -> None:
    back = unpack(pack({"x": [array]}, spelling))["x"][0]
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()
    assert back.flags.writeable


@settings(deadline=None)
@given(array=hnp.arrays(DTYPES, 1))
def test_every_scalar_comes_back_equal(array: NDArray[Any]) -> None:
    scalar = array[0]
    back = unpack(pack(scalar))
    # Python's own floats, texts and bytes are what NumPy's of that kind already are.
    if not isinstance(scalar, (float, str, bytes)):
        assert type(back) is type(scalar)
    assert np.array_equal(np.asarray(back), np.asarray(scalar), equal_nan=scalar.dtype.kind == "f")


def test_openpis_own_spelling_is_this_one() -> None:
    raw = msgpack.unpackb(pack({"x": np.array([[1, 2]], np.float32), "y": np.int64(3)}))
    assert raw == {
        "x": {
            b"__ndarray__": True,
            b"data": np.array([1, 2], np.float32).tobytes(),
            b"dtype": "<f4",
            b"shape": [1, 2],
        },
        "y": {b"__npgeneric__": True, b"data": 3, b"dtype": "<i8"},
    }


def read_or_refuse(data: bytes) -> None:
    try:
        unpack(data)
    except MalformedMessage as error:
        told = str(error)
    else:
        told = ""
    assert "\n" not in told


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=300))
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    read_or_refuse(data)


@settings(deadline=None, max_examples=300)
@given(
    data=st.one_of(st.binary(max_size=64), st.none(), st.text(max_size=4)),
    dtype=st.one_of(st.sampled_from(["<f4", "|O", "V8", "<c8", "<M8[ns]", "f4,f4", "<f7", "U99999"]), st.none()),
    shape=st.one_of(st.lists(st.integers(-3, 2**62), max_size=4), st.none(), st.just([True])),
    marker=st.sampled_from([b"__ndarray__", "__ndarray__", b"__npgeneric__", "__npgeneric__"]),
)
def test_a_made_up_array_is_read_or_refused(data: Any, dtype: Any, shape: Any, marker: Any) -> None:
    spell = (lambda word: word.encode()) if isinstance(marker, bytes) else str
    wire = {marker: True, spell("data"): data, spell("dtype"): dtype, spell("shape"): shape}
    read_or_refuse(msgpack.packb(wire))


class Trap:
    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit('unpickled')",))


@pytest.mark.parametrize("dtype", ["|O", "O", "object", "V16", "<c8", "(2,)O", "O8"])
def test_objects_are_refused_and_never_unpickled(dtype: str) -> None:
    trap = pickle.dumps(Trap())
    wire = {b"__ndarray__": True, b"data": trap, b"dtype": dtype, b"shape": [1]}
    with pytest.raises(MalformedMessage, match="numbers and text are allowed"):
        unpack(msgpack.packb(wire))


@pytest.mark.parametrize("value", [np.array([object()]), np.array([1j]), np.array(["2026"], "M8[D]"), {1, 2}])
def test_what_cannot_travel_is_not_sent(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot send"):
        pack(value)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(MalformedMessage):
        unpack(b"\x91" * 100_000 + b"\xc0")
