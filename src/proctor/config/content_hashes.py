"""What settings name, by its content: where a file lies is no matter of a result, what it holds is.

A run's identity holds hashes made here instead of paths. So an edited file is another policy or benchmark although
its name is the same, and an unchanged one is the same in any folder, on any machine.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Any

from proctor.config.plain_values import to_plain
from proctor.files import open_regular

_PROCTOR = "proctor"


def by_content(value: Any) -> Any:
    """Return plain values in which every file, directory or `file.py:Name` that is there stands as its hash.

    It looks into maps and lists at any depth, so that no setting has to be known here.
    """
    return _by_content(value, words=False)


def _by_content(value: Any, words: bool) -> Any:
    if isinstance(value, dict):
        return {str(key): _by_content(item, words=True) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_by_content(item, words=True) for item in value]
    if isinstance(value, str | Path):
        text = str(value)
        if _is_source(text):
            return f"source {source_hash(text)}:{text.rpartition(':')[2]}"
        return f"content {content_hash(_there(text))}" if _names_a_file(value, words) else text
    return to_plain(value)


def _is_source(text: str) -> bool:
    where, colon, _ = text.rpartition(":")
    return bool(colon) and where.endswith(".py") and _there(where).is_file()


def _names_a_file(value: Any, words: bool) -> bool:
    """Whether a value is the path of a file or a directory that is there.

    Args:
        value: anything.
        words: whether a mere word may be one, as among a policy's arguments. Elsewhere ("python", "metaworld") it
            is the name of something else, even if a file of that name happens to lie here.
    """
    if not isinstance(value, str | Path) or not str(value):
        return False
    path = _there(value)
    try:
        return (words or "/" in str(value) or bool(path.suffix)) and path.exists()
    except (OSError, ValueError):  # longer than any name, or with a zero in it
        return False


def files_named_in(value: Any, words: bool = False) -> Iterator[str]:
    """Yield every path in plain values that names a file or directory that is there, at any depth."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from files_named_in(item, words=True)
    elif _names_a_file(value, words):
        yield str(value)


def content_hash(path: Path) -> str:
    """Return the hash of a file, or of a directory's files and their relative names.

    Links are followed. Compiled Python is left out: it says nothing that its source does not.

    Raises:
        OSError: something in it cannot be read.
    """
    if path.is_dir():
        return _combined((name, content_hash(path / name)) for name in sorted(_names_below(path)))
    # Regular ones only: a pipe would be waited for, and a device has no end.
    with open(open_regular(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _names_below(folder: Path) -> Iterator[str]:
    seen: set[str] = set()
    for place, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:  # a link that leads back
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from ((Path(place) / name).relative_to(folder).as_posix() for name in files)


def source_hash(path: str) -> str | None:
    """Return the hash of the code behind `file.py:Name` or `module:Name`: its file and what that imports.

    Followed are imports of the user's own files and of the same package; installed packages are known by their
    versions. Proctor's own code has no hash: its version is part of every run.

    Args:
        path: as `config.registry.load_object` takes it.
    """
    files = source_files(path)
    return _combined((name, content_hash(file)) for name, file in files) if files else None


def source_files(path: str) -> list[tuple[str, Path]]:
    """Return the files that `source_hash` is made of, by the names under which they are imported."""
    where = path.rpartition(":")[0]
    if where.endswith(".py"):
        start = _there(where).resolve()
        return _reached(start, start.parent, "")
    package = where.partition(".")[0]
    if package == _PROCTOR:
        return []
    spec = importlib.util.find_spec(where)
    if spec is None or spec.origin is None:
        return []
    start = Path(spec.origin).resolve()
    return _reached(start, start.parents[where.count(".") + (start.stem == "__init__")], package)


class UnreadFiles:
    """Files that a process may yet read: modules that it has not imported, and whatever its settings name.

    What a process has found out of them at its start need not hold when it comes to read them.

    Args:
        code: where classes and functions are, as `module:Name` or `file.py:Name`.
        values: settings, which may name files and more code.
    """

    def __init__(self, code: Iterable[str], values: Any) -> None:
        named = [*code, *(text for text in _texts(values) if _is_source(text))]
        modules = {file for path in named for _, file in source_files(path)}
        self._modules = modules - _loaded() if modules else modules  # a policy's process has thousands loaded
        self._files = set(self._modules)
        for place in map(_there, files_named_in(values)):
            # A folder changes when something is put into it.
            below = [] if place.is_file() else [place / name for name in _names_below(place)]
            self._files.update([place, *below, *(file.parent for file in below)])
        self._imported = len(sys.modules)
        self.look_again()

    def look_again(self) -> None:
        """Take all as they are now: what was changed has been found to hold the same."""
        self._seen = {file: _signature(file) for file in self._files}

    def changed(self) -> bool:
        """Whether one is another than it was, by its place, size and times; a few microseconds each."""
        if any(_signature(file) != self._seen[file] for file in self._files):
            return True
        if self._modules and len(sys.modules) != self._imported:
            # What has been imported by now is read, and was not changed before that.
            self._imported = len(sys.modules)
            read = self._modules & _loaded()
            self._modules -= read
            self._files -= read
        return False


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


def _loaded() -> set[Path]:
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return {Path(file).resolve() for file in files if isinstance(file, str)}


def _signature(file: Path) -> tuple[int, ...]:
    try:
        told = file.stat()
    except OSError:
        return ()
    return told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns


def is_own(module: str) -> bool:
    """Whether a module is the user's own code: neither installed, nor the standard library's, nor Proctor's."""
    top = module.partition(".")[0]
    spec = None if top in sys.stdlib_module_names or top == _PROCTOR else importlib.util.find_spec(top)
    places = list(spec.submodule_search_locations or [spec.origin or ""]) if spec is not None else []
    return bool(places) and not any(_is_installed(Path(place).resolve().parent) for place in places)


def _there(value: str | Path) -> Path:
    return Path(value).expanduser()


def _combined(parts: Iterable[tuple[str, str]]) -> str:
    whole = hashlib.sha256()
    for name, content in parts:
        whole.update(f"{len(name.encode())}:".encode() + name.encode() + content.encode())
    return whole.hexdigest()


def _reached(start: Path, root: Path, package: str) -> list[tuple[str, Path]]:
    """Return every file that a module imports, directly or not, by name. Imports inside functions count too."""
    found: dict[Path, str] = {start: ""}
    waiting = [start]
    while waiting:
        file = waiting.pop()
        for name in _imported(file, root):
            for part, module in _files_of(name, root, package):
                if module not in found:
                    found[module] = part
                    waiting.append(module)
    return sorted((name, file) for file, name in found.items())


def _imported(file: Path, root: Path) -> Iterator[str]:
    """Yield the dotted names that a file may import."""
    if file.suffix != ".py":
        return
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return  # loading it says what is wrong
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                folder = file.parents[min(node.level, len(file.parents)) - 1]
                if not folder.is_relative_to(root):
                    continue
                base = ".".join([*folder.relative_to(root).parts, *([base] if base else [])])
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)


def _files_of(name: str, root: Path, package: str) -> Iterator[tuple[str, Path]]:
    """Yield the files of a dotted name, packages first; nothing of what is installed or the standard library's."""
    parts = name.split(".")
    if parts[0] == _PROCTOR or parts[0] in sys.stdlib_module_names:
        return
    for place in dict.fromkeys([*_imported_from(parts[0]), root, *map(_folder, sys.path)]):
        first = _file_in(place, parts[0])
        if first is None and not (place / parts[0]).is_dir():
            continue
        if parts[0] != package and _is_installed(place):
            return
        folder = place
        for depth, part in enumerate(parts, start=1):
            module = _file_in(folder, part)
            if module is not None:
                yield ".".join(parts[:depth]), module
            folder = folder / part
        return


def _imported_from(name: str) -> list[Path]:
    """Return where a module that is imported already came from: its code may have changed the path to get it."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return []
    return [Path(file).resolve().parents[1 if hasattr(module, "__path__") else 0]]


def _folder(entry: str) -> Path:
    return Path(entry or ".").resolve()


def _file_in(folder: Path, name: str) -> Path | None:
    candidates = [folder / name / "__init__.py", *(folder / f"{name}{suffix}" for suffix in all_suffixes())]
    return next((file.resolve() for file in candidates if file.is_file()), None)


def _is_installed(place: Path) -> bool:
    if {"site-packages", "dist-packages"} & set(place.parts):
        return True
    return str(place) in {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
