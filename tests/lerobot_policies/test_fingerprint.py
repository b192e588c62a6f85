"""A policy's fingerprint is that of contents: the same wherever they lie, another as soon as one bit differs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from harness import flags
from hidden_policies import save_hidden
from lerobot_checkpoints import edit_json
from lerobot_runs import load, settings_tree

Checkpoint = Callable[[str], Path]


def replace_in(folder: Path, old: str, new: str) -> None:
    for file in folder.glob("*.json"):
        file.write_text(file.read_text().replace(old, new))


@pytest.fixture(scope="module")
def smolvla(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str | None]:
    """A SmolVLA with its backbone beside it, and its fingerprint."""
    place = checkpoint("smolvla")
    return place, load(place).spec.fingerprint


def copied(smolvla: Path, place: Path) -> tuple[Path, Path]:
    """Copy a checkpoint and its backbone, and let the one name the other where it is now."""
    backbone = Path(shutil.copytree(smolvla.parent / "backbone", place / "elsewhere"))
    own = Path(shutil.copytree(smolvla, place / "copy"))
    replace_in(own, str(smolvla.parent / "backbone"), str(backbone))
    return own, backbone


def test_a_checkpoint_and_its_backbone_in_other_folders_are_the_same(
    smolvla: tuple[Path, str], tmp_path: Path
) -> None:
    own, backbone = copied(smolvla[0], tmp_path)
    assert str(backbone) in (own / "config.json").read_text()
    assert load(own).spec.fingerprint == smolvla[1]


def test_another_backbone_or_tokenizer_outside_the_checkpoint_is_another_policy(
    smolvla: tuple[Path, str], tmp_path: Path
) -> None:
    own, backbone = copied(smolvla[0], tmp_path)
    found = [load(own).spec.fingerprint]
    for file in ("tokenizer.json", "config.json", "processor_config.json"):
        with (backbone / file).open("a") as content:
            content.write("\n")
        found.append(load(own).spec.fingerprint)
    assert len(set(found)) == len(found)


def test_a_backbone_named_by_a_flag_counts_by_content(smolvla: tuple[Path, str], tmp_path: Path) -> None:
    own, backbone = copied(smolvla[0], tmp_path)
    again = Path(shutil.copytree(backbone, tmp_path / "again"))
    specs = [load(own, overrides={"vlm_model_name": str(place)}).spec for place in (backbone, again)]
    assert specs[0].fingerprint == specs[1].fingerprint == smolvla[1]
    assert specs[0].identity == specs[1].identity


def test_a_backbone_in_the_hubs_cache_counts_by_content(smolvla: tuple[Path, str], tmp_path: Path) -> None:
    """In processes of their own: the hub's library reads where its cache is only once."""
    own, backbone = copied(smolvla[0], tmp_path)
    replace_in(own, str(backbone), "someone/backbone")
    found = []
    for extra in ("", "\n"):
        home = tmp_path / f"home{len(extra)}"
        repository = home / "hub/models--someone--backbone"
        snapshot = repository / "snapshots" / ("0123456789abcdef" * 3)[:40]
        shutil.copytree(backbone, snapshot)
        with (snapshot / "tokenizer.json").open("a") as content:
            content.write(extra)
        (repository / "refs").mkdir()
        (repository / "refs/main").write_text(snapshot.name)
        code = (
            "import sys; sys.path.insert(0, 'tests/support'); from lerobot_runs import load; "
            f"print('fingerprint', load({str(own)!r}).spec.fingerprint)"
        )
        env = {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1"}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        found.append(done.stdout.partition("fingerprint ")[2].strip())
    assert found[0] == smolvla[1]
    assert found[1] != smolvla[1]


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    """A PEFT adapter, and the policy that it adapts beside it."""
    from lerobot.policies.factory import get_policy_class
    from peft import LoraConfig, get_peft_model

    base = save_hidden(tmp_path / "base")
    policy = get_policy_class("hidden").from_pretrained(base)
    adapted = get_peft_model(policy, LoraConfig(r=2, target_modules=["layer"], init_lora_weights=False))
    adapted.peft_config["default"].base_model_name_or_path = str(base)
    place = tmp_path / "adapter"
    adapted.save_pretrained(place)
    for file in (*base.glob("*.json"), *base.glob("policy_*")):
        shutil.copy(file, place)
    edit_json(place / "config.json", use_peft=True)
    return place


def test_the_policy_that_an_adapter_adapts_counts_by_content(adapter: Path, tmp_path: Path) -> None:
    first = load(adapter).spec.fingerprint
    moved = Path(shutil.copytree(tmp_path / "base", tmp_path / "moved"))
    edit_json(adapter / "adapter_config.json", base_model_name_or_path=str(moved))
    assert first is not None
    assert load(adapter).spec.fingerprint == first
    weights = load_file(moved / "model.safetensors")
    weights[min(weights)] += 1e-3
    save_file(weights, moved / "model.safetensors")
    assert load(adapter).spec.fingerprint != first


def test_a_folder_that_has_a_words_name_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = save_hidden(tmp_path / "checkpoint")
    first = load(checkpoint).spec.fingerprint
    for word in ("hidden", "nothing", "cpu"):
        shutil.copytree(checkpoint, tmp_path / "here" / word)
    monkeypatch.chdir(tmp_path / "here")
    assert load(checkpoint).spec.fingerprint == first


def test_notes_for_people_do_not_count_but_any_other_file_does(tmp_path: Path) -> None:
    checkpoint = save_hidden(tmp_path / "checkpoint")
    first = load(checkpoint).spec.fingerprint
    (checkpoint / "README.md").write_text("a policy")
    assert load(checkpoint).spec.fingerprint == first
    (checkpoint / "vocabulary.xyz").write_text("a b c")
    assert load(checkpoint).spec.fingerprint != first


def run(output: Path, checkpoint: Path, **env: str) -> subprocess.CompletedProcess[str]:
    small: dict[str, Any] = {"eval": {"n_episodes": 1, "batch_size": 1}, "env": {"task": "reach-v3"}}
    tree = settings_tree(output, checkpoint, **small)
    command = [sys.executable, "-m", "proctor", "eval", *flags(tree)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, env={**os.environ, **env})


def test_a_run_is_not_continued_with_another_backbone(smolvla: tuple[Path, str], tmp_path: Path) -> None:
    own, backbone = copied(smolvla[0], tmp_path)
    assert run(tmp_path / "run", own).returncode == 0
    config = json.loads((backbone / "config.json").read_text())
    config["text_config"]["rope_theta"] = 5000.0
    (backbone / "config.json").write_text(json.dumps(config))
    again = run(tmp_path / "run", own)
    assert again.returncode == 2
    assert "policy.fingerprint" in again.stderr
