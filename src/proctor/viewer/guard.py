"""What a browser may ask of the viewer: to read, under a name that is known, and to film, from its own pages.

A page on the web can send a request to this machine, but cannot read an answer. So whoever asks for a film must
know the token that the viewer's own pages have, and the browser must say that it was such a page that asks.
"""

from __future__ import annotations

import hmac
import ipaddress
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


FILM, TOKEN = "/film/", b"x-proctor-token"
"""Where films are asked for, and the header that has the token."""


class RequestGuard:
    """Runs before the application: only known hosts, reads and films, and the headers that every response gets.

    Args:
        app: the application.
        hosts: the names under which it is known.
        token: what whoever asks for a film must know; `None`: nobody may.
    """

    def __init__(self, app: App, hosts: Hosts, token: str | None = None) -> None:
        self._app, self._hosts, self._token = app, hosts, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the application do it."""
        if scope["type"] != "http":
            return
        # Names of files need not be UTF-8, in which the server has decoded the path.
        path = os.fsdecode(unquote_to_bytes(scope["raw_path"].partition(b"?")[0]))
        hosts = _headers(scope, b"host")
        if len(hosts) != 1 or not self._hosts.knows(hosts[0].decode("latin-1")):
            await _refuse(send, 421, "This viewer is not known under that name. Use the address that it printed.")
        elif scope["method"] == "POST" and path.startswith(FILM):
            why = self._why_no_film(scope)
            if why:
                await _refuse(send, 403, why)
            else:
                await self._app({**scope, "path": path}, receive, _with_headers(send))
        elif scope["method"] not in ("GET", "HEAD"):
            await _refuse(send, 405, "The viewer only reads.", (b"allow", b"GET, HEAD"))
        else:
            await self._app({**scope, "path": path}, receive, _with_headers(send))

    def _why_no_film(self, scope: Scope) -> str:
        """Return why a film may not be asked for so; empty if it may."""
        if self._token is None or not _is_here(scope):
            return "Films can be asked for on the machine alone that the viewer runs on."
        origins, tokens = _headers(scope, b"origin"), _headers(scope, TOKEN)
        if len(origins) != 1 or not self._hosts.sent(origins[0].decode("latin-1")):
            return "Films can be asked for by the viewer's own pages alone."
        if any(site != b"same-origin" for site in _headers(scope, b"sec-fetch-site")):
            return "Films can be asked for by the viewer's own pages alone."
        if len(tokens) != 1 or not hmac.compare_digest(tokens[0], self._token.encode()):
            return "The viewer has been started anew since this page was made. Load it again."
        return ""


def _headers(scope: Scope, wanted: bytes) -> list[bytes]:
    return [value for name, value in scope["headers"] if name == wanted]


def _is_here(scope: Scope) -> bool:
    """Whether a request comes from this machine."""
    try:
        return ipaddress.ip_address(str((scope.get("client") or ("",))[0])).is_loopback
    except ValueError:
        return False


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
