"""hf-libero and robosuite, imported so that they ask nothing, write no log and download nothing.

Imported in workers only.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import pdb
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from proctor.benchmarks.libero.assets import package_root


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
