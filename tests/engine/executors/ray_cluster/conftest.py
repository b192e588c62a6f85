"""A cluster for the tests, started once: three raylets, a core each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from raylets import Raylets


@pytest.fixture(scope="module")
def raylets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Raylets]:
    """Three raylets; the driver is on the first."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'proctor-eval[ray]'")
    cluster = Raylets(tmp_path_factory.mktemp("raylets") / "log")
    try:
        yield cluster
    finally:
        cluster.end()
