"""vla-eval's model servers can be evaluated: the real one, and one of ours that says what theirs never would."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.sync.server import ServerConnection

from harness import SUPPORT, digests, run_tiny
from proctor.errors import PolicyError, UsageError
from proctor.policies.remote.messages import pack, unpack
from servers import answering

needs_vla_eval = pytest.mark.skipif(
    importlib.util.find_spec("vla_eval") is None, reason="vla-eval is not installed: pip install vla-eval"
)


@contextlib.contextmanager
def vla_eval_server(how: str = "well", chunk_size: int = 0) -> Iterator[str]:
    command = [sys.executable, str(SUPPORT / "vla_eval_server.py"), how, str(chunk_size)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        yield f"ws://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate()


@needs_vla_eval
def test_their_server_is_evaluated_whether_it_sends_chunks_or_single_actions(tmp_path: Path) -> None:
    found = []
    for chunk_size in (0, 1):
        with vla_eval_server(chunk_size=chunk_size) as url:
            directory = tmp_path / str(chunk_size)
            policy = {"path": url, "protocol": "vla-eval"}
            evaluation = run_tiny(directory / "run", task="a,b", n_episodes=3, policy=policy)
        assert evaluation.error is None
        assert len(evaluation.records) == 6
        assert evaluation.info["run"]["reproducible"] is False
        found.append(digests(evaluation))
    assert found[0] != found[1]


@needs_vla_eval
def test_their_server_does_the_same_whoever_shares_it(tmp_path: Path) -> None:
    found = []
    with vla_eval_server(chunk_size=3) as url:
        for workers in (1, 3):
            policy = {"path": url, "protocol": "vla-eval"}
            directory = tmp_path / str(workers)
            evaluation = run_tiny(directory / "run", policy=policy, eval={"batch_size": workers})
            assert evaluation.error is None
            found.append(digests(evaluation))
    assert found[0] == found[1]


@needs_vla_eval
def test_their_errors_are_shown(tmp_path: Path) -> None:
    with vla_eval_server("raise") as url:
        evaluation = run_tiny(tmp_path / "run", policy={"path": url, "protocol": "vla-eval"})
    assert isinstance(evaluation.error, PolicyError)
    assert "answered with an error: observation_failed: ValueError: no such camera" in str(evaluation.error)


@needs_vla_eval
def test_taking_theirs_for_openpis_is_refused_with_the_right_flag(tmp_path: Path) -> None:
    with (
        vla_eval_server() as url,
        pytest.raises(UsageError, match=r"Does it speak --policy\.protocol=vla-eval\?"),
    ):
        run_tiny(tmp_path / "run", policy={"path": url, "timeout": 0.5})


# The same wire format, from a server of ours.


class Theirs:
    """Keeps every message; answers an observation as `reply` says."""

    def __init__(self, reply: Callable[[], tuple[str, Any]], version: int = 1) -> None:
        self._reply, self._version = reply, version
        self.messages: list[dict[str, Any]] = []

    def __call__(self, connection: ServerConnection) -> None:
        for data in connection:
            message = unpack(data)  # type: ignore[arg-type]
            self.messages.append(message)
            if message["type"] == "hello":
                hello = {"harness_version": "0.8.0", "protocol_version": self._version, "model_server": "Theirs"}
                self._send(connection, message, "hello", hello)
            elif message["type"] == "observation":
                self._send(connection, message, *self._reply())

    def _send(self, connection: ServerConnection, to: dict[str, Any], kind: str, payload: Any) -> None:
        answer = {"type": kind, "payload": payload, "seq": to["seq"], "timestamp": 0.0}
        connection.send(pack(answer, "text"))


def one_action() -> tuple[str, Any]:
    return "action", {"actions": np.full(2, 0.3, np.float32)}


def test_an_episode_is_a_hello_a_start_observations_and_an_end(tmp_path: Path) -> None:
    theirs = Theirs(one_action)
    with answering(theirs) as url:
        policy = {"path": url, "protocol": "vla-eval"}
        evaluation = run_tiny(tmp_path / "run", task="a", n_episodes=1, policy=policy, eval={"batch_size": 1})
    assert evaluation.error is None
    steps = evaluation.records[0].steps
    kinds = [message["type"] for message in theirs.messages]
    # The first hello is the coordinator's, who only wants to know what is there.
    assert kinds == ["hello", "hello", "episode_start", *["observation"] * steps, "episode_end"]
    assert all(message.keys() == {"type", "payload", "seq", "timestamp"} for message in theirs.messages)
    assert theirs.messages[2]["payload"] == {"task": {"name": "a", "suite": "a", "task_id": 0}}
    first = theirs.messages[3]["payload"]
    assert first.keys() == {"images", "states", "task_description"}
    assert first["images"]["image"].shape == (8, 6, 3)
    assert first["states"].dtype == np.float64
    assert first["task_description"] == "do a"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (("error", {"error": "predict failed"}), "answered with an error: predict failed"),
        (("hello", {}), "answered with no action"),
        (("action", {"state": 1}), "answered without 'actions'; it gave: ['state']"),
        (("action", [1, 2]), "answered with no message of vla-eval's"),
        (("action", {"actions": np.zeros((2, 3))}), "returned actions of shape (2, 3)"),
    ],
)
def test_a_wrong_answer_ends_the_run(tmp_path: Path, reply: tuple[str, Any], words: str) -> None:
    with answering(Theirs(lambda: reply)) as url:
        policy = {"path": url, "protocol": "vla-eval"}
        evaluation = run_tiny(tmp_path / "run", policy=policy, eval={"use_async_envs": False})
    assert isinstance(evaluation.error, PolicyError)
    assert words in str(evaluation.error)


def test_another_version_of_their_protocol_is_refused(tmp_path: Path) -> None:
    with answering(Theirs(one_action, version=2)) as url, pytest.raises(UsageError, match="speaks version 2"):
        run_tiny(tmp_path / "run", policy={"path": url, "protocol": "vla-eval"})
