"""Checkpoints that the tests share. Without lerobot these tests are not collected; `make test-lerobot` has it."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("lerobot") is None:
    collect_ignore_glob = ["*.py"]
else:
    # Before the first import of either: nothing is asked of the hub, and pictures can be drawn.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
    from proctor.benchmarks.rendering import find_renderer

    os.environ.update(find_renderer().env)
    # An installed plugin, here and in every process that is started.
    plugin = str(Path(__file__).parents[1] / "support" / "lerobot_plugin")
    sys.path.append(plugin)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), plugin)))
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function from a checkpoint's name to its directory; each is trained once."""
    from lerobot_checkpoints import save_act, save_diffusion
    from tiny_smolvla import save_smolvla

    makers: dict[str, Callable[[Path], Any]] = {
        "act": save_act,
        "ensemble": lambda place: save_act(place, temporal_ensemble_coeff=0.01, n_action_steps=1),
        "diffusion": save_diffusion,
        "smolvla": save_smolvla,
    }
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name) / "checkpoint"
            makers[name](made[name])
        return made[name]

    return get
