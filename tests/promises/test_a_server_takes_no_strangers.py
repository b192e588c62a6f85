"""Promise: a policy server takes no web page's messages, none that eats its memory, and gives no wrong actions."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import psutil
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from harness import SUPPORT, flags, run_cli, tiny_tree
from proctor.policies.remote.messages import pack
from servers import Served, answering, ask, observation, openpi, served, start_server, stop_server, talking_to

ONE_STEP = f"{SUPPORT / 'tiny_policies.py'}:plain"
"""A policy that looks at one step."""


def asks_as(server: Served, origin: str) -> bool:
    """Whether a page of this origin gets as far as an answer."""
    try:
        with connect(server.url, compression=None, proxy=None, origin=Origin(origin)) as connection:
            connection.recv(timeout=30)
            return "actions" in ask(connection, observation())
    except InvalidStatus as error:
        answer = error.response
    assert answer.status_code == 403
    assert len(answer.body.splitlines()) == 1
    return False


def test_a_web_page_cannot_use_a_server_on_this_machine() -> None:
    with served(allow_origin="https://lab.example:8443,http://localhost:3000") as server:
        port = server.port
        for origin in (
            "http://evil.example", f"http://evil.example:{port}", "https://evil.example", "null", "file://",
            "http://localhost", "http://127.0.0.1:1", f"http://localhost.evil.example:{port}",
            f"http://localhost:{port}.evil.example", "https://lab.example", "",
        ):  # fmt: skip
            assert not asks_as(server, origin), origin
        for origin in (
            f"http://127.0.0.1:{port}", f"http://localhost:{port}",
            "https://lab.example:8443", "http://localhost:3000",
        ):  # fmt: skip
            assert asks_as(server, origin), origin
        with talking_to(server) as robot:  # its client is no page and says of none
            assert "actions" in ask(robot, observation())


def test_nor_by_a_name_of_its_own_that_means_this_machine() -> None:
    with served() as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        stranger = f"evil.example:{server.port}"
        connection.request(
            "GET",
            "/",
            headers={
                "Host": stranger, "Origin": f"http://{stranger}", "Upgrade": "websocket", "Connection": "Upgrade",
                "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13",
            },
        )  # fmt: skip
        assert connection.getresponse().status == 403
        connection.close()


def nested(levels: int) -> bytes:
    return b"\x91" * levels + b"\x90"


BOMBS = {
    "15 MiB of empty lists": b"\xdd" + (15 << 20).to_bytes(4) + b"\x90" * (15 << 20),
    "empty lists inside of an observation": msgpack.packb({"observation.state": [[]] * 2_000_000}),
    "empty maps": b"\xdd" + (4 << 20).to_bytes(4) + b"\x80" * (4 << 20),
    "lists in lists in lists": b"\xdc\x03\xe8" * 3 + b"\x90" * 1_000_000,
    "numbers": b"\xdd" + (15 << 20).to_bytes(4) + b"\x01" * (15 << 20),
    "a thousand levels": nested(1000),
    "a million levels": nested(1_000_000),
    "a list that says it is longer than it is": b"\xdd\xff\xff\xff\xff",
    "an array of a million axes": msgpack.packb(
        {"observation.state": {b"__ndarray__": True, b"data": b"", b"dtype": "<f8", b"shape": [2**62] * 19_000}}
    ),
}


def test_no_message_becomes_more_than_it_is() -> None:
    with served(ONE_STEP) as server:
        process = psutil.Process(server.process.pid)
        with talking_to(server) as connection:
            ask(connection, observation())
        before = process.memory_info().rss
        for what, data in BOMBS.items():
            with talking_to(server) as connection:
                told = ask(connection, data)
                assert isinstance(told, str), what
                assert len(told.splitlines()) == 1
                assert len(told) < 500
                with pytest.raises(ConnectionClosed):
                    connection.recv(timeout=30)
            # The message itself is held for a moment, more than once on its way; 1.2 GB were not.
            assert process.memory_info().rss - before < 200 << 20, what
        with talking_to(server) as connection:
            assert "actions" in ask(connection, observation())


@pytest.mark.parametrize("when", ["greeting", "answer"])
def test_a_client_does_not_choke_on_a_hostile_server(tmp_path: Path, when: str) -> None:
    bomb = BOMBS["15 MiB of empty lists"]

    def handler(connection: Any) -> None:
        connection.send(bomb if when == "greeting" else pack({"robot": "tiny"}))
        for _ in connection:
            connection.send(bomb)

    with answering(handler) as url:
        done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", policy={"path": url}, eval={"batch_size": 1})))
    assert done.returncode in (1, 2)
    assert "a message of more than 20,000 values" in done.stderr
    assert len(done.stderr) < 2000
    assert "Traceback" not in done.stderr


def test_an_error_frame_of_any_length_is_one_line(tmp_path: Path) -> None:
    with answering(openpi(lambda message, number: "boom\n" * (4 << 20))) as url:
        done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", policy={"path": url}, eval={"batch_size": 1})))
    assert done.returncode == 1
    assert "answered with an error: boom" in done.stderr
    assert len(done.stderr) < 2000


# A policy that looks at several steps, and a client that sends one message per chunk.


def test_a_client_that_sends_one_message_per_chunk_gets_no_actions_from_a_policy_with_a_window() -> None:
    server = start_server()
    try:
        message = observation()
        del message["proctor/step"]
        with talking_to(server) as broker:
            told = ask(broker, message)
            assert isinstance(told, str)
            assert "looks at 3 steps" in told
            assert "proctor/step" in told
            assert len(told.splitlines()) == 1
        with talking_to(server) as broker:
            assert "actions" in ask(broker, observation(step=0))
            assert "looks at step 6, which was not sent" in ask(broker, observation(step=8))
    finally:
        _, log = stop_server(server)
    assert "refused a client: the policy looks at 3 steps" in log


def test_a_client_that_sends_every_step_gets_what_proctor_s_own_client_gets() -> None:
    states = [np.array([0.1, 0.2, 0.3]) * number for number in range(4)]
    image = observation()["observation.image"]
    opening = {"proctor/seed": [5, 6], "prompt": "do a"}
    with served() as server:
        with talking_to(server) as plain:
            singly = [
                ask(
                    plain,
                    {**opening, "observation.state": state, "observation.image": image, "proctor/step": step},
                )
                for step, state in enumerate(states)
            ]
        with talking_to(server) as own:
            at_once = []
            for step in range(4):
                window = [states[max(0, step + offset)] for offset in (-2, -1, 0)]
                message = {
                    **opening,
                    "observation.state": np.stack(window),
                    "observation.image": np.stack([image] * 3),
                    "proctor/window": 3,
                }
                at_once.append(ask(own, message))
    assert [one["actions"].tobytes() for one in singly] == [one["actions"].tobytes() for one in at_once]


def test_a_policy_that_looks_at_one_step_serves_any_client() -> None:
    message = observation()
    del message["proctor/step"]
    with served(ONE_STEP) as server, talking_to(server) as broker:
        assert all("actions" in ask(broker, message) for _ in range(3))
