"""The only place where fuzzed input may have anything written, with secrets beside it that nobody may read.

Python's audit events are watched: what would change a file outside is refused before it happens, and noted. What
is opened in C (SQLite) or by a child process is not seen; secrets are therefore also looked for in all that is put
out.
"""

from __future__ import annotations

import base64
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SECRET = "the owner's alone: 7f3a9c"
SECRETS = [SECRET.encode()] + [
    # In a data address, whatever stands before it.
    base64.b64encode(bytes(pad) + SECRET.encode())[4:-4]
    for pad in range(3)
]
_HARMLESS = ("/dev/null", "/dev/tty", "/dev/full", "/dev/zero", "/dev/ptmx", "/proc/", "/dev/shm/")
_CHANGES = {
    "os.mkdir": 1, "os.rename": 2, "os.remove": 1, "os.rmdir": 1, "os.link": 2, "os.symlink": 2, "os.truncate": 1,
    "os.chmod": 1, "os.chown": 1, "os.utime": 1, "os.setxattr": 1, "shutil.rmtree": 1, "shutil.move": 2,
}  # fmt: skip
"""Audit events that change files, and how many of their arguments are paths."""


class Sandbox:
    """A folder with everything that inputs can name: `here` is the current directory, `beside` holds the secrets.

    `here` and `made` (inputs that are files) are emptied after each input; in `kept` stays what was there before
    the first, although an input may name it to be written to.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("here", "beside", "home", "tmp", "made", "kept"):
            (root / name).mkdir()
        self.here, self.beside, self.made, self.kept = (root / n for n in ("here", "beside", "made", "kept"))
        for suffix in ("txt", "mp4", "yaml", "json", "sqlite", "log", "html", "py", "safetensors"):
            (self.beside / f"secret.{suffix}").write_text(f"# {SECRET}\n" * 4)
        self._entries, self._kept = self._look(), set[Path]()
        self._secrets = self._read_secrets()
        self._escapes: list[tuple[str, str]] = []
        self.told: list[str] = []
        """Paths that the input itself gave to be written to; relative ones are in `here`."""
        _install()

    def begin(self) -> None:
        """Watch from now on."""
        if not self._kept:
            self._kept = set(self.kept.rglob("*"))
        self._escapes, self.told = [], []
        _WATCHING.append(self)

    def end(self) -> Iterator[tuple[str, str]]:
        """Stop watching; yields what was done outside, and clears up."""
        self.ignore()
        yield from self._escapes
        told = [os.path.realpath(self.here / path) for path in self.told if _is_there(self.here / path)]
        for name in sorted(self._look() - self._entries):
            if not any(Path(os.path.realpath(self.root / name)).is_relative_to(place) for place in told):
                yield "something is left behind", name
            self._remove(self.root / name)
        if self._read_secrets() != self._secrets:
            yield "a file outside was changed", str(self.beside)
        new = [path for path in self.kept.rglob("*") if path not in self._kept]
        for path in (*self.here.iterdir(), *self.made.iterdir(), *new):
            self._remove(path)

    def _look(self) -> set[str]:
        """Return what lies in the places where nothing may be left."""
        found = set()
        for folder in (".", "beside", "home", "tmp"):
            found |= {os.path.normpath(f"{folder}/{name}") for name in _names(self.root / folder)}
        return found

    def _read_secrets(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.beside.iterdir() if path.is_file()}

    def _remove(self, path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def ignore(self) -> None:
        """Stop watching."""
        if self in _WATCHING:
            _WATCHING.remove(self)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take an audit event. Raises `PermissionError` for what must not happen."""
        if event == "open":
            path, mode, flags = arguments[:3]
            writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else _writes(flags)
            if writes:
                self._check(event, path)
            elif isinstance(path, str) and path.startswith(str(self.beside)):
                self._escapes.append(("a file from outside is read", path))
        elif event in _CHANGES:
            for path in arguments[: _CHANGES[event]]:
                self._check(event, path)
        elif event == "os.exec":
            self._escapes.append(("the process starts over", str(arguments[0])))
            raise PermissionError("the fuzzer does not start over")

    def _check(self, event: str, path: Any) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return
        text = os.fsdecode(path)
        if text.startswith(_HARMLESS) or not text.startswith("/"):
            return  # relative: to here, or to a folder that was opened
        if not os.path.normpath(text).startswith(str(self.root)):
            self._escapes.append((f"{event} outside of the sandbox", text))
            raise PermissionError(13, "outside of the fuzzer's sandbox", text)


_WATCHING: list[Sandbox] = []
_installed = False


def _install() -> None:
    # An audit hook stays for good, in the process of other tests, too: one is enough.
    global _installed
    if not _installed:
        _installed = True
        sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _WATCHING:
        _WATCHING[-1].audit(event, arguments)


def _writes(flags: Any) -> bool:
    return isinstance(flags, int) and bool(flags & (os.O_ACCMODE | os.O_CREAT | os.O_TRUNC))


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def _is_there(path: Path) -> bool:
    try:
        return os.path.lexists(path)
    except ValueError:
        return False
