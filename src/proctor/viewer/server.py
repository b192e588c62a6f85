"""Serves the viewer until a signal comes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from proctor.errors import EXIT_SIGINT, EXIT_SIGTERM
from proctor.installation import missing_package
from proctor.machine.addresses import cannot_listen

if TYPE_CHECKING:
    import uvicorn

_PARTING_SECONDS = 1


def serve(root: Path, host: str, port: int, announce: Callable[[str], None]) -> int:
    """Serve the runs below `root`; `announce` is told the address once it is open. Returns the exit status."""
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise missing_package("proctor view", str(error.name), "view") from None
    from proctor.machine.addresses import LOCAL, Hosts
    from proctor.viewer.app import make_app
    from proctor.viewer.films import Films

    with _listen(host, port) as listening:
        port = listening.getsockname()[1]
        told = f"http://{f'[{host}]' if ':' in host else host}:{port}/"

        class Server(uvicorn.Server):
            """One that leaves signals to us, and says when it is open."""

            @contextlib.contextmanager
            def capture_signals(self) -> Iterator[None]:
                """Capture none."""
                yield

            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                """Open, then tell."""
                await super().startup(sockets)
                announce(told)

        films = Films() if host in LOCAL else None
        config = uvicorn.Config(
            make_app(root, Hosts(host, port), films), http="h11", ws="none", lifespan="off", log_level="warning",
            access_log=False, server_header=False, proxy_headers=False, timeout_graceful_shutdown=_PARTING_SECONDS,
        )  # fmt: skip
        return asyncio.run(_serve(Server(config), listening))


async def _serve(server: uvicorn.Server, listening: socket.socket) -> int:
    status = 0

    def end(number: int) -> None:
        nonlocal status
        status = number
        # A browser that has paused a video holds its connection; that it is cut off now is nobody's fault.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        server.should_exit = True
        # A thread that sends a file may wait for a disk that never answers, and would be waited for.
        backstop = threading.Timer(2 * _PARTING_SECONDS, os._exit, (number,))
        backstop.daemon = True
        backstop.start()

    for number, meaning in ((signal.SIGINT, EXIT_SIGINT), (signal.SIGTERM, EXIT_SIGTERM)):
        asyncio.get_running_loop().add_signal_handler(number, end, meaning)
    await server.serve(sockets=[listening])
    return status


def _listen(host: str, port: int) -> socket.socket:
    try:
        (family, _, _, _, where), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return socket.create_server(where[:2], family=family)
    except (OSError, ValueError) as error:
        raise cannot_listen(host, port, error) from None
