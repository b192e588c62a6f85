"""The names under which a server on this machine is known: what tells its own visitors from a stranger's page."""

from __future__ import annotations

import errno
import ipaddress
import socket

from proctor.errors import UsageError
from proctor.files import clip, reason

LOCAL = ("localhost", "127.0.0.1", "::1")
_EVERYWHERE = ("", "0.0.0.0", "::")


def cannot_listen(host: str, port: int, error: Exception) -> UsageError:
    """Return the error for an address that a server was to listen on, and what to do about it."""
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return UsageError(f"--port={port}: in use on {host}. Choose another; --port=0 picks a free one.")
    where = f"cannot listen on --host={clip(host, 100)} --port={port}"
    if isinstance(error, socket.gaierror | UnicodeError):
        return UsageError(f"{where}: there is no such host. Check --host.")
    if isinstance(error, OSError) and error.errno == errno.EADDRNOTAVAIL:
        return UsageError(f"{where}: this machine has no such address. Check --host.")
    return UsageError(f"{where}: {reason(error)}. Check --host, or use another --port.")


class Hosts:
    """The `Host` headers that a server answers, and the origins of pages that it could have sent itself.

    A page of a stranger can make its own name mean this machine (DNS rebinding) and then read what is served here;
    but the browser still sends that name.
    """

    def __init__(self, host: str, port: int) -> None:
        self._port, self._everywhere = port, host in _EVERYWHERE
        names = {*LOCAL, host, *((socket.gethostname(), socket.getfqdn()) if self._everywhere else ())}
        self._names = {name.lower() for name in names if name}

    def sent(self, origin: str) -> bool:
        """Whether a page of this origin is one that this server has sent."""
        return origin.startswith("http://") and self.knows(origin.removeprefix("http://"))

    def knows(self, header: str) -> bool:
        """Whether a request with this header was meant for this server."""
        if header.startswith("["):
            name, bracket, rest = header[1:].partition("]")
            if not bracket or ":" not in name:
                return False
        else:
            name, colon, port = header.partition(":")
            rest = colon + port
        if rest != f":{self._port}" and not (rest == "" and self._port == 80):
            return False
        # Who listens everywhere is reached by any address. A number cannot be made to mean another machine.
        return name.lower() in self._names or (self._everywhere and _is_number(name))


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
