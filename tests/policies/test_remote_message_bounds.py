"""How much a message holds is known before it is decoded."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.policies.remote.messages import (
    MOST_LEVELS,
    MOST_VALUES,
    MalformedMessage,
    check_bounds,
    pack,
    unpack,
)

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=300)
    | st.binary(max_size=70_000)
    | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=300)),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=40), inner, max_size=20),
    max_leaves=40,
)


def count(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(1 + count(item) for item in value.values())
    return 1 + sum(map(count, value)) if isinstance(value, list) else 1


@settings(max_examples=50, deadline=None)
@given(ANYTHING)
def test_every_kind_of_value_is_stepped_over(value: Any) -> None:
    data = msgpack.packb([value, "the end"])
    check_bounds(data)
    # One more value than there may be, after whatever comes first: it is found in its place.
    rest = MOST_VALUES - 2 - count(value)
    too_many = msgpack.packb([value, [0] * rest, 0])
    check_bounds(msgpack.packb([value, [0] * rest]))
    with pytest.raises(MalformedMessage):
        check_bounds(too_many)


@given(st.binary(max_size=2000))
def test_any_bytes_come_to_an_end(data: bytes) -> None:
    try:
        check_bounds(data)
    except MalformedMessage:
        pass
    try:
        unpack(data)
    except MalformedMessage:
        pass


def test_levels_are_counted() -> None:
    check_bounds(b"\x91" * MOST_LEVELS + b"\x01")
    with pytest.raises(MalformedMessage, match="levels"):
        check_bounds(b"\x91" * (MOST_LEVELS + 1) + b"\x01")


def test_a_large_array_is_one_value() -> None:
    image = np.zeros((1080, 1920, 3), np.uint8)
    assert np.array_equal(unpack(pack({"image": image, "prompt": "x" * 10**6}))["image"], image)


def test_axes_are_counted_before_they_are_multiplied() -> None:
    wire = {b"__ndarray__": True, b"data": b"", b"dtype": "<f8", b"shape": [2**62] * 10_000}
    with pytest.raises(MalformedMessage, match="an array of shape"):
        unpack(msgpack.packb(wire))
