"""A compact checkpoint: whole, or refused in a line; and known by everything that decides what it does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compact_checkpoints import made_checkpoint
from proctor.errors import UsageError
from proctor.policies.compact.checkpoint import CompactCheckpoint, CompactConfig, open_checkpoint
from proctor.policies.compact.network import CompactNetwork


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made_checkpoint().write(tmp_path)
    return tmp_path


def test_what_is_written_is_opened(folder: Path) -> None:
    made, found = made_checkpoint(), open_checkpoint(folder)
    assert found.config == made.config
    assert found.fingerprint == made.fingerprint


def _config(folder: Path, **changes: Any) -> None:
    told = json.loads((folder / "config.json").read_text())
    told.update(changes)
    (folder / "config.json").write_text(json.dumps(told))


def _weights(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    checkpoint = open_checkpoint(folder)
    weights = {name: tensor.copy() for name, tensor in checkpoint.weights.items()}
    change(weights)
    replace(checkpoint, weights=weights).write(folder)


def _poison(tensors: dict[str, Any]) -> None:
    tensors["first.weight"][0, 0] = np.nan


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda f: (f / "config.json").unlink(), "config.json"),
        (lambda f: (f / "model.safetensors").unlink(), "model.safetensors"),
        (lambda f: (f / "stats.safetensors").unlink(), "stats.safetensors"),
        (lambda f: (f / "config.json").write_text("{"), "compact checkpoint"),
        (lambda f: (f / "config.json").write_text("[]"), "compact checkpoint"),
        (lambda f: (f / "model.safetensors").write_bytes(b"\xff" * 40), "no safetensors file"),
        (lambda f: _config(f, type="act"), "type act, not compact"),
        (lambda f: _config(f, width=1 << 40), "width is 1099511627776"),
        (lambda f: _config(f, width=-1), "width is -1"),
        (lambda f: _config(f, n_action_steps=99), "more than the 4 of chunk_size"),
        (lambda f: _config(f, tasks=[]), "no tasks"),
        (lambda f: _config(f, tasks=[1]), "no text"),
        (lambda f: _config(f, width=9), "another shape"),
        (lambda f: _weights(f, lambda w: w.pop("last.bias")), "has no weight 'last.bias'"),
        (lambda f: _weights(f, lambda w: w.update(odd=np.zeros(1))), "a weight too many, 'odd'"),
        (lambda f: _weights(f, _poison), "NaN"),
    ],
)
def test_what_is_not_whole_is_refused_in_a_line(
    folder: Path, damage: Callable[[Path], object], words: str
) -> None:
    damage(folder)
    with pytest.raises(UsageError) as refused:
        open_checkpoint(folder)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_folder_above_is_told_apart(tmp_path: Path) -> None:
    inner = tmp_path / "pretrained_model"
    inner.mkdir()
    made_checkpoint().write(inner)
    with pytest.raises(UsageError, match=f"Use --policy.path={inner}"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: replace(c, config=replace(c.config, n_action_steps=1)),
        lambda c: replace(c, config=replace(c.config, tasks=(*c.config.tasks[1:], c.config.tasks[0]))),
        lambda c: replace(c, weights={**c.weights, "last.bias": c.weights["last.bias"] + 1}),
        lambda c: replace(c, statistics={**c.statistics, "action.max": c.statistics["action.max"] + 1}),
    ],
)
def test_another_policy_has_another_fingerprint(change: Callable[[CompactCheckpoint], CompactCheckpoint]) -> None:
    assert change(made_checkpoint()).fingerprint != made_checkpoint().fingerprint


def test_actions_stay_among_those_of_the_demonstrations() -> None:
    made = made_checkpoint(images=True)
    network = CompactNetwork(made)
    generator = np.random.default_rng(0)
    for _ in range(20):
        seen = {
            "observation.state": generator.normal(size=3) * 1e6,
            "observation.image": generator.integers(0, 256, (8, 8, 3), dtype=np.uint8),
        }
        chunk = network(seen, 1)
        assert chunk.shape == (4, 2)
        assert chunk.dtype == np.float32
        assert (chunk >= made.statistics["action.min"]).all()
        assert (chunk <= made.statistics["action.max"]).all()


def test_a_config_says_what_it_takes() -> None:
    config = made_checkpoint(images=True).config
    assert CompactConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    feature = config.to_json()["input_features"]["observation.image"]
    assert feature == {"type": "VISUAL", "shape": [3, 8, 8]}, "as LeRobot writes it: channels first"
