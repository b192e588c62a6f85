"""A hub id goes through `huggingface_hub`; what was downloaded before is found in `HF_HOME` without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from harness import digests, flags
from lerobot_runs import evaluate, settings_tree

Checkpoint = Callable[[str], Path]

REVISION = "0123456789abcdef0123456789abcdef01234567"


def test_a_checkpoint_in_the_hubs_cache(tmp_path: Path, checkpoint: Checkpoint) -> None:
    small = {"eval": {"n_episodes": 1}, "env": {"episode_length": 12}}
    place = tmp_path / "home/hub/models--someone--act"
    shutil.copytree(checkpoint("act"), place / "snapshots" / REVISION)
    (place / "refs").mkdir()
    (place / "refs/main").write_text(REVISION)
    tree = settings_tree(tmp_path / "hub", "someone/act", **small)
    env = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "proctor", "eval", *flags(tree)]
    subprocess.run(command, check=True, timeout=200, env=env)
    local = evaluate(tmp_path / "local", checkpoint("act"), **small)
    assert digests(tmp_path / "hub") == digests(local)
