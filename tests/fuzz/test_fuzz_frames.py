"""Websocket frames: to a policy server of ours, and from anybody's server to our client, in both dialects."""

from __future__ import annotations

import asyncio
import contextlib
import io
import math
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgpack
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection

from fuzz.bench import IMAGE, STATE, FuzzSettings, OneStep, Still
from fuzz.inputs import MARKS, inputs
from fuzz.sandbox import Sandbox
from fuzz.surface import Surface, Trial
from proctor.config.values import validated
from proctor.engine.policy_session import PolicySession, answer
from proctor.errors import PolicyError, PolicyHostError, PolicyLostError, UsageError
from proctor.policies.protocol import PolicySpec
from proctor.policies.remote.handshake import EPISODE, SEED, STEP, TASK, WINDOW, metadata_of
from proctor.policies.remote.messages import MalformedMessage, pack, unpack
from proctor.policies.remote.policy import RemotePolicy, RemotePolicySettings
from proctor.serve.batcher import Batcher
from proctor.serve.server import Endpoint, WebsocketServer
from proctor.serve.session import ClientSession, PolicyNeeds, Refusal
from proctor.types import Episode, Task
from servers import answering

pytestmark = MARKS

_BENCHMARK = OneStep(FuzzSettings(type="fuzz", task="a"))
_SPEC = _BENCHMARK.spec
_TASK = Task("a", 0, "a", "do a", 1)


class Looking(Still):
    """One that is shown two steps, and pictures."""

    spec = PolicySpec(observation_keys=(STATE, IMAGE), observation_offsets=(-1, 0), fingerprint="looking")


_POLICIES = (Still(), Looking())
_DTYPES = (
    "<f8",
    "<f4",
    "<f2",
    "<i8",
    "|u1",
    "|b1",
    ">f8",
    "|O",
    "O",
    "<M8[s]",
    "<U2",
    "|S3",
    "|V8",
    "f8,f8",
    "<c16",
    "",
    7,
)
_KEYS = (
    STATE,
    IMAGE,
    "prompt",
    "reset",
    EPISODE,
    SEED,
    STEP,
    TASK,
    WINDOW,
    "actions",
    "action",
    "payload",
    "type",
)


_WHOLE = st.one_of(st.integers(-(2**63), 2**64 - 1), st.sampled_from((0, 1, 2, -1, 2**31, 2**64 - 1)))
_PLAIN = st.one_of(st.none(), st.booleans(), _WHOLE, st.floats(), st.text(max_size=8), st.binary(max_size=8))


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """Draw a map that says it is an array, and is one or not."""
    if draw(st.booleans()):
        shape = draw(st.sampled_from(((3,), (8, 6, 3), (2, 3), (2, 8, 6, 3), (1, 2), (2,), (), (0,))))
        kind = draw(st.sampled_from(("<f8", "<f4", "|u1", "<i8", "|b1", "<f2")))
        array = np.zeros(shape, kind)
        if draw(st.booleans()) and array.size and array.dtype.kind == "f":
            array.reshape(-1)[0] = draw(st.sampled_from((math.nan, math.inf, -math.inf, 1e-7, 6e4)))
        return array
    spelled = {
        "__ndarray__": True,
        "data": draw(st.one_of(st.binary(max_size=24), st.none(), st.just("text"), st.integers())),
        "dtype": draw(st.sampled_from(_DTYPES)),
        "shape": draw(
            st.one_of(
                st.lists(st.integers(-1, 4), max_size=4),
                st.sampled_from(([2**62, 4], [2**63], [0, 2**62], [1] * 40, "3", None, [3.0], [True], [[3]], {})),
            )
        ),
    }
    if draw(st.booleans()):
        del spelled[draw(st.sampled_from(sorted(spelled)))]
    if not draw(st.integers(0, 5)):
        spelled = {"__npgeneric__": True, "data": draw(_PLAIN), "dtype": draw(st.sampled_from(_DTYPES))}
    return {key.encode(): value for key, value in spelled.items()} if draw(st.booleans()) else spelled


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.one_of(st.sampled_from(_KEYS), st.text(max_size=4), st.binary(max_size=4), st.integers(-1, 2))
    return st.one_of(inner, st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3))


_VALUES = _nested(_nested(st.one_of(_PLAIN, arrays())))


@st.composite
def questions(draw: st.DrawFn) -> Any:
    """Draw what a client sends: a right message, changed here and there."""
    message: dict[Any, Any] = {STATE: np.zeros(3), IMAGE: np.zeros((8, 6, 3), np.uint8), "prompt": "do a", STEP: 0}
    if draw(st.booleans()):
        message[TASK] = {name: getattr(_TASK, name) for name in _TASK.__slots__}
    if draw(st.booleans()):
        return message
    for _ in range(draw(st.integers(0, 3))):
        key = draw(st.sampled_from(_KEYS))
        value = draw(
            st.one_of(_VALUES, arrays(), st.sampled_from(([1, 2], [2**64 - 1, 0], [-1, 0], 2, "x", True)))
        )
        message[key] = value
    if draw(st.booleans()):
        message.pop(draw(st.sampled_from(sorted(message))))
    return message


_BOMBS = (
    b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\x91" * 5000, b"\x81\xa1a" * 5000, b"\xc6\xff\xff\xff\xff",
    b"\xdd\x00\x0f\x00\x00" + b"\x90" * 100_000, b"\xc1", b"", b"\xc7\x00\x01", b"\xd6\xff\x00\x00\x00\x00",
    b"\xc7\x0c\xff" + b"\xff" * 12, b"\xc0" * 100, b"\xd9\x02\xff\xff", b"\x81\x90\x01", b"\x81\xc4\x01\x00\x01",
    struct.pack(">Bd", 0xCB, math.nan), b"\x82\xa1a\x01\xa1a\x02", b"\x81\x81\x01\x02\x03",
)  # fmt: skip


def frames(messages: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes | str]:
    """Return messages as they travel: whole, damaged, or of another kind."""
    whole = st.builds(_packed, messages, st.sampled_from(("bytes", "text")))
    flipped = st.builds(_flipped, whole, st.integers(0, 10**6), st.integers(0, 255))
    cut = st.builds(lambda data, place: data[: place % (len(data) + 1)], whole, st.integers(0, 10**6))
    return st.one_of(*[whole] * 14, flipped, cut, st.sampled_from(_BOMBS), st.binary(max_size=30), st.text())


def _packed(message: Any, spelling: Any) -> bytes:
    try:
        return pack(message, spelling)
    except (TypeError, ValueError, OverflowError):  # half a character, a number too large
        return msgpack.packb({"prompt": "x"})


def _flipped(data: bytes, place: int, value: int) -> bytes:
    place %= len(data) or 1
    return data[:place] + bytes([value]) + data[place + 1 :]


class Server:
    """A policy server of ours in a thread, with what it writes to standard error."""

    def __init__(self, policy: Still) -> None:
        self.policy = policy
        self.needs = PolicyNeeds.of(policy.spec, _SPEC, [_TASK])
        self._server = WebsocketServer(
            Batcher(policy, 2, 16),
            self.needs,
            metadata_of(policy.spec, "fuzz", {}),
            Endpoint("127.0.0.1", 0, 1 << 20),
        )
        self.port = 0

    @contextlib.contextmanager
    def running(self) -> Iterator[Server]:
        loop, ready = asyncio.new_event_loop(), threading.Event()

        async def serve() -> None:
            self._ending = asyncio.Event()
            server = await self._server._listen()
            self._server._batcher.start()
            self.port = next(iter(server.sockets)).getsockname()[1]
            ready.set()
            await self._ending.wait()
            self._server._batcher.stop()
            server.close()
            await server.wait_closed()

        thread = threading.Thread(target=lambda: (loop.run_until_complete(serve()), loop.close()))
        thread.start()
        ready.wait()
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(self._ending.set)
            thread.join()


def ask_session(trial: Trial, policy: Still, frames: list[bytes | str]) -> None:
    """Give frames to a session, without a socket in between."""
    session, seat = (
        ClientSession(PolicyNeeds.of(policy.spec, _SPEC, [_TASK])),
        PolicySession(policy, Episode(_TASK, 0, 0)),
    )
    trial.status = "answered"
    for frame in frames:
        try:
            if isinstance(frame, str):
                raise Refusal("text")
            question = session.read(unpack(frame))
        except (Refusal, MalformedMessage) as error:
            trial.status, trial.refused = "refused", True
            _one_line(trial, str(error))
            return
        answer(policy, 2, [seat], [question.window])


def ask_server(trial: Trial, server: Server, frames: list[bytes | str], fragments: bool) -> None:
    """Send frames over a socket, whole or in fragments; a good question afterwards is answered."""
    trial.status = "answered"
    with _standard_error(trial), _connected(server) as connection:
        connection.recv(timeout=30)
        for frame in frames:
            try:
                connection.send([frame[:3], frame[3:5], frame[5:]] if fragments and frame else frame)
                reply = connection.recv(timeout=30)
            except ConnectionClosed as closed:
                trial.status, trial.refused = f"closed {closed.rcvd.code if closed.rcvd else 1006}", True
                if closed.rcvd is None:
                    trial.fault("the server hangs up without a word")
                break
            if isinstance(reply, str):
                trial.status, trial.refused = "refused", True
                _one_line(trial, reply)
                if reply.startswith("this message cannot be read"):
                    trial.fault("the server's net was needed", reply)
                break
    with _connected(server) as connection:
        connection.recv(timeout=30)
        good = {STATE: np.zeros(3), IMAGE: np.zeros((8, 6, 3), np.uint8), "prompt": "do a", STEP: 0}
        connection.send(pack(good))
        if not isinstance(connection.recv(timeout=30), bytes):
            trial.fault("the next client is not answered")


def _connected(server: Server) -> Any:
    url = f"ws://127.0.0.1:{server.port}"
    return connect(url, compression=None, max_size=None, proxy=None, ping_interval=None)


class Stranger:
    """A server that sends what it is told to, to whoever comes."""

    def __init__(self) -> None:
        self.frames: list[bytes | str] = []
        self.speaks_first = True

    def __call__(self, connection: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed, TimeoutError):
            for number, frame in enumerate(self.frames):
                if number or not self.speaks_first:
                    connection.recv(timeout=5)
                connection.send(frame)
            connection.recv(timeout=5)


def ask_stranger(trial: Trial, url: str, stranger: Stranger, protocol: str, frames: list[bytes | str]) -> None:
    """Let our client talk to a server that answers with these frames."""
    stranger.frames, stranger.speaks_first = frames, protocol == "openpi"
    tree = {"type": "remote", "path": url, "protocol": protocol, "timeout": 2, "reconnect": 0}
    settings = validated("policy.", RemotePolicySettings, tree)
    trial.status = "answered"
    with _standard_error(trial, allowed="waiting for "):
        try:
            policy = RemotePolicy.from_settings(settings, _SPEC)
            seat = PolicySession(policy, Episode(_TASK, 0, 0))
            observation = {STATE: np.zeros(3), IMAGE: np.zeros((8, 6, 3), np.uint8)}
            window = tuple(observation for _ in policy.spec.observation_offsets)
            answer(policy, 2, [seat], [window])
            seat.memory.close()
        except (UsageError, PolicyError, PolicyHostError, PolicyLostError) as error:
            trial.status, trial.refused = type(error).__name__, True
            _one_line(trial, str(error))


def _one_line(trial: Trial, words: str) -> None:
    trial.heard(words)
    if len(words) > 2000 or "\n" in words or not words.strip():
        trial.fault("words that are no line", words[:2000])


@contextlib.contextmanager
def _standard_error(trial: Trial, allowed: str = "refused a client: ") -> Iterator[None]:
    text, old = io.StringIO(), sys.stderr
    sys.stderr = text
    try:
        yield
    finally:
        sys.stderr = old
    trial.heard(text.getvalue())
    if any(line and not line.startswith(allowed) for line in text.getvalue().splitlines()):
        trial.fault("something is written to standard error", text.getvalue()[:2000])


def _greetings(protocol: str) -> st.SearchStrategy[Any]:
    """Return what a server says first: right, of Proctor's own kind, or anything."""
    served = metadata_of(_POLICIES[0].spec, "fuzz", {})
    spec = st.dictionaries(st.sampled_from(sorted(PolicySpec.__dataclass_fields__)), _VALUES, max_size=3)
    changed = spec.map(
        lambda fields: {"proctor": {**served["proctor"], "spec": {**served["proctor"]["spec"], **fields}}}
    )
    metadata = st.one_of(st.just({"robot": "x"}), st.just(served), changed, st.just({"proctor": 7}), _VALUES)
    if protocol == "openpi":
        return metadata
    version = st.one_of(st.just(1), st.just(1), _VALUES)
    payloads = st.builds(lambda number, more: {"protocol_version": number, "more": more}, version, metadata)
    return _enveloped("hello", st.one_of(payloads, metadata))


def _answers(protocol: str) -> st.SearchStrategy[Any]:
    good = st.sampled_from((np.zeros((1, 2)), np.zeros(2), np.zeros((50, 2), np.float32), [[0.0, 0.0]], [0, 0]))
    odd = st.sampled_from(
        ([[1], [1, 2]], np.zeros((0, 2)), np.zeros((1, 3)), np.full((1, 2), np.nan), [[]], [[[0]]], {})
    )
    actions = st.one_of(good, good, odd, _VALUES, arrays())
    payloads = st.builds(
        lambda key, value: {key: value}, st.sampled_from(("actions", "action", "Actions")), actions
    )
    return payloads if protocol == "openpi" else _enveloped("action", payloads)


def _enveloped(kind: str, payloads: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    kinds = st.one_of(st.just(kind), st.just(kind), st.sampled_from(("error", "hello", "action", "", None, 7)))
    whole = st.builds(lambda kind, payload: {"type": kind, "payload": payload, "seq": 0}, kinds, payloads)
    return st.one_of(whole, whole, whole, _VALUES)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[str, str, list[bytes | str]]:
    """Draw who is talked to, how, and which frames."""
    side = draw(st.sampled_from(("session", "session", "server", "client")))
    if side != "client":
        return side, "openpi", draw(st.lists(frames(questions()), min_size=1, max_size=2))
    protocol = draw(st.sampled_from(("openpi", "vla-eval")))
    greeting = draw(frames(_greetings(protocol)))
    if draw(st.booleans()):  # often right, so that there is a second frame
        right: Any = {"robot": "x"}
        right = right if protocol == "openpi" else {"type": "hello", "payload": {"protocol_version": 1}}
        greeting = pack(right, "text")
    return side, protocol, [greeting, draw(frames(_answers(protocol)))]


def test_no_frame_upsets_a_server_or_a_client(sandbox: Sandbox, surface: Callable[..., Surface]) -> None:
    # A connection's threads, and those of the strangers' server, may still be on their way out.
    websockets, stranger, number = surface("frames", threads=2), Stranger(), 0
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Server(policy).running()) for policy in _POLICIES]
        url = stack.enter_context(answering(stranger))

        @inputs(3000)
        @given(conversations())
        def each(conversation: tuple[str, str, list[bytes | str]]) -> None:
            nonlocal number
            number += 1
            side, protocol, sent = conversation
            with websockets.trial((side, protocol, [frame[:200] for frame in sent])) as trial:
                if side == "session":
                    ask_session(trial, _POLICIES[number % 2], sent)
                elif side == "server":
                    ask_server(trial, servers[number % 2], sent, fragments=not number % 3)
                else:
                    ask_stranger(trial, url, stranger, protocol, sent)

        websockets.drive(each)
