"""Files of tensors: what is written is read, and what is damaged is never read as something else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from proctor.policies.compact.tensor_files import read_tensors, write_tensors

TENSORS = st.dictionaries(
    st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__"),
    arrays.arrays(
        st.sampled_from([np.float16, np.float32, np.float64]), arrays.array_shapes(min_dims=0, max_side=4)
    ),
    max_size=4,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tensors=TENSORS)
def test_what_is_written_is_read(tmp_path: Path, tensors: dict[str, np.ndarray]) -> None:
    path = tmp_path / "t.safetensors"
    write_tensors(path, tensors)
    first, found = path.read_bytes(), read_tensors(path)
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        np.testing.assert_array_equal(found[name], tensor)
    write_tensors(path, dict(reversed(tensors.items())))
    assert path.read_bytes() == first, "the same bytes for the same tensors"


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(data=st.data())
def test_a_damaged_file_is_an_error_or_has_the_shapes_it_says(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "t.safetensors"
    write_tensors(path, {"a": np.ones((2, 3), np.float32), "b": np.zeros(4, np.float16)})
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        found = read_tensors(path)
    except ValueError:
        return
    assert all(tensor.nbytes <= len(content) for tensor in found.values())


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 800]},
        {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [1 << 62, 1 << 62], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]},
        {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": 2, "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2]},
        [],
    ],
)
def test_a_header_that_lies_is_refused(tmp_path: Path, entry: object) -> None:
    header = json.dumps({"a": entry}).encode()
    (tmp_path / "t").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(ValueError, match="damaged"):
        read_tensors(tmp_path / "t")
