"""hf-libero and robosuite, imported so that they ask nothing, write no log and download nothing.

Imported in workers only.

Their fixed initial states are pickles in a zip, written by torch, which would have to be imported to read them
its way, and whose reader runs whatever code a pickle names. The reader here knows the four names that a pickled
array of numbers mentions, takes down what the pickle says of it, and makes the array itself; it refuses every
other name.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import os
import pdb
import pickle
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.libero.assets import package_root
from proctor.errors import SimulatorError


def import_libero(assets: Path) -> Any:
    """Return the module `libero.libero.envs`, which will take its meshes and textures from `assets`."""
    _configure_robosuite()
    with _ready_configuration(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations of theirs
        import libero.libero
        import libero.libero.envs
    # Their own search ignores the configuration and would end in a download. This variable wins.
    libero.libero._assets_path_cache = str(assets)
    if os.environ.get("MUJOCO_GL") == "egl":
        _share_display()
    return libero.libero.envs


@contextlib.contextmanager
def no_debugger() -> Iterator[None]:
    """Keep LIBERO from opening a debugger, on whatever terminal there is, when it cannot place an object."""
    kept = pdb.set_trace
    pdb.set_trace = lambda *_, **__: None
    try:
        yield
    finally:
        pdb.set_trace = kept


def _configure_robosuite() -> None:
    """Set robosuite's switches, which it reads while it is being imported.

    By itself it logs to /tmp/robosuite.log, which fails where that file is another user's, and insists on EGL
    where MUJOCO_GL says something else.
    """
    if "robosuite" in sys.modules:
        return
    package = importlib.util.find_spec("robosuite")
    assert package is not None
    assert package.submodule_search_locations is not None
    spec = importlib.util.spec_from_file_location(
        "robosuite.macros", Path(package.submodule_search_locations[0]) / "macros.py"
    )
    assert spec is not None
    assert spec.loader is not None
    macros: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(macros)
    macros.FILE_LOGGING_LEVEL = None
    macros.CONSOLE_LOGGING_LEVEL = "ERROR"
    macros.MUJOCO_GPU_RENDERING = "MUJOCO_GL" not in os.environ
    sys.modules["robosuite.macros"] = macros
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import robosuite
    robosuite.macros = macros


def _share_display() -> None:
    """Have robosuite draw with the device that MuJoCo itself finds, which is the one that was tried for this run.

    By itself it goes by CUDA_VISIBLE_DEVICES, and fails where that is empty, a UUID, or counts otherwise.
    """
    from mujoco.egl import create_initialized_egl_device_display
    from robosuite.renderers.context import egl_context

    if egl_context.EGL_DISPLAY is None:
        egl_context.EGL_DISPLAY = create_initialized_egl_device_display()


@contextlib.contextmanager
def _ready_configuration() -> Iterator[None]:
    """Have LIBERO find a configuration when it is imported: without one it asks a question on standard input."""
    root = package_root()
    text = "".join(
        f"{key}: {json.dumps(str(value))}\n"  # JSON is YAML, whatever a path contains
        for key, value in {
            "benchmark_root": root,
            "bddl_files": root / "bddl_files",
            "init_states": root / "init_files",
            "datasets": root.parent / "datasets",
            "assets": root / "assets",  # nobody reads it
        }.items()
    )
    before = os.environ.get("LIBERO_CONFIG_PATH")
    os.environ["LIBERO_CONFIG_PATH"] = str(_write_configuration(text))
    try:
        yield
    finally:
        if before is None:
            del os.environ["LIBERO_CONFIG_PATH"]
        else:
            os.environ["LIBERO_CONFIG_PATH"] = before


def _write_configuration(text: str) -> Path:
    """Return a directory of ours with that configuration. Many workers may write it at once."""
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    directory = cache / "proctor" / f"libero-config-{name}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        partial = directory / f".config-{os.getpid()}"
        partial.write_text(text)
    except OSError:  # no home, or none that can be written to
        directory = Path(tempfile.mkdtemp(prefix="proctor-libero-"))
        partial = directory / ".config"
        partial.write_text(text)
    partial.replace(directory / "config.yaml")
    return directory


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
