"""Servers that are wrong: each ends in one line that says what came and what to do."""

from __future__ import annotations

import http.server
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from websockets.sync.server import ServerConnection

from harness import digests, flags, run_cli, run_tiny, tiny_tree
from proctor.errors import PolicyError, PolicyHostError, PolicyLostError, UsageError
from proctor.installation import install_command
from proctor.policies.remote.connection import Address, Connection, last_line
from proctor.policies.remote.messages import pack
from servers import answering, chunk, openpi, served

PICKLED = {b"__ndarray__": True, b"data": b"cos\nsystem\n(S'false'\ntR.", b"dtype": "|O", b"shape": [1]}

WRONG: dict[str, tuple[bytes | str, str]] = {
    "bytes": (b"\xc1\x00garbage", "answered with something that is not its protocol (no msgpack"),
    "list": (pack([1, 2]), "answered with no map: [1, 2]"),
    "nothing": (pack({"action": 1}), "answered without 'actions'; it gave: ['action']"),
    "objects": (msgpack.packb({"actions": PICKLED}), "an array of type '|O'"),
    "text": (pack({"actions": np.array([["left", "right"]])}), "answered with actions of type <U5"),
    "ragged": (pack({"actions": [[1.0], [1.0, 2.0]]}), "actions that are no array"),
    "axes": (pack({"actions": np.zeros((1, 2, 2))}), "answered with actions of shape: (1, 2, 2)"),
    "empty": (pack({"actions": np.zeros((0, 2))}), "answered with actions of shape: (0, 2)"),
    "size": (chunk(size=3), "returned actions of shape (2, 3); a chunk has shape (steps, 2) (task a, episode 0"),
    "nan": (pack({"actions": np.full((1, 2), np.nan)}), "returned an action with NaN or infinity"),
    "error": ("Traceback:\n  in infer\nValueError: no such camera\n", "an error: ValueError: no such camera"),
}


@pytest.mark.parametrize("how", WRONG)
def test_a_wrong_answer_ends_the_run_and_shows_what_came(tmp_path: Path, how: str) -> None:
    reply, words = WRONG[how]
    with answering(openpi(lambda message, number: reply)) as url:
        evaluation = run_tiny(tmp_path / "run", policy={"path": url}, eval={"use_async_envs": False})
    assert isinstance(evaluation.error, PolicyError)
    assert words in str(evaluation.error)
    assert len(str(evaluation.error)) < 400
    assert "\n" not in str(evaluation.error)


def test_what_finished_before_a_wrong_answer_is_kept(tmp_path: Path) -> None:
    asked = 0

    def reply(message: dict[str, Any], number: int) -> bytes | str:
        nonlocal asked
        asked += 1
        return chunk() if asked < 60 else "out of memory"

    with answering(openpi(reply)) as url:
        done = run_cli("eval", *flags(tiny_tree(tmp_path / "run", policy={"path": url}, eval={"batch_size": 1})))
    assert done.returncode == 1
    assert f"proctor: the policy server at {url} answered with an error: out of memory" in done.stderr
    assert "Traceback" not in done.stderr
    assert 0 < len(digests(tmp_path / "run")) < 12


def test_fewer_actions_than_are_to_be_executed_are_refused_with_both_numbers(tmp_path: Path) -> None:
    with answering(openpi(lambda message, number: chunk(3))) as url:
        evaluation = run_tiny(tmp_path / "run", policy={"path": url, "n_action_steps": 5})
    assert isinstance(evaluation.error, PolicyError)
    assert "returned a chunk of 3 actions, and --policy.n_action_steps=5 asks for 5." in str(evaluation.error)


def test_an_answer_that_comes_too_late_loses_the_episode_which_is_tried_again(tmp_path: Path) -> None:
    over, late = threading.Event(), threading.Event()

    def reply(message: dict[str, Any], number: int) -> bytes:
        if number == 1 and not late.is_set():
            late.set()
            over.wait(60)
        return chunk()

    with answering(openpi(reply)) as url:
        evaluation = run_tiny(tmp_path / "run", policy={"path": url, "timeout": 1.0})
        over.set()
    assert evaluation.error is None
    assert len(evaluation.records) == 12
    assert sorted(record.attempts for record in evaluation.records) == [1] * 11 + [2]


@pytest.mark.parametrize("inline", [False, True])
def test_a_server_that_is_always_late_ends_the_run(tmp_path: Path, inline: bool) -> None:
    over = threading.Event()

    def reply(message: dict[str, Any], number: int) -> bytes:
        over.wait(60)
        return chunk()

    with answering(openpi(reply)) as url:
        settings = {"batch_size": 1, "use_async_envs": not inline}
        evaluation = run_tiny(tmp_path / "run", policy={"path": url, "timeout": 0.2}, eval=settings)
        over.set()
    assert isinstance(evaluation.error, PolicyHostError)
    assert "3 attempts at" in str(evaluation.error)
    assert "lost its policy" in str(evaluation.error)
    assert "did not answer within 0.2 s (--policy.timeout)" in str(evaluation.error)
    assert "Run it again to continue from here." in str(evaluation.error)


def test_a_server_that_hangs_up_is_told_with_its_reason(tmp_path: Path) -> None:
    def handler(connection: ServerConnection) -> None:
        connection.send(pack({}))
        connection.recv()
        connection.close(1012, "restarting")

    with answering(handler) as url:
        evaluation = run_tiny(tmp_path / "run", policy={"path": url})
    assert isinstance(evaluation.error, PolicyHostError)
    assert f"the policy server at {url} closed the connection (1012 restarting)" in str(evaluation.error)


def test_a_server_that_takes_no_message_of_this_size_is_not_asked_again(tmp_path: Path) -> None:
    def handler(connection: ServerConnection) -> None:
        connection.send(pack({}))
        connection.recv()
        connection.close(1009, "over 16 bytes")

    with answering(handler) as url:
        evaluation = run_tiny(tmp_path / "run", policy={"path": url})
    assert isinstance(evaluation.error, PolicyError)
    assert "takes no message as large as this observation: over 16 bytes" in str(evaluation.error)


def test_a_server_that_reads_nothing_does_not_block_the_sender_for_ever() -> None:
    with served() as server:
        connection = Connection(Address(server.url, timeout=1.0, reconnect=0.0))
        server.process.send_signal(signal.SIGSTOP)
        with pytest.raises(PolicyLostError, match="took no message within 1 s"):
            connection.send(bytes(50 << 20))
        server.process.send_signal(signal.SIGCONT)
        connection.close()


# Refused before any simulator starts.


def hang_up(connection: ServerConnection) -> None:
    connection.close()


def wait_for_hello(connection: ServerConnection) -> None:
    connection.recv()


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (lambda connection: connection.send("busy"), "answered with an error: busy"),
        (lambda connection: connection.send(b"\xc1"), "not its protocol"),
        (lambda connection: connection.send(pack([1])), "began with no map of metadata: [1]"),
        (hang_up, "closed the connection (1000)"),
        (
            wait_for_hello,
            "did not answer within 0.3 s (--policy.timeout). Does it speak --policy.protocol=vla-eval?",
        ),
        (
            lambda connection: connection.send(pack({"proctor": {"version": "0.0.1", "spec": {}}})),
            "runs Proctor 0.0.1, this is",
        ),
    ],
)
def test_a_server_that_begins_wrong_is_refused(
    tmp_path: Path, handler: Callable[[ServerConnection], None], words: str
) -> None:
    with answering(handler) as url, pytest.raises(UsageError) as caught:
        run_tiny(tmp_path / "run", policy={"path": url, "timeout": 0.3 if handler is wait_for_hello else 30})
    assert words in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (
            {"path": "ws://127.0.0.1:1"},
            "--policy.path=ws://127.0.0.1:1: no policy server there: Connection refused.",
        ),
        ({"path": "ws://no.such.host.invalid:1"}, "no policy server there: "),
        ({"path": "ws://:notaport"}, "--policy.path=ws://:notaport: "),
        ({"type": "remote"}, "--policy.type=remote needs --policy.path=ws://HOST:PORT."),
        ({"path": "ws://127.0.0.1:1", "protocol": "openpy"}, "Did you mean 'openpi'?"),
        ({"path": "ws://127.0.0.1:1", "timeout": 0}, "--policy.timeout=0: must be more than 0."),
        ({"path": "ws://127.0.0.1:1", "keys": {"a": "x", "b": "x:y"}}, "gives two things the same place: 'x:y'"),
        ({"path": "ws://127.0.0.1:1", "keys": {"a": "prompt"}}, "gives two things the same place: 'prompt'"),
    ],
)
def test_a_mistake_is_refused_in_one_line(tmp_path: Path, policy: dict[str, Any], words: str) -> None:
    tree = tiny_tree(tmp_path / "run")
    with pytest.raises(UsageError) as caught:
        run_tiny(tmp_path / "run", policy={**dict.fromkeys(tree["policy"]), **policy})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_web_server_is_no_policy_server(tmp_path: Path) -> None:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        with pytest.raises(UsageError, match="no policy server there: it is no websocket server"):
            run_tiny(tmp_path / "run", policy={"path": f"ws://127.0.0.1:{server.server_port}/nothing"})
        server.shutdown()
        thread.join()


def test_without_the_package_the_command_that_installs_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "websockets.sync.client", None)
    with pytest.raises(UsageError, match=re.escape(install_command("remote"))):
        run_tiny(tmp_path / "run", policy={"path": "ws://127.0.0.1:1"})


def test_a_key_that_the_benchmark_does_not_give_is_refused(tmp_path: Path) -> None:
    with (
        answering(openpi(lambda message, number: chunk())) as url,
        pytest.raises(UsageError, match=r"looks at observation\.depth, which tiny does not give"),
    ):
        run_tiny(tmp_path / "run", policy={"path": url, "keys": {"observation.depth": "depth"}})


def test_the_last_line_of_a_traceback_is_what_is_told() -> None:
    assert last_line("Traceback\n  here\nKeyError: 'x'\n\n") == "KeyError: 'x'"
    assert last_line(" \n") == "an empty text"
    assert len(last_line("x" * 10_000)) < 400
