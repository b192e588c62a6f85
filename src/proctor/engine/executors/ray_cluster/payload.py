"""What travels to the nodes: Python sources as Ray's working directory, other files through its object store."""

from __future__ import annotations

import mmap
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import proctor
from proctor.config.content_hashes import files_named_in
from proctor.config.plain_values import to_plain
from proctor.config.settings import Settings, identity_values

Tree = dict[str, Any]

_SECTIONS = ("policy", "env")


@dataclass(frozen=True)
class Payload:
    """What was sent, under the names that the settings have for it.

    Attributes:
        sources: `file.py:Name`, and what it is called relative to a node's working directory.
        files: a path, and the references to its content by relative name; a single file's name is ".".
    """

    sources: dict[str, str] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    def unpack(self, settings: Tree, code: Path, folder: Path) -> Tree:
        """Return the settings with everything named as it lies here.

        Args:
            settings: as on the driver.
            code: this node's working directory.
            folder: where files are unpacked.
        """
        places = {name: f"{code / there}" for name, there in self.sources.items()}
        for number, (name, content) in enumerate(self.files.items()):
            places[name] = str(_write(content, folder / str(number) / Path(name).name))
        return {**settings, **{section: _replaced(settings[section], places) for section in _SECTIONS}}


def pack_sources(settings: Settings, folder: Path) -> dict[str, str]:
    """Copy Proctor and the user's own Python files into `folder`; returns what is called how there."""
    package = Path(proctor.__file__).parent
    shutil.copytree(package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    sources: dict[str, str] = {}
    places: dict[Path, str] = {}
    for named in (settings.policy.path or "", settings.env.type):
        where, _, name = named.rpartition(":")
        if not where.endswith(".py"):
            continue
        file = Path(where).expanduser()
        if file.parent not in places:
            places[file.parent] = f"sources/{len(places)}"
            _copy_sources(file.parent, folder / places[file.parent])
        sources[named] = f"{places[file.parent]}/{file.name}:{name}"
    return sources


def pack_files(settings: Settings) -> dict[str, dict[str, Any]]:
    """Put every file and folder that the policy's and the benchmark's settings name into the object store."""
    named = to_plain(
        [settings.policy.path, *(identity_values(getattr(settings, section)) for section in _SECTIONS)]
    )
    return {name: dict(_put(Path(name).expanduser())) for name in files_named_in(named)}


def _replaced(value: Any, places: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(item, places) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, places) for item in value]
    return places.get(value, value) if isinstance(value, str) else value


def _copy_sources(folder: Path, target: Path) -> None:
    """Copy the Python files of a folder and the packages beside them: what a script there could import."""
    packages = [found.parent for found in folder.glob("*/__init__.py")]
    files = [*folder.glob("*.py"), *(file for package in packages for file in package.rglob("*.py"))]
    for file in files:
        copy = target / file.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)


def _put(path: Path) -> Iterator[tuple[str, Any]]:
    import ray

    for file in sorted(file for file in (path, *path.rglob("*")) if file.is_file()):
        yield str(file.relative_to(path)), ray.put(_content(file))


def _content(file: Path) -> NDArray[np.uint8]:
    """Return a file's bytes, mapped: they are copied once, into the object store."""
    with file.open("rb") as opened:
        if not file.stat().st_size:
            return np.empty(0, np.uint8)
        return np.frombuffer(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def _write(content: dict[str, Any], target: Path) -> Path:
    import ray

    for name, reference in content.items():
        file = target / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as opened:
            opened.write(ray.get(reference).data)  # one at a time, straight from shared memory
    return target
