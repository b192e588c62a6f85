"""One websocket to a policy server: how it is reached, how long it is waited for, and what its silence means.

Whatever a connection remembers of an episode ends with it. So a connection that breaks in mid-episode is never
mended: the episode is lost (`PolicyLostError`) and starts again on a new one.
"""

from __future__ import annotations

import contextlib
import math
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from proctor.errors import PolicyError, PolicyHostError, PolicyLostError, UsageError
from proctor.files import clip
from proctor.installation import missing_package
from proctor.policies.remote.messages import MalformedMessage, unpack

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

LARGEST_ANSWER = 64 << 20
"""Bytes of one answer; a chunk of actions has a few thousand."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_SHAKE_SECONDS = 10.0
_TOO_BIG = 1009

Greeting = TypeVar("Greeting")


@dataclass(frozen=True)
class Address:
    """Where a server is, and how patient to be with it."""

    url: str
    timeout: float
    reconnect: float

    def __str__(self) -> str:
        return f"the policy server at {self.url}"


class ServerUnreachable(Exception):
    """Nobody answers at an address right now."""


class Connection:
    """An open connection. It closes with its last reference: an episode's memory holds it."""

    def __init__(self, address: Address) -> None:
        """Connect, once. Raises `ServerUnreachable` if that fails in a way that waiting may mend."""
        self.address = address
        self._socket = _connect(address)

    @classmethod
    def patiently(cls, address: Address, greet: Callable[[Connection], Greeting]) -> tuple[Connection, Greeting]:
        """Connect and greet, trying again with growing pauses. Raises `PolicyHostError` when patience ends."""
        deadline, pause = time.monotonic() + address.reconnect, _FIRST_PAUSE
        while True:
            try:
                connection = cls(address)
                return connection, greet(connection)
            except (ServerUnreachable, PolicyLostError) as error:
                # Lost in the greeting: a server that is about to end, or not yet ready.
                reason = str(error).removeprefix(f"{address} ")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise PolicyHostError(
                        f"{address} is gone: {reason}, for {address.reconnect:g} s (--policy.reconnect). "
                        "Start it again, the same command goes on."
                    ) from None
                print(f"waiting for {address}: {reason}", file=sys.stderr, flush=True)  # noqa: T201 - worker's log
                time.sleep(min(pause, left))
                pause = min(2 * pause, _LONGEST_PAUSE)

    def send(self, message: bytes) -> None:
        """Send one message. Raises `PolicyLostError` if the connection is gone or takes nothing any more."""
        from websockets.exceptions import ConnectionClosed

        try:
            self._socket.send(message)
        except (ConnectionClosed, OSError) as error:
            raise self._lost(error) from None

    def receive(self) -> Any:
        """Wait for one message and unpack it, whichever way its arrays are spelled.

        Raises:
            PolicyLostError: the connection is gone, or nothing came in time.
            PolicyError: an error frame came, or what is none of the protocol's, or the server will never take
                what was sent.
        """
        from websockets.exceptions import ConnectionClosed

        try:
            answer = self._socket.recv(timeout=self.address.timeout)
        except TimeoutError:
            raise PolicyLostError(
                f"{self.address} did not answer within {self.address.timeout:g} s (--policy.timeout)"
            ) from None
        except (ConnectionClosed, OSError) as error:
            raise self._lost(error) from None
        if isinstance(answer, str):
            raise PolicyError(f"{self.address} answered with an error: {last_line(answer)}")
        try:
            return unpack(answer)
        except MalformedMessage as error:
            raise self.garbage(f"answered with something that is not its protocol ({error})", answer) from None

    def garbage(self, what: str, answer: Any) -> PolicyError:
        """Return the error about an answer that is not of the protocol, showing what came."""
        shown = repr(answer[:120]) if isinstance(answer, (bytes, str)) else clip(answer, 120)
        return PolicyError(f"{self.address} {what}: {shown}")

    def close(self) -> None:
        """Say goodbye, without waiting long for an answer."""
        with contextlib.suppress(Exception):
            self._socket.close()

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self.close()

    def _lost(self, error: Exception) -> PolicyLostError | PolicyError:
        if isinstance(error.__cause__, BlockingIOError):
            return PolicyLostError(
                f"{self.address} took no message within {self.address.timeout:g} s (--policy.timeout)"
            )
        received = getattr(error, "rcvd", None)
        if received is not None and received.code == _TOO_BIG:
            return PolicyError(
                f"{self.address} takes no message as large as this observation"
                f"{f': {received.reason}' if received.reason else ''}. Raise its limit, or send smaller images "
                "(--policy.image_size)."
            )
        said = f" ({received.code} {received.reason})".replace(" )", ")") if received is not None else ""
        return PolicyLostError(f"{self.address} closed the connection{said}")


def _connect(address: Address) -> ClientConnection:
    try:
        from websockets.exceptions import InvalidHandshake, InvalidURI, WebSocketException
        from websockets.sync.client import connect
    except ImportError:
        raise missing_package("a policy server", "websockets", "remote") from None
    try:
        opened = connect(
            address.url,
            compression=None,
            max_size=LARGEST_ANSWER,
            open_timeout=_SHAKE_SECONDS,
            close_timeout=1.0,
            # A server that computes in its event loop answers no ping: --policy.timeout is the only clock.
            ping_interval=None,
            proxy=None,
            # Entered, never left: the only way in that all versions of websockets share. `close` is the way out.
        ).__enter__()
    except InvalidURI as error:
        raise UsageError(f"--policy.path={address.url}: {error}") from None
    except InvalidHandshake as error:
        raise ServerUnreachable(f"it is no websocket server ({error})") from None
    except TimeoutError:
        raise ServerUnreachable("no answer to the connection") from None
    except (OSError, EOFError, WebSocketException) as error:
        raise ServerUnreachable(getattr(error, "strerror", None) or str(error) or type(error).__name__) from None
    # A server that reads nothing must not block the sender for ever.
    seconds = math.ceil(address.timeout)
    with contextlib.suppress(OSError):  # it has hung up already; what it said before can still be read
        opened.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", seconds, 0))
    return opened


def last_line(text: str, most: int = 300) -> str:
    """Return the line of an error frame that says what went wrong: openpi sends whole tracebacks."""
    # The last lines of a long one will do; a server may send as much as it likes.
    lines = [line.strip() for line in text[-10_000:].strip().splitlines() if line.strip()]
    return clip(lines[-1], most) if lines else "an empty text"
