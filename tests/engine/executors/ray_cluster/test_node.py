"""A node's folder: cleared at the end, also after a process that could not do it itself."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from proctor.engine.executors.ray_cluster.node import node_folder


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))


def test_logs_that_say_something_stay_and_all_else_goes() -> None:
    with node_folder("run") as folder:
        for name in ("files/0/weights", "videos/a_0/x.mp4", "logs/host.log", "logs/worker-0.log"):
            (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
            (folder.path / name).write_text("something" if name != "logs/worker-0.log" else "")
        assert folder.log_ends() == {"host.log": b"something"}
    left = [file.name for file in folder.path.rglob("*") if file.is_file()]
    assert sorted(left) == ["host.log", "lock"]


def test_a_folder_without_logs_goes_as_a_whole() -> None:
    with node_folder("run") as folder:
        folder.files.mkdir()
    assert not folder.path.exists()


def test_what_a_dead_process_left_is_cleared_and_what_a_living_one_has_is_not() -> None:
    with node_folder("alive") as alive:
        alive.files.mkdir()
        dead = alive.path.with_name("dead") / "files"
        dead.mkdir(parents=True)
        with node_folder("another"):
            assert alive.files.exists()
            assert not dead.exists()
