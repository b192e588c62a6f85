"""Python's fork server and resource tracker live as long as their process; here they end with each test."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing import forkserver, resource_tracker
from typing import Any

import pytest

from tiny_vectors import workers


@pytest.fixture(autouse=True)
def no_fork_server_after() -> Iterator[None]:
    yield
    left = workers()
    for worker in left:
        worker.kill()  # the fork server waits for them
    server: Any = forkserver._forkserver
    tracker: Any = resource_tracker._resource_tracker
    server._stop()
    tracker._stop()
    assert left == []
