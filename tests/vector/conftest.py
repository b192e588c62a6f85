"""Python's fork server and resource tracker live as long as their process; here they end with each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tiny_vectors import stop_fork_server, workers


@pytest.fixture(autouse=True)
def no_fork_server_after() -> Iterator[None]:
    yield
    left = workers()
    for worker in left:
        worker.kill()  # the fork server waits for them
    stop_fork_server()
    assert left == []
