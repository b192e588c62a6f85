"""Compiled models, kept from one process to the next: to read one takes a third of the time of compiling it.

They lie in the user's cache folder, about 21 MB each, by MuJoCo's version and by what Meta-World's assets hold, so
that all environments on a machine share one set.
Nothing depends on them: where one cannot be kept, or was damaged, the model is compiled.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import shutil
import zlib
from pathlib import Path
from typing import Any

import mujoco

_ENOUGH_SPACE = 4 << 30
"""Bytes that have to be free before another model is kept: those of all fifty tasks take 750 MB."""

_HASH = re.compile(r"[0-9a-f]{64}")


def compiled_model(xml: Path) -> Any:
    """Return the model of a file of Meta-World's assets."""
    folder = models_folder(xml.parents[1])
    if folder is None:
        return mujoco.MjModel.from_xml_path(str(xml))
    model = _read(folder, xml.stem)
    if model is None:
        model = mujoco.MjModel.from_xml_path(str(xml))
        _keep(model, folder, xml.stem)
    return model


@functools.cache
def models_folder(assets: Path) -> Path | None:
    """Return where models are kept that are compiled from what is in a folder now; nowhere without a home."""
    try:
        cache_folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "proctor"
    except RuntimeError:
        return None
    made_from = f"{mujoco.__version__} {platform.machine()} {_content_of(assets, cache_folder)}"
    return cache_folder / f"metaworld-models-{hashlib.sha256(made_from.encode()).hexdigest()[:16]}"


def _content_of(assets: Path, cache_folder: Path) -> str:
    """Return a hash of what a folder's files hold, which is the same for every installation of one version.

    Reading 40 MB takes a while: what was found for files of these places, sizes and times is noted.
    """
    files = [file for file in sorted(assets.rglob("*")) if file.is_file()]
    seen = hashlib.sha256()
    for file in files:
        state = file.lstat()
        seen.update(f"{file} {state.st_size} {state.st_mtime_ns} {state.st_ctime_ns}\n".encode())
    note = cache_folder / "metaworld-assets" / seen.hexdigest()[:32]
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if _HASH.fullmatch(known := note.read_text()):
            return known
    content = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            own = hashlib.file_digest(opened, "sha256").hexdigest()
        content.update(f"{file.relative_to(assets)} {own}\n".encode())
    partial = note.with_name(f".{note.name}-{os.getpid()}")
    with contextlib.suppress(OSError):  # no home, or none that can be written to
        note.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(content.hexdigest())
        partial.replace(note)
    return content.hexdigest()


def _read(folder: Path, name: str) -> Any:
    for file in folder.glob(f"{name}.*.mjb"):
        try:
            if file.name == _whole_name(name, file):
                # By its path: handed over as bytes, it would be copied twice.
                return mujoco.MjModel.from_binary_path(str(file))
        except (OSError, ValueError):
            continue  # gone by now, or not to be read: the model will be compiled
    return None


def _keep(model: Any, folder: Path, name: str) -> None:
    partial = folder / f".{name}-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(folder).free > _ENOUGH_SPACE:
            mujoco.mj_saveModel(model, str(partial), None)
            if partial.stat().st_size == mujoco.mj_sizeModel(model):
                partial.replace(folder / _whole_name(name, partial))
    except OSError:  # no home, or none that can be written to
        pass
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def _whole_name(name: str, file: Path) -> str:
    """Return the name that a file has as long as it is whole: its checksum is part of it."""
    checksum = 0
    with file.open("rb") as opened:
        while block := opened.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return f"{name}.{checksum:08x}.mjb"
