"""What these tests share. Without hf-libero they are not collected; `make test-libero` has it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from libero_assets import make_assets
from proctor.benchmarks.libero.assets import package_root
from proctor.errors import UsageError

try:
    package_root()
except UsageError:
    collect_ignore_glob = ["*.py"]
else:
    # Before the first import of either: nothing is asked of the hub, and pictures can be drawn.
    os.environ["HF_HUB_OFFLINE"] = "1"
    # LIBERO's configuration for trees that are gone tomorrow does not belong into the user's cache.
    _CACHE = tempfile.TemporaryDirectory(prefix="proctor-test-cache-")
    os.environ["XDG_CACHE_HOME"] = _CACHE.name
    from proctor.benchmarks.rendering import find_renderer

    os.environ.update(find_renderer().env)


@pytest.fixture(scope="session")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The miniature tree."""
    return make_assets(tmp_path_factory.mktemp("libero") / "assets")


@pytest.fixture
def hub_cache(tmp_path: Path) -> Callable[[Path], Path]:
    """Return a function that makes a home of the hub, with a tree downloaded into its cache."""

    def make(tree: Path) -> Path:
        home, revision = tmp_path / "hf-home", "0123456789abcdef0123456789abcdef01234567"
        repository = home / "hub" / "datasets--lerobot--libero-assets"
        (repository / "refs").mkdir(parents=True)
        (repository / "refs" / "main").write_text(revision)
        (repository / "blobs").mkdir()
        (repository / "snapshots").mkdir()
        (repository / "snapshots" / revision).symlink_to(tree, target_is_directory=True)
        return home

    return make
