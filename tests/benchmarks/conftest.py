"""What the tests of several suites share."""

from __future__ import annotations

import pytest

from proctor.benchmarks.rendering import Renderer, find_renderer
from proctor.errors import NoPicturesError


@pytest.fixture(scope="session")
def renderer() -> Renderer:
    """Return what draws here; tests that need it are skipped where nothing does."""
    try:
        return find_renderer()
    except NoPicturesError as error:
        pytest.skip(str(error))
