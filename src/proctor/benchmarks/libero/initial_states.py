"""LIBERO's fixed initial states: pickles in a zip, read so that they can hold an array and run nothing.

They were written by torch, which would have to be imported to read them its way, and whose reader runs whatever
code a pickle names. This one knows the four names that a pickled array of numbers mentions, takes down what the
pickle says of it, and makes the array itself; every other name is refused.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.errors import SimulatorError

_MOST_BYTES = 1 << 28
"""No task's states are larger than a few hundred kilobytes; a zip may claim any size."""


def read_initial_states(path: Path) -> NDArray[np.float64]:
    """Return a task's initial states, one per row.

    Raises:
        SimulatorError: the file is missing, damaged, or holds anything but rows of numbers.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            member = next(info for info in archive.infolist() if info.filename.endswith("data.pkl"))
            if member.file_size > _MOST_BYTES:
                raise ValueError("its content is too large")
            return _as_rows(_ArrayUnpickler(io.BytesIO(archive.read(member))).load())
    except Exception as error:  # a damaged file may raise anything
        raise SimulatorError(f"initial states in {path} are refused: {error or type(error).__name__}") from None


class _Written:
    """Stands for an array or a number type while a pickle is read: keeps what is said of it, does nothing."""

    said: Any = None

    def __setstate__(self, said: Any) -> None:
        self.said = said


class _Array(_Written):
    pass


class _Doubles(_Written):
    pass


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        match module, name:
            case ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct"):
                return lambda *_: _Array()
            case ("numpy", "ndarray"):
                return None  # only ever mentioned
            case ("numpy", "dtype"):
                return _number_type
            case ("_codecs", "encode"):
                return _as_bytes
        raise pickle.UnpicklingError(f"it names {module}.{name}, which is no array")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it points to data outside of itself")


def _number_type(code: Any, *_: Any) -> _Doubles:
    if code != "f8":
        raise pickle.UnpicklingError(f"it holds {code!r}, not numbers in double precision")
    return _Doubles()


def _as_bytes(text: Any, encoding: Any) -> bytes:
    if type(text) is not str or encoding != "latin1":
        raise pickle.UnpicklingError("it holds encoded text")
    return text.encode("latin1")


def _as_rows(array: Any) -> NDArray[np.float64]:
    if type(array) is not _Array:
        raise pickle.UnpicklingError("it holds no array")
    _, shape, kind, by_column, raw = array.said
    if type(kind) is not _Doubles or type(raw) is not bytes:
        raise pickle.UnpicklingError("it holds no numbers")
    order = kind.said[1]
    if order not in ("<", ">"):
        raise pickle.UnpicklingError(f"its numbers are in the order {order!r}")
    rows, columns = map(int, shape)
    if rows < 1 or columns < 1:
        raise pickle.UnpicklingError("it is empty")
    numbers = np.frombuffer(raw, f"{order}f8").reshape((rows, columns), order="F" if by_column else "C")
    return np.ascontiguousarray(numbers, np.float64)
