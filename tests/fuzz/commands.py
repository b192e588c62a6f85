"""Commands as a user runs them: in this process, which is quick, and some in one of their own."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from fuzz.surface import HARD_LIMIT, STATUSES, Trial
from proctor.cli import main as cli
from proctor.cli.streams import _HANDLER, PatientStream, _spelled
from proctor.errors import UsageError
from proctor.serve.server import WebsocketServer

_EVERY = 100
"""One of so many inputs runs in a process of its own."""


def _stream() -> PatientStream:
    return PatientStream(io.BytesIO(), "utf-8", _HANDLER, write_through=True)


def run_here(trial: Trial, arguments: Sequence[str]) -> bytes:
    """Run a command in this process; returns all that it put out. Its status must be one of ours."""
    out, err = _stream(), _stream()
    uses: list[BaseException] = []

    def net(error: BaseException, arguments: Sequence[str]) -> int:
        uses.append(error)
        return 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "report_unforeseen", net)
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        status = cli.run(arguments)
    for error in uses:  # the outermost net is for what nobody foresaw; this was foreseen here
        trial.unforeseen(error)
    return _judge(trial, status, out.buffer.getvalue(), err.buffer.getvalue())  # type: ignore[attr-defined]


def run_apart(trial: Trial, arguments: Sequence[str]) -> bytes:
    """Run a command in a process of its own, as far as its arguments can be given to one."""
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "proctor", *arguments],
            capture_output=True,
            timeout=HARD_LIMIT,
            stdin=subprocess.DEVNULL,
        )
    except (ValueError, UnicodeError, OSError) as error:  # a zero byte, half a character, too long
        trial.status = f"no argument ({type(error).__name__})"
        return b""
    except subprocess.TimeoutExpired:
        trial.fault("takes longer than 60 s")
        return b""
    if b"The traceback is in" in ended.stderr:
        trial.fault("the net was needed", ended.stderr[-500:].decode(errors="replace"))
    return _judge(trial, ended.returncode, ended.stdout, ended.stderr)


def _judge(trial: Trial, status: int, out: bytes, err: bytes) -> bytes:
    trial.status, trial.refused = str(status), status == 2
    if status not in STATUSES:
        trial.fault(f"status {status}", err[-500:].decode(errors="replace"))
    if status in (1, 2) and not err and not out:
        trial.fault(f"status {status} without a word")
    trial.heard(out, err)
    return out + err


class Runner:
    """Runs one input after the other, some of them apart."""

    def __init__(self) -> None:
        self._number = 0

    def __call__(self, trial: Trial, arguments: Sequence[str], *, apart: bool = True) -> bytes:
        """Run a command, here or apart; `apart`: whether it may be."""
        self._number += 1
        if apart and not self._number % _EVERY:
            return run_apart(trial, arguments)
        return run_here(trial, arguments)


@contextlib.contextmanager
def short_lives() -> Iterator[None]:
    """Let what serves open and end at once, what asks the network ask nobody, and what examines look at little."""
    import uvicorn

    from proctor.cli import doctor
    from proctor.engine.executors.ray_cluster import connection

    codecs.register_error(_HANDLER, _spelled)
    look_up: Callable[..., Any] = socket.getaddrinfo

    def numbers_only(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> Any:
        known = host in (None, "", "localhost", b"localhost")
        return look_up(host, port, family, type, proto, flags if known else flags | socket.AI_NUMERICHOST)

    async def open_and_end(self: WebsocketServer, announce: Callable[[str], None]) -> int:
        server = await self._listen()
        announce("ws://fuzz")
        server.close()
        await server.wait_closed()
        return 130

    async def end(self: Any, sockets: Any = None) -> None:
        return None

    @contextlib.contextmanager
    def no_cluster(address: str, code: Any) -> Iterator[None]:
        raise UsageError("the fuzzer has no cluster")
        yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", numbers_only)
        patch.setattr(WebsocketServer, "_run", open_and_end)
        patch.setattr(uvicorn.Server, "serve", end)
        patch.setattr(doctor, "examine", list)
        patch.setattr(connection, "connected", no_cluster)
        patch.setattr(os, "execve", _no_exec)
        yield


def _no_exec(*arguments: Any) -> None:
    raise AssertionError("a command starts over")
