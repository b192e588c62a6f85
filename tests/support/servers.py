"""Policy servers for the tests: the real `proctor serve`, and small ones that answer as a test wants."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from websockets.sync.client import ClientConnection, connect
from websockets.sync.server import ServerConnection, serve

from harness import SUPPORT, THOUGHTFUL, flags, start_cli
from proctor.engine.process import STEADY
from proctor.policies.remote.messages import pack, unpack


@dataclass
class Served:
    """A running `proctor serve`."""

    url: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


def start_server(
    policy: str = THOUGHTFUL, port: int = 0, kwargs: dict[str, Any] | None = None, **own: Any
) -> Served:
    """Start `proctor serve` on the tiny benchmark and wait until it listens."""
    tree = {
        "policy": {"path": policy, **({"kwargs": json.dumps(kwargs)} if kwargs else {})},
        "env": {"type": f"{SUPPORT / 'tiny.py'}:Tiny"},
        "port": port,
        **own,
    }
    process = start_cli("serve", *flags(tree), extra_env=STEADY)
    assert process.stdout is not None
    line = process.stdout.readline()
    if "serving" not in line:
        out, err = process.communicate(timeout=120)
        raise AssertionError(f"no server: {line}{out}{err}")
    return Served(next(word for word in line.split() if word.startswith("ws://")), process)


def stop_server(served: Served, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
    """End a server; returns its exit status and what it wrote to stderr."""
    served.process.send_signal(number)
    _, err = served.process.communicate(timeout=120)
    return served.process.returncode, err


@contextlib.contextmanager
def served(policy: str = THOUGHTFUL, **options: Any) -> Iterator[Served]:
    """A `proctor serve` for the time of a test. It must live until the end, and end well."""
    server = start_server(policy, **options)
    try:
        yield server
        assert server.process.poll() is None, "the server died"
    finally:
        status, err = stop_server(server)
    assert status == 128 + signal.SIGTERM, err


@contextlib.contextmanager
def answering(handler: Callable[[ServerConnection], None], port: int = 0) -> Iterator[str]:
    """A websocket server whose connections are all `handler`'s; gives its address."""
    with serve(handler, "127.0.0.1", port, compression=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


def openpi(
    reply: Callable[[dict[str, Any], int], bytes | str], metadata: dict[str, Any] | None = None
) -> Callable[[ServerConnection], None]:
    """An openpi server of which `reply` says the answer to each message, and the how-manieth it is."""

    def handler(connection: ServerConnection) -> None:
        connection.send(pack(metadata or {"robot": "tiny"}))
        for number, data in enumerate(connection):
            connection.send(reply(unpack(data), number))  # type: ignore[arg-type]

    return handler


def chunk(steps: int = 2, size: int = 2) -> bytes:
    return pack({"actions": np.full((steps, size), 0.3, np.float32)})


@contextlib.contextmanager
def talking_to(server: Served) -> Iterator[ClientConnection]:
    """A plain openpi client's connection, after the metadata."""
    with connect(server.url, compression=None, max_size=None, proxy=None, ping_interval=None) as connection:
        assert isinstance(connection.recv(), bytes)
        yield connection


def observation(scale: float = 1.0, step: int = 0) -> dict[str, Any]:
    """A message that the tiny policies understand, of which some look at several steps."""
    return {
        "proctor/step": step,
        "observation.state": np.array([0.1, 0.2, 0.3]) * scale,
        "observation.image": np.full((8, 6, 3), 7, np.uint8),
        "prompt": "do a",
    }


def ask(connection: ClientConnection, message: Any) -> Any:
    """Send a message and return the answer: a map, or the text of an error frame."""
    connection.send(message if isinstance(message, (bytes, str)) else pack(message))
    answer = connection.recv(timeout=30)
    return answer if isinstance(answer, str) else unpack(answer)
