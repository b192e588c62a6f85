"""`proctor serve` as its clients and whoever runs it meet it."""

from __future__ import annotations

import signal
import socket
import urllib.request
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from harness import SUPPORT, THOUGHTFUL, run_cli, start_cli, wait_until
from proctor.cli.main import run
from proctor.engine.process import STEADY
from proctor.policies.protocol import PolicySpec
from proctor.policies.remote.messages import pack, unpack
from servers import Served, ask, observation, served, start_server, stop_server, talking_to

POLICIES = SUPPORT / "tiny_policies.py"
TINY = f"--env.type={SUPPORT / 'tiny.py'}:Tiny"


def lives(server: Served) -> bool:
    with talking_to(server) as connection:
        return bool(ask(connection, observation())["actions"].shape[1] == 2)


def refusal(server: Served, message: Any) -> str:
    """Return the error frame that a message gets; the connection must be closed after it."""
    with talking_to(server) as connection:
        told = ask(connection, message)
        with pytest.raises(ConnectionClosed) as closed:
            connection.recv(timeout=30)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1011
    assert isinstance(told, str)
    assert "\n" not in told
    return told


# What a plain openpi client sees.


def test_a_plain_client_gets_metadata_then_chunks() -> None:
    with served() as server:
        with connect(server.url, compression=None, proxy=None) as connection:
            metadata = unpack(connection.recv())  # type: ignore[arg-type]
            spec = PolicySpec.from_wire(metadata["proctor"]["spec"])
            assert spec.observation_offsets == (-2, -1, 0)
            assert spec.stochastic
            for step in range(3):
                answer = ask(connection, observation(step=step))
                assert answer["actions"].dtype == np.float64
                assert answer["actions"].shape[1] == 2
                assert answer["server_timing"]["infer_ms"] >= 0
        with urllib.request.urlopen(server.url.replace("ws://", "http://") + "/healthz") as health:
            assert (health.status, health.read()) == (200, b"OK\n")


def test_a_seed_makes_answers_repeatable_and_its_absence_does_not() -> None:
    def play(server: Served, **first: Any) -> list[bytes]:
        with talking_to(server) as connection:
            answers = [ask(connection, {**observation(), **first}), ask(connection, observation(2.0, 1))]
        return [answer["actions"].tobytes() for answer in answers]

    with served() as server:
        assert play(server, **{"proctor/seed": [1, 2]}) == play(server, **{"proctor/seed": [1, 2]})
        assert play(server, **{"proctor/seed": [1, 2]}) != play(server, **{"proctor/seed": [2, 2]})
        assert play(server) != play(server)


@pytest.mark.parametrize("again", [{"reset": True}, {"proctor/episode": "second"}])
def test_a_new_episode_on_the_same_connection_remembers_nothing(again: dict[str, Any]) -> None:
    seed = {"proctor/seed": [5, 6], "proctor/episode": "first"}
    with served() as server, talking_to(server) as connection:
        once = [ask(connection, {**observation(), **seed}), ask(connection, observation(3.0, 1))]
        first, *rest = [ask(connection, {**observation(), **seed, **again}), ask(connection, observation(3.0, 1))]
    assert np.array_equal(once[0]["actions"], first["actions"])
    assert np.array_equal(once[1]["actions"], rest[0]["actions"])


def test_a_client_may_send_narrower_numbers() -> None:
    message = observation()
    message["observation.state"] = message["observation.state"].astype(np.float32)
    with served() as server, talking_to(server) as connection:
        assert ask(connection, message)["actions"].shape[1] == 2


# Clients that are wrong.


def test_a_wrong_message_gets_one_line_and_the_server_lives_on() -> None:
    image = observation()["observation.image"]
    state = observation()["observation.state"]
    wrong = {
        "no 'observation.image' in the message, which has observation.state, proctor/step, prompt. Needed": {
            "observation.state": state,
            "proctor/step": 0,
            "prompt": "do a",
        },
        "'observation.state' is float64(4,), the policy needs float64(3,)": {
            **observation(),
            "observation.state": np.zeros(4),
        },
        "'observation.image' is float32(8, 6, 3), the policy needs uint8(8, 6, 3)": {
            **observation(),
            "observation.image": image.astype(np.float32),
        },
        "'observation.state' has NaN or infinity": {**observation(), "observation.state": state * np.nan},
        "'observation.state' must be an array, got list": {**observation(), "observation.state": [1.0, 2.0, 3.0]},
        "'prompt' must be text, got int": {**observation(), "prompt": 7},
        "'proctor/seed' must be two whole numbers below 2**64": {**observation(), "proctor/seed": [1]},
        "'proctor/task' must be a map of group, task_id, name": {**observation(), "proctor/task": {"name": "a"}},
        "'proctor/window' is 2; the policy looks at 3 steps": {**observation(), "proctor/window": 2},
        "expected a map of observations, got list": [1, 2],
        "expected a binary message, got text": "hello",
        "no msgpack": b"\xc1",
        "an array of type '|O'": msgpack.packb(
            {"observation.state": {b"__ndarray__": True, b"data": b"", b"dtype": "|O", b"shape": [3]}}
        ),
    }
    with served() as server:
        for words, message in wrong.items():
            assert words in refusal(server, message)
        assert lives(server)


def test_random_messages_and_random_bytes_do_not_hurt_it() -> None:
    anything = st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    )
    with served() as server:

        @settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
        @given(data=st.binary(max_size=200) | anything.map(pack))
        def over_the_websocket(data: bytes) -> None:
            assert refusal(server, data)

        @settings(deadline=None, max_examples=30)
        @given(data=st.binary(min_size=1, max_size=200))
        def over_the_bare_socket(data: bytes) -> None:
            with socket.create_connection(("127.0.0.1", server.port)) as bare:
                bare.sendall(data)

        over_the_websocket()
        over_the_bare_socket()
        assert lives(server)


def test_a_message_over_the_limit_closes_its_connection_only() -> None:
    with served(max_message_mb=1) as server:
        with talking_to(server) as connection, pytest.raises(ConnectionClosed) as closed:
            ask(connection, {"observation.state": np.zeros(1 << 18)})
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009
        assert lives(server)


def test_a_policy_that_raises_is_told_and_the_server_lives_on() -> None:
    with served(f"{POLICIES}:Faulty", kwargs={"how": "raise", "at": 2}) as server:
        with talking_to(server) as connection:
            assert ask(connection, observation())["actions"].tolist() == [[0.3, 0.1]]
            told = ask(connection, observation(step=1))
        assert told == "the policy raised ValueError: I cannot see (task do a, step 1)"
        assert lives(server)


def test_when_the_queue_is_full_one_more_is_refused_and_the_others_are_answered(tmp_path: Path) -> None:
    entered, gate = tmp_path / "entered", tmp_path / "gate"
    kwargs = {"entered": str(entered), "gate": str(gate)}
    with (
        served(f"{POLICIES}:Gated", kwargs=kwargs, queue=1) as server,
        talking_to(server) as first,
        talking_to(server) as second,
        talking_to(server) as third,
    ):
        first.send(pack({}))
        wait_until(entered.exists)
        # Of these two, one waits and one is too many; which one is which is the network's business.
        second.send(pack({}))
        third.send(pack({}))
        refused = None
        while refused is None:
            for connection, other in ((second, third), (third, second)):
                try:
                    told, refused = connection.recv(timeout=0.05), connection
                    waiting = other
                except TimeoutError:
                    continue
                break
        assert isinstance(told, str)
        assert told.startswith("the server is full: 1 questions wait already (--queue).")
        gate.touch()
        for answered in (first, waiting):
            assert unpack(answered.recv(timeout=30))["actions"].shape == (1, 2)  # type: ignore[arg-type]


# Whoever runs it.


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_without_a_traceback(number: signal.Signals, status: int) -> None:
    server = start_server()
    with talking_to(server) as connection:
        assert ask(connection, observation())
        assert stop_server(server, number) == (status, "")


def test_a_policy_that_hangs_does_not_keep_ctrl_c_waiting(tmp_path: Path) -> None:
    entered = tmp_path / "entered"
    server = start_server(f"{POLICIES}:Gated", kwargs={"entered": str(entered), "gate": str(tmp_path / "never")})
    with talking_to(server) as connection:
        connection.send(pack({}))
        wait_until(entered.exists)
        status, err = stop_server(server, signal.SIGINT)
    assert status == 130
    assert "Traceback" not in err


def test_it_starts_over_with_one_thread_and_says_what_it_serves() -> None:
    process = start_cli(
        "serve", f"--policy.path={THOUGHTFUL}", TINY, "--port=0", extra_env={"OMP_NUM_THREADS": "7"}
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    environment = Path(f"/proc/{process.pid}/environ").read_text()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert line.startswith(f"serving {THOUGHTFUL} for tiny at ws://127.0.0.1:")
    assert "OMP_NUM_THREADS=1" in environment.split("\0")


def test_a_port_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_cli("serve", f"--policy.path={THOUGHTFUL}", TINY, f"--port={port}")
    assert done.returncode == 2
    assert done.stderr == (
        f"proctor: --port={port}: in use on 127.0.0.1. Choose another; --port=0 picks a free one.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prot=1"], "unknown flag --prot. Did you mean '--port'? See: proctor serve --help"),
        (["--eval.n_episodes=3"], "unknown flag --eval.n_episodes."),
        (["--env.tsk=a"], "Did you mean '--env.task'?"),
        (["--port=-1"], "--port=-1: must be at least 0."),
        (["--port=99999"], "--port=99999: must be at most 65,535."),
        (["--queue=0"], "--queue=0: must be at least 1."),
        (["--max_message_mb=many"], "--max-message-mb=many: must be a whole number"),
        (["--host=no.such.host.invalid", "--port=0"], "cannot listen on --host=no.such.host.invalid --port=0"),
        (["--policy.python=python3"], "--policy.python: run the server with it instead"),
        (['--rename_map={"observation.depth": "x"}'], "--rename_map: tiny gives no observation.depth"),
        (["--policy.path=nowhere.py:Name"], "there is no file"),
        (["--policy.kwargs.colour=red"], "the policy could not be loaded: TypeError"),
    ],
)
def test_a_mistake_gets_one_line_and_status_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in STEADY.items():
        monkeypatch.setenv(name, value)  # else it would start this process over
    policy = [] if arguments[0].startswith("--policy.path") else [f"--policy.path={THOUGHTFUL}"]
    assert run(["serve", *policy, TINY, *arguments]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert len(told.strip().splitlines()) == 1


def test_help_names_every_flag() -> None:
    done = run_cli("serve", "--help")
    assert done.returncode == 0
    for flag in ("--host", "--port", "--max-message-mb", "--queue", "--policy.path", "--env.type"):
        assert flag in done.stdout
    assert "--eval." not in done.stdout
