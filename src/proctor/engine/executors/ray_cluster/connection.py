"""The way to a Ray cluster: found, or started on this machine, quiet, and left as it was."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from proctor.config.combinations import AUTO, LOCAL
from proctor.errors import UsageError

_SECONDS = 5.0


@contextlib.contextmanager
def connected(address: str, code: Path) -> Iterator[None]:
    """Be connected to a cluster, whose processes for us run with the files in `code`.

    Raises:
        UsageError: there is no such cluster, or it does not fit this process.
    """
    _check_reachable(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    if ray.is_initialized():
        raise UsageError(
            f"--cluster.address={address}: this process is connected to Ray already. Call ray.shutdown() first."
        )
    # Ray takes SIGTERM for itself; it is the run's.
    on_main_thread = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    options: dict[str, Any] = {"include_dashboard": False} if address == LOCAL else {}
    try:
        ray.init(
            address=address,
            runtime_env={"working_dir": str(code)},
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            **options,
        )
    except (RuntimeError, ValueError, OSError) as error:
        words = " ".join(str(error).split()) or type(error).__name__
        if address == AUTO and isinstance(error, ConnectionError):
            words = (
                "no Ray cluster runs here. Join one or start one with ray start, "
                "set RAY_ADDRESS, or use --cluster.address=local."
            )
        raise UsageError(f"--cluster.address={address}: {words}") from None
    finally:
        if on_main_thread:
            signal.signal(signal.SIGTERM, handler)
    _hush()
    try:
        yield
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Try the port: Ray itself would try for minutes, and then end this process."""
    where = os.environ.get("RAY_ADDRESS", AUTO) if address == AUTO else address
    host, _, port = where.rpartition(":")
    if where in (AUTO, LOCAL) or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS).close()
    except OSError as error:
        raise UsageError(
            f"--cluster.address={address}: nothing answers at {where} ({error}). "
            "Start the cluster with: ray start --head"
        ) from None


def _hush() -> None:
    """Keep Ray's own reports of nodes out of the display, which tells of them itself."""
    from ray._private import worker

    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda *_, **__: None
