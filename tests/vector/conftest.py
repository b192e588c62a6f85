"""Python's fork server and resource tracker live as long as their process; between tests they go, to be counted."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing import forkserver, resource_tracker
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def no_fork_server_after() -> Iterator[None]:
    yield
    server: Any = forkserver._forkserver  # type: ignore[attr-defined]
    tracker: Any = resource_tracker._resource_tracker
    server._stop()
    tracker._stop()
