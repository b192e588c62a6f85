"""What Proctor's own policy server and its client agree on, whatever dialect they speak.

A plain client never sees any of it: it is one more entry in the metadata, and keys that a client may send.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import proctor
from proctor.errors import UsageError
from proctor.policies.protocol import PolicySpec
from proctor.policies.remote.connection import Address

if TYPE_CHECKING:
    from proctor.policies.remote.policy import RemotePolicySettings

SERVED = "proctor"
"""In the metadata: version, the policy's spec, and what else decides its bits."""

PROMPT, RESET = "prompt", "reset"
"""The task in words, and whether an episode begins here; clients that are not Proctor send them too."""

EPISODE = "proctor/episode"
"""Text that is unique to an episode; when it changes, a new episode begins on the same connection."""

SEED = "proctor/seed"
"""The two words of the Philox key of the episode's generator."""

TASK = "proctor/task"
"""The episode's task, for policies that look at more than the prompt."""

WINDOW = "proctor/window"
"""How many steps each array holds, oldest first; more than one adds a leading axis."""

STEP = "proctor/step"
"""Which step of its episode a message is of, from 0: by this a client proves that it sends every step."""


def metadata_of(spec: PolicySpec, benchmark: str, identity: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata that each connection begins with; `identity` is the policy's and its machine's."""
    words = json.dumps(identity, sort_keys=True).encode()
    return {
        SERVED: {
            "version": proctor.__version__,
            "benchmark": benchmark,
            "identity": hashlib.sha256(words).hexdigest()[:32],
            "spec": spec.to_wire(),
        }
    }


def served_spec(said: Any, settings: RemotePolicySettings, address: Address, lanes: int) -> PolicySpec:
    """Return the spec of a served policy as its client's: the server's own, and what the way to it changes."""
    try:
        spec = PolicySpec.from_wire(said["spec"])
        where = {"served_batch": str(spec.batch), "served_identity": str(said["identity"])}
    except (KeyError, TypeError, ValueError, AttributeError):
        version = said.get("version") if isinstance(said, dict) else None
        raise UsageError(
            f"{address} runs Proctor {version}, this is {proctor.__version__}. "
            "Install the same version on both sides."
        ) from None
    wanted = settings.n_action_steps
    if wanted and spec.action_steps is not None and wanted > spec.action_steps:
        raise UsageError(
            f"--policy.n_action_steps={wanted}: {address} returns chunks of {spec.action_steps} actions."
        )
    fingerprint = spec.fingerprint
    if fingerprint is not None and any(settings.changes):
        words = json.dumps(settings.changes, sort_keys=True).encode()
        fingerprint = f"{fingerprint}:{hashlib.sha256(words).hexdigest()[:16]}"
    ours = {theirs: mine for mine, theirs in settings.keys.items()}
    looks_at = spec.observation_keys
    return replace(
        spec,
        observation_keys=None if looks_at is None else tuple(ours.get(key, key) for key in looks_at),
        action_steps=wanted or spec.action_steps,
        batch=1,
        lanes=lanes,
        fingerprint=fingerprint,
        identity={**spec.identity, **where},
    )
