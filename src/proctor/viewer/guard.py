"""What a browser may ask of the viewer: to read, under a name that is known, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote_to_bytes

from proctor.machine.addresses import Hosts

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


class RequestGuard:
    """Runs before the application: only known hosts, only reads, and the headers that every response gets."""

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
