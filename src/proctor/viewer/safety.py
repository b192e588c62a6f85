"""What a browser may ask of the viewer, and which files it may see: nothing outside of the folder of runs."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from proctor.machine.addresses import Hosts
from proctor.store.run_directory import DATABASE

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def inside(root: Path, relative: str) -> Path | None:
    """Return what `relative` names below `root`, if it is there and no link leads out; `root` itself is "".

    Args:
        root: a folder, resolved.
        relative: what a request named, decoded once.
    """
    parts = relative.split("/") if relative else []
    # Hidden files belong to editors, version control and half-written results.
    if "\0" in relative or any(part in ("", "..") or part.startswith(".") for part in parts):
        return None
    try:
        found = root.joinpath(*parts).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # not there, a loop of links, no name that a file can have
        return None
    if not found.is_relative_to(root):
        return None
    hidden = any(part.startswith(".") for part in found.relative_to(root).parts)
    return None if hidden else found


def run_around(root: Path, found: Path) -> Path | None:
    """Return the run directory that something below `root` belongs to; what belongs to none is not shown."""
    for folder in (found, *found.parents):
        if (folder / DATABASE).is_file():
            return folder
        if folder == root:
            break
    return None


def leads_out(root: Path, file: Path) -> bool:
    """Whether a file below `root` is a link that leads out of it."""
    return file.is_symlink() and inside(root, os.path.relpath(file, root)) is None


class Guard:
    """Stands before the application: only known hosts, only reading, and the headers that every answer has."""

    def __init__(self, app: App, hosts: Hosts) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the application do it."""
        if scope["type"] != "http":
            return
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not self._hosts.knows(hosts[0]):
            await _refuse(send, 421, "This viewer is not known under that name. Use the address that it printed.")
        elif scope["method"] not in ("GET", "HEAD"):
            await _refuse(send, 405, "The viewer only reads.", (b"allow", b"GET, HEAD"))
        else:
            # Names of files need not be UTF-8, in which the server has decoded the path.
            path = os.fsdecode(unquote_to_bytes(scope["raw_path"].partition(b"?")[0]))
            await self._app({**scope, "path": path}, receive, _with_headers(send))


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            present = {name.lower() for name, _ in headers}
            more = (*_HEADERS, (b"content-security-policy", POLICY.encode()))
            message = {**message, "headers": [*headers, *(one for one in more if one[0] not in present)]}
        await send(message)

    return sending


async def _refuse(send: Send, status: int, words: str, *headers: tuple[bytes, bytes]) -> None:
    body = f"{words}\n".encode()
    plain = (b"content-type", b"text/plain; charset=utf-8")
    length = (b"content-length", str(len(body)).encode())
    start = {"type": "http.response.start", "status": status, "headers": [plain, length, *headers]}
    await _with_headers(send)(start)
    await send({"type": "http.response.body", "body": body})
