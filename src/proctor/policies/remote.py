"""A policy behind a websocket: `--policy.path=ws://HOST:PORT`."""

from __future__ import annotations

from proctor.policies.protocol import Policy


class RemotePolicy(Policy):
    """A policy server's answers."""

    light = True
