"""A checkpoint's folder is that folder, from wherever a run is continued, and never a repository of that name."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from harness import run_cli
from lerobot_runs import settings_tree
from proctor.config.load import build_settings
from proctor.config.plain_values import to_plain
from proctor.store.run_directory import RunDirectory


def test_a_relative_checkpoint_that_is_gone_is_never_asked_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (home / "outputs" / "train").mkdir(parents=True)
    monkeypatch.chdir(home)
    settings = build_settings(settings_tree(home / "run", "outputs/train"))
    (home / "run").mkdir()
    RunDirectory(home / "run").write_config(to_plain(settings))
    (home / "outputs").rename(home / "moved")
    with socket.create_server(("127.0.0.1", 0)) as hub:
        hub.settimeout(0.1)
        address = f"http://127.0.0.1:{hub.getsockname()[1]}"
        online = {"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0", "HF_ENDPOINT": address}
        online |= {"HF_HUB_ETAG_TIMEOUT": "1", "HF_HUB_DOWNLOAD_TIMEOUT": "1"}
        done = run_cli("eval", f"--config_path={home / 'run' / 'config.yaml'}", cwd=elsewhere, extra_env=online)
        assert done.returncode == 2
        assert f"--policy.path={home}/outputs/train: there is no such directory" in done.stderr
        with pytest.raises(TimeoutError):
            hub.accept()
