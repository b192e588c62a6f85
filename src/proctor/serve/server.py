"""The websocket side of `proctor serve`: one session per connection, in the dialect of its endpoint.

A client that is wrong gets a text frame and loses its connection, as with openpi; the server goes on.
"""

from __future__ import annotations

import asyncio
import http
import logging
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proctor.errors import EXIT_SIGINT, EXIT_SIGTERM, UsageError
from proctor.files import clip
from proctor.installation import missing_package
from proctor.machine.addresses import Hosts, cannot_listen
from proctor.policies.remote.dialects import DialectName, Metadata, Reply, load_dialect
from proctor.policies.remote.messages import MalformedMessage
from proctor.serve.batcher import Batcher
from proctor.serve.session import ClientSession, PolicyNeeds, Refusal

if TYPE_CHECKING:
    from websockets.asyncio.server import Server, ServerConnection
    from websockets.http11 import Request, Response

_INTERNAL_ERROR, _PARTING_SECONDS = 1011, 2.0
_MOST_LOGGED = 100


@dataclass(frozen=True)
class Endpoint:
    """Where to listen, what is spoken there, and how much is taken."""

    host: str
    port: int
    largest_message: int
    origins: tuple[str, ...] = ()
    """Web pages that may ask, as scheme://host[:port], beside none at all."""
    protocol: DialectName = "openpi"


class WebsocketServer:
    """Serves a batcher's policy until a signal comes."""

    def __init__(self, batcher: Batcher, needs: PolicyNeeds, metadata: Metadata, endpoint: Endpoint) -> None:
        self._batcher, self._needs, self._endpoint = batcher, needs, endpoint
        dialect = load_dialect(endpoint.protocol).server
        if dialect is None:
            raise UsageError(f"proctor serve does not speak {endpoint.protocol}.")
        self._dialect, self._greeting = dialect, dialect.greeting(metadata)
        self._logged: set[str] = set()

    def run(self, announce: Callable[[str], None]) -> int:
        """Serve; `announce` is told the address once it is open. Returns the exit status."""
        return asyncio.run(self._run(announce))

    async def _run(self, announce: Callable[[str], None]) -> int:
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        for number, status in ((signal.SIGINT, EXIT_SIGINT), (signal.SIGTERM, EXIT_SIGTERM)):
            asyncio.get_running_loop().add_signal_handler(number, _end, ended, status)
        server = await self._listen()
        self._batcher.start()
        host = f"[{self._endpoint.host}]" if ":" in self._endpoint.host else self._endpoint.host
        announce(f"ws://{host}:{next(iter(server.sockets)).getsockname()[1]}")
        status = await ended
        self._batcher.stop()
        server.close()
        # A policy may hang: its connections are waited for, but not for ever.
        await asyncio.wait([asyncio.ensure_future(server.wait_closed())], timeout=_PARTING_SECONDS)
        return status

    async def _listen(self) -> Server:
        try:
            from websockets.asyncio.server import serve
        except ImportError:
            raise missing_package("proctor serve", "websockets", "remote") from None
        endpoint = self._endpoint
        try:
            return await serve(
                self._converse,
                endpoint.host,
                endpoint.port,
                process_request=self._admit,
                compression=None,
                max_size=endpoint.largest_message,
                max_queue=2,
                # A client in a long simulator step answers no ping; one that is really gone is noticed in the end.
                ping_interval=60,
                ping_timeout=600,
                close_timeout=_PARTING_SECONDS,
                logger=_quiet(),
            )
        except (OSError, ValueError) as error:  # a host's name may be none
            raise cannot_listen(endpoint.host, endpoint.port, error) from None

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer what is no handshake, and refuse pages of strangers.

        A browser lets any page connect to any address, this machine's own included, but says which page it is. A
        robot's client is no page and sends no origin; some send the server's own.
        """
        if request.path == "/healthz":
            return connection.respond(http.HTTPStatus.OK, "OK\n")
        for origin in request.headers.get_all("Origin"):
            if origin.lower() not in self._endpoint.origins and not self._is_own(connection, origin):
                words = f"pages of {clip(origin, 100)} may not use this server; --allow-origin lets them"
                return connection.respond(http.HTTPStatus.FORBIDDEN, f"{words}\n")
        return None

    def _is_own(self, connection: ServerConnection, origin: str) -> bool:
        # The names that are known beforehand, not the one that the client gives for this server: that is a
        # stranger's own, too, where it has made its name mean this machine.
        scheme, colon, host = origin.partition("://")
        hosts = Hosts(self._endpoint.host, connection.local_address[1])
        return bool(colon) and scheme == "http" and hosts.knows(host)

    async def _converse(self, connection: ServerConnection) -> None:
        from websockets.exceptions import ConnectionClosed

        session = ClientSession(self._needs)
        try:
            if self._greeting is not None:
                await connection.send(self._greeting)
            async for data in connection:
                try:
                    reply = await self._answer(session, data)
                except Exception as error:
                    told = isinstance(error, (Refusal, MalformedMessage))
                    words = str(error) if told else f"this message cannot be read: {error}"
                    self._log(words)
                    await connection.send(clip(words, 2000))
                    await connection.close(_INTERNAL_ERROR, "the text frame before this says why")
                    return
                if reply is not None:
                    await connection.send(reply)
        except ConnectionClosed:
            pass  # its memory goes with it

    def _log(self, words: str) -> None:
        """Tell whoever runs the server why a client was refused: once, however often it comes again."""
        if words not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(words)
            print(f"refused a client: {clip(words, 300)}", file=sys.stderr, flush=True)  # noqa: T201

    async def _answer(self, session: ClientSession, data: str | bytes) -> bytes | None:
        if isinstance(data, str):
            raise Refusal("expected a binary message, got text")
        message = self._dialect.read(data)
        if isinstance(message, Reply):
            return message.data
        question = session.read(message)
        answer = await asyncio.wrap_future(self._batcher.ask(session, question))
        return self._dialect.answer(answer.chunk, answer.seconds)


def _end(ended: asyncio.Future[int], status: int) -> None:
    if not ended.done():
        ended.set_result(status)


def _quiet() -> logging.Logger:
    # Somebody else's broken handshake is no news for whoever runs the server.
    logger = logging.getLogger("proctor.serve")
    logger.setLevel(logging.CRITICAL)
    return logger
