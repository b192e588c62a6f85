"""What goes with `--cluster.address`, and what does not."""

from __future__ import annotations

import re

from proctor.config.settings import Settings
from proctor.errors import UsageError

AUTO, LOCAL = "auto", "local"

_HOST_AND_PORT = re.compile(r"[^\s:/]+:\d+|\[[0-9A-Fa-f:.]+\]:\d+")


def check_cluster(settings: Settings) -> None:
    """Refuse an address that is none, and settings that a cluster cannot keep."""
    address = settings.cluster.address
    if address is None:
        return
    if address not in (AUTO, LOCAL) and not _HOST_AND_PORT.fullmatch(address):
        raise UsageError(f"--cluster.address={address}: must be auto, local or HOST:PORT.")
    if not settings.eval.use_async_envs:
        raise UsageError(
            "--eval.use_async_envs=false runs everything in this process; leave out --cluster.address."
        )
    if settings.eval.num_shards > 1:
        raise UsageError("--cluster.address and --eval.num_shards both split the plan; use one of them.")
