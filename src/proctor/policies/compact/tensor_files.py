"""Tensors in files of Hugging Face's safetensors format, read and written with NumPy alone.

Eight bytes say how long a JSON header is, which names every tensor with its type, shape and place in the bytes
that follow. A file may come from anybody, so every number in the header is checked against the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.files import parse_json, read_regular

MOST_BYTES = 512 << 20
"""Of one file: far more than such a policy has."""

_DTYPES: dict[str, np.dtype[Any]] = {
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}

Tensors = Mapping[str, NDArray[Any]]


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Return the tensors of a file by their names.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no such file, or damaged.
    """
    content = read_regular(path, MOST_BYTES)
    length = int.from_bytes(content[:8], "little")
    header = parse_json(content[8 : 8 + length]) if 8 + length <= len(content) else None
    if not isinstance(header, dict):
        raise ValueError(f"{path.name} is no safetensors file")
    body = memoryview(content)[8 + length :]
    return {name: _tensor(path, name, entry, body) for name, entry in header.items() if name != "__metadata__"}


def _tensor(path: Path, name: str, entry: Any, body: memoryview) -> NDArray[Any]:
    try:
        dtype, shape, (first, last) = _DTYPES[entry["dtype"]], tuple(entry["shape"]), entry["data_offsets"]
        whole = all(type(size) is int and size >= 0 for size in (*shape, first, last))
        if whole and last <= len(body) and last - first == math.prod(shape) * dtype.itemsize:
            tensor: NDArray[Any] = np.frombuffer(body[first:last], dtype)
            return tensor.reshape(shape)
    except (KeyError, TypeError, ValueError):
        pass
    raise ValueError(f"{path.name}: the tensor {name[:80]!r} is damaged, or of a type that is not known here")


def write_tensors(path: Path, tensors: Tensors) -> None:
    """Write tensors into a file, the same bytes for the same tensors."""
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    place = 0
    for name, tensor in sorted(tensors.items()):
        array = np.ascontiguousarray(tensor)
        parts.append(array.tobytes())
        offsets = [place, place + array.nbytes]
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
        place += array.nbytes
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # what follows is aligned, as the format asks
    path.write_bytes(b"".join([len(text).to_bytes(8, "little"), text, *parts]))
