"""A wire protocol is one entry of the registry: a client and a server speak it, and nothing else knows of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from proctor.errors import UsageError
from proctor.policies.baselines import ZeroPolicy
from proctor.policies.protocol import PolicySpec
from proctor.policies.remote import dialects
from proctor.policies.remote.dialects import DIALECTS, Dialect, Metadata, Reply, load_dialect
from proctor.policies.remote.policy import RemotePolicy, RemotePolicySettings
from proctor.serve.batcher import Batcher
from proctor.serve.server import Endpoint, WebsocketServer
from proctor.serve.session import ClientSession, PolicyNeeds
from proctor.types import BenchmarkSpec, Feature

BENCHMARK = BenchmarkSpec(name="bench", features={"x": Feature((1,), "float32")}, action_size=2)


class JsonServer:
    """Answers a greeting at once, and an observation with actions, both in JSON."""

    def greeting(self, metadata: Metadata) -> bytes | None:
        return None

    def read(self, data: bytes) -> Any:
        message = json.loads(data)
        return Reply(b'"hello"') if message == "hello" else {"x": np.asarray(message["x"], np.float32)}

    def answer(self, actions: NDArray[Any], seconds: float) -> bytes:
        return json.dumps(actions.tolist()).encode()


DIALECT = Dialect(load_dialect("openpi").client, JsonServer())


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DIALECTS, "json", f"{__file__}:DIALECT")


def server(protocol: str) -> tuple[WebsocketServer, ClientSession, Batcher]:
    policy = ZeroPolicy(BENCHMARK)
    needs = PolicyNeeds.of(policy.spec, BENCHMARK, ())
    batcher = Batcher(policy, 2, 4)
    endpoint = Endpoint("127.0.0.1", 0, 1 << 20, protocol=protocol)
    return WebsocketServer(batcher, needs, {}, endpoint), ClientSession(needs), batcher


def test_a_registered_dialect_is_served() -> None:
    made, session, batcher = server("json")
    batcher.start()
    try:
        assert asyncio.run(made._answer(session, b'"hello"')) == b'"hello"'
        assert asyncio.run(made._answer(session, b'{"x": [1]}')) == b"[[0.0, 0.0]]"
    finally:
        batcher.stop()


def test_a_registered_dialect_is_spoken_by_the_client() -> None:
    settings = RemotePolicySettings(type="remote", path="ws://127.0.0.1:1", protocol="json")
    policy = RemotePolicy.rebuild(settings, BENCHMARK, PolicySpec())
    assert type(policy._dialect) is type(DIALECT.client)


def test_a_dialect_without_a_server_side_is_refused() -> None:
    with pytest.raises(UsageError, match="proctor serve does not speak vla-eval"):
        server("vla-eval")


def test_every_dialect_loads() -> None:
    names = [name for name in DIALECTS if name != "json"]
    assert names == ["openpi", "vla-eval"]
    assert all(isinstance(dialects.load_dialect(name), Dialect) for name in names)
