"""Requests to the viewer: paths, queries, headers, methods and encodings, to its application and to its socket."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_from_bytes

import uvicorn
from hypothesis import given
from hypothesis import strategies as st

from fuzz.inputs import MARKS, inputs
from fuzz.sandbox import SECRET, Sandbox
from fuzz.surface import Surface, Trial
from hostile_runs import UNREADABLE
from made_runs import make_run
from proctor.machine.addresses import Hosts
from proctor.viewer.app import make_app

pytestmark = MARKS

_ANSWERS = {200, 206, 307, 400, 404, 405, 409, 413, 416, 421, 503}
"""What the viewer says; 500 would be its own net, which no request may need."""

_TARGETS = (
    "", "/", "run", "rows", "report", "live", "compare", "compare/", "static", "static/page.css", "static/page.js",
    "static/nothing", "good", "good/", "other/", "hostile/", "bad", "run.sqlite", "config.yaml", "eval_info.json",
    "logs", "logs/worker-0.log", "videos", "videos/a/", "lock", "..", ".", "...", "../beside/secret.txt",
    "secret.txt", "chart", "chart/", "parts", "episodes", "runs.csv", "runs.json", "runs.",
    "out.txt", "up", "up/beside/secret.txt", "absolute.mp4", "loop", "pipe.txt", "page.html", ".env.txt", "~", "*",
    "%2e%2e", "%2f", "%5c", "%00", "%ff", "%c3%28", "%u0041", "%", "%%32%65", "%252e%252e", "..;", "\\", "..\\",
    "//", "a" * 300, "é", "\x7f", "nonsense\udcff", "CON", "index.html", "favicon.ico", "robots.txt",
)  # fmt: skip
_QUERIES = (
    "", "task=a", "task=", "outcome=success", "outcome=x", "run=good", "run=good&run=other",
    "run=good&run=hostile",
    "run=../beside&run=good", "run=%2e%2e", "run=good&run=good", "&".join(["run=good"] * 40), "run=%ff&run=good",
    "task=" + "a" * 5000, "task=%00", "a&b=c&&=", "%", "run", "run=good/videos&run=good", "task=<script>",
    "format=csv", "format=json&task=a", "format=%00", "download", "tag=a&q=b", "tag=%ff&q=%00", "x=step&by=tag",
    "x=time&by=policy&benchmark=%ff", "q=" + "a " * 2000,
    "run[]=good", "group=a&task=0&episode=1", "group=b&task=0&episode=1", "group=a&task=0&episode=" + "9" * 5000,
    "group=a&task=-1&episode=1e9", "group=%ff&task=0&episode=0", "group=a&group=b&task=0&task=1&episode=0",
)  # fmt: skip
_RANGES = (
    "bytes=0-", "bytes=0-0", "bytes=-1", "bytes=-0", "bytes=5-1", "bytes=0-99999999999999999999", "bytes=a-b",
    "bytes=",
    "bytes", "bytes=0-1,2-3", "bytes=" + ",".join(["0-1"] * 2000),
    "bytes=" + ",".join(f"{i}-" for i in range(500)),
    "lines=0-1", "bytes=--1", "bytes=1", "bytes= 0 - 1 ", "bytes=0-1;q=1", "bytes=-" + "9" * 5000, "\x00", "é",
)  # fmt: skip
_HOSTS = (
    "127.0.0.1:8642", "127.0.0.1:8642", "127.0.0.1:8642", "localhost:8642", "[::1]:8642", "127.0.0.1",
    "evil:8642", "",
    "127.0.0.1:8642@evil", "[", "[::1", ":", "127.0.0.1:08642", "127.0.0.1:8642:8642", "x" * 5000,
)  # fmt: skip
_HEADERS = (
    "Origin", "Referer", "Cookie", "Accept-Encoding", "If-None-Match", "If-Modified-Since", "If-Range",
    "Content-Length",
    "Transfer-Encoding", "Upgrade", "X-Forwarded-For", "Forwarded", "Content-Type", "Expect", "Connection",
    "Accept",
)  # fmt: skip
_METHODS = ("HEAD", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "", "X")


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, list[tuple[str, str]]]:
    """Draw a method, a target and headers."""
    parts = draw(st.lists(st.one_of(st.sampled_from(_TARGETS), st.text(max_size=8)), max_size=4))
    target = "/".join(
        ["", *([draw(st.sampled_from(("run", "report", "live", "episode", "compare", "static")))]), *parts]
    )
    if draw(st.booleans()):
        known = ("run/good/", "report/good/", "live/good/", "run/hostile/", "episode/good/", "episode/hostile/",
        "run/good/videos/a_0/eval_episode_0.mp4",
                 "run/good/out.txt", "run/good/logs/worker-0.log", "compare/", "compare", "", "rows", "run/other/",
                 "run/good/absolute.mp4", "run/good/config.yaml")  # fmt: skip
        target = "/" + draw(st.sampled_from(known))
    if draw(st.booleans()):
        target += "?" + draw(st.one_of(st.sampled_from(_QUERIES), st.text(max_size=20)))
    headers = [("Host", _HOSTS[0] if draw(st.integers(0, 4)) else draw(st.sampled_from(_HOSTS)))]
    if draw(st.booleans()):
        headers.append(("Range", draw(st.one_of(st.sampled_from(_RANGES), st.text(max_size=20)))))
    words = st.one_of(
        st.sampled_from((*_RANGES, *_HOSTS, "gzip", "*", "chunked", "close", "0", "-1")), st.text(max_size=9)
    )
    headers += draw(st.lists(st.tuples(st.sampled_from((*_HEADERS, "Host")), words), max_size=2))
    return "GET" if draw(st.integers(0, 2)) else draw(st.sampled_from(_METHODS)), target, headers


def _raw(text: str) -> bytes:
    """Return a target as a careless client sends it: what is no ASCII, by percent or as it is."""
    return text.encode("utf-8", "surrogateescape")


@contextlib.contextmanager
def _collected(trial: Trial) -> Iterator[io.StringIO]:
    text, old = io.StringIO(), sys.stderr
    sys.stderr = text
    try:
        yield text
    finally:
        sys.stderr = old
    trial.heard(text.getvalue())


def ask_application(trial: Trial, app: Any, method: str, target: str, headers: list[tuple[str, str]]) -> None:
    """Give a request to the application, as the server would."""
    path, _, query = target.partition("?")
    raw = quote_from_bytes(_raw(path), safe="/%").encode()
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": raw, "query_string": _raw(query), "root_path": "", "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8642),
        "headers": [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in headers],
    }  # fmt: skip
    body = bytearray()
    statuses: list[int] = []

    requests = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not requests:
            await asyncio.Event().wait()  # a client that stays until it has its answer
        return requests.pop()

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
            body.extend(b"".join(b": ".join(header) + b"\n" for header in message["headers"]))
        body.extend(message.get("body", b""))

    with _collected(trial):
        asyncio.run(app(scope, receive, send))
    _judge(trial, statuses, bytes(body), method)


def _judge(trial: Trial, statuses: list[int], body: bytes, method: str) -> None:
    if len(statuses) != 1:
        trial.fault(f"{len(statuses)} answers")
        return
    trial.status, trial.refused = str(statuses[0]), statuses[0] >= 400
    trial.heard(body)
    if statuses[0] not in _ANSWERS:
        trial.fault(f"answers {statuses[0]}", body[-1500:].decode(errors="replace"))


@contextlib.contextmanager
def listening(app: Any) -> Iterator[int]:
    """The same application behind the real server, in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        config = uvicorn.Config(
            app, http="h11", ws="none", lifespan="off", log_level="warning", access_log=False, server_header=False,
            proxy_headers=False, timeout_graceful_shutdown=1,
        )  # fmt: skip
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[bound])))
        thread.start()
        try:
            yield bound.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def ask_socket(trial: Trial, port: int, data: bytes) -> None:
    """Send bytes to the server, and read whatever comes until it has nothing more to say."""
    answer = bytearray()
    with _collected(trial), contextlib.closing(socket.create_connection(("127.0.0.1", port), 30)) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(1 << 16):
                answer += piece
        except TimeoutError:
            trial.fault("no answer for 30 s")
        except OSError:
            pass  # it has hung up, which is an answer
    first = bytes(answer[:12]).split(b" ")
    status = int(first[1]) if len(first) > 1 and first[1].isdigit() else 0
    trial.status, trial.refused = (str(status) if status else "hung up"), not 200 <= status < 400
    trial.heard(bytes(answer))
    if status and status not in _ANSWERS and status not in (431, 501, 505):
        trial.fault(f"answers {status}", bytes(answer[-1500:]).decode(errors="replace"))


def make_root(sandbox: Sandbox) -> Path:
    """Make a folder of runs: good ones, hostile ones, and links to where nobody may look."""
    root = sandbox.kept / "runs"
    good = make_run(root / "good", {"a": [True, False], "b": [True, None]}, videos=True)
    make_run(root / "other", {"a": [True, True], "b": [None, False]})
    # Few, and none that is slow to read: every list of runs looks into all of them.
    for number, kind in enumerate(("values of other types", "run.sqlite is a pipe", "config.yaml is a device")):
        UNREADABLE[kind](make_run(root / f"hostile{number or ''}", {"a": [True, False]}))
    next((good / "videos").rglob("*.mp4")).write_bytes(bytes(range(256)) * 4)
    (good / "logs").mkdir(exist_ok=True)
    (good / "logs" / "worker-0.log").write_text("hello <b>\n")
    (good / "page.html").write_text("<script>alert(1)</script>")
    (good / ".env.txt").write_text(SECRET)
    (good / "out.txt").symlink_to(sandbox.beside / "secret.txt")
    (good / "up").symlink_to(sandbox.root)
    (good / "absolute.mp4").symlink_to(sandbox.beside / "secret.mp4")
    (good / "loop").symlink_to(good / "loop")
    os.mkfifo(good / "pipe.txt")
    (good / "nonsense\udcff").mkdir()
    (root / "linked").symlink_to(sandbox.beside)
    (root / "secret.txt").write_text(SECRET)
    return root


def test_no_request_upsets_the_viewer(sandbox: Sandbox, surface: Callable[..., Surface]) -> None:
    viewer = surface("viewer", threads=8)
    app = make_app(make_root(sandbox), Hosts("127.0.0.1", 8642))
    number = 0
    with listening(app) as port:
        ask_socket(Trial(), port, b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8642\r\n\r\n")

        @inputs(3000)
        @given(requests(), st.binary(max_size=40), st.integers(0, 400))
        def each(request: tuple[str, str, list[tuple[str, str]]], noise: bytes, place: int) -> None:
            nonlocal number
            number += 1
            method, target, headers = request
            if number % 4:
                with viewer.trial(request) as trial:
                    ask_application(trial, app, method, target, headers)
                return
            wire = _raw(f"{method} {quote(target, safe='/?%&=', errors='surrogateescape')} HTTP/1.1\r\n")
            wire += b"".join(_raw(f"{name}: {value}\r\n") for name, value in headers) + b"\r\n"
            if not number % 8:  # bytes put anywhere, or cut off
                wire = wire[:place] + noise + (wire[place:] if place % 2 else b"")
            with viewer.trial(wire) as trial:
                ask_socket(trial, port, wire)

        viewer.drive(each)
