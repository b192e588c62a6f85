"""A stranger's checkpoint runs nothing of its own, unless `--trust_remote_code` says that it may."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import flags
from hidden_policies import save_hidden
from lerobot_runs import load, settings_tree
from proctor.errors import UsageError


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return save_hidden(tmp_path / "checkpoint")


def add_step(checkpoint: Path, file: str, step: dict[str, Any]) -> None:
    content = json.loads((checkpoint / file).read_text())
    content["steps"].insert(0, step)
    (checkpoint / file).write_text(json.dumps(content))


def complaint(checkpoint: Path, **settings: Any) -> str:
    with pytest.raises(UsageError) as caught:
        load(checkpoint, **settings)
    message = str(caught.value)
    assert "\n" not in message
    assert "--trust_remote_code" in message
    return message


@pytest.mark.parametrize("file", ["policy_preprocessor.json", "policy_postprocessor.json"])
def test_a_step_that_starts_a_process_starts_none(file: str, checkpoint: Path, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    add_step(checkpoint, file, {"class": "subprocess.Popen", "config": {"args": ["touch", str(proof)]}})
    command = [sys.executable, "-m", "proctor", "eval", *flags(settings_tree(tmp_path / "run", checkpoint))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 2, done.stderr
    assert not proof.exists()
    assert "subprocess.Popen" in done.stderr
    assert "--trust_remote_code" in done.stderr


def test_a_module_that_a_step_names_is_not_even_imported(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proof = tmp_path / "proof"
    (tmp_path / "planted.py").write_text(f"import os\nos.mkdir({str(proof)!r})\n")
    monkeypatch.syspath_prepend(tmp_path)
    add_step(checkpoint, "policy_preprocessor.json", {"class": "planted.Step", "config": {}})
    assert "planted.Step" in complaint(checkpoint)
    assert not proof.exists()


@pytest.mark.parametrize("name", ["lerobot.processor.pipeline.Path", "lerobot.no_such.Step", "Step"])
def test_something_of_lerobots_that_is_no_step_is_refused(name: str, checkpoint: Path) -> None:
    add_step(checkpoint, "policy_preprocessor.json", {"class": name, "config": {}})
    assert name in complaint(checkpoint)


@pytest.mark.parametrize(
    "name",
    ["lerobot.processor.pipeline.IdentityProcessorStep", "lerobot_policy_hidden.processor_hidden.PluginStep"],
)
def test_steps_of_lerobot_and_of_installed_plugins_are_welcome(name: str, checkpoint: Path) -> None:
    add_step(checkpoint, "policy_preprocessor.json", {"class": name, "config": {}})
    assert load(checkpoint).spec.action_steps == 4


def save_backbone(folder: Path, proof: Path) -> None:
    """Save a tokenizer whose config has Python files beside it."""
    folder.mkdir()
    (folder / "config.json").write_text(
        json.dumps({"model_type": "own", "auto_map": {"AutoConfig": "configuration_own.Own"}})
    )
    (folder / "configuration_own.py").write_text(
        f"import os\nfrom transformers import PretrainedConfig\nos.makedirs({str(proof)!r}, exist_ok=True)\n"
        "class Own(PretrainedConfig):\n    model_type = 'own'\n"
    )


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import dynamic_module_utils

    # Where transformers copies such code to; not the user's.
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize("inside", [True, False])
def test_python_files_beside_a_backbone_do_not_run(inside: bool, checkpoint: Path, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    backbone = (checkpoint if inside else tmp_path) / "backbone"
    save_backbone(backbone, proof)
    overrides = {"backbone": str(backbone)}
    assert "configuration_own.py" in complaint(checkpoint, overrides=overrides)
    assert not proof.exists()
    load(checkpoint, overrides=overrides, trust_remote_code=True)
    assert proof.exists()


class Planted:
    def __init__(self, action: Callable[..., Any], *arguments: Any) -> None:
        self._call = (action, arguments)

    def __reduce__(self) -> Any:
        return self._call


@pytest.mark.parametrize("name", ["checkpoint/backbone.bin", "backbone.bin", "checkpoint/innocent.pickled"])
def test_a_pickle_calls_nothing(name: str, checkpoint: Path, tmp_path: Path) -> None:
    proof, weights = tmp_path / "proof", tmp_path / name
    torch.save(Planted(os.mkdir, str(proof)), weights)
    assert "mkdir" in complaint(checkpoint, overrides={"backbone": str(weights)})
    assert not proof.exists()
    load(checkpoint, overrides={"backbone": str(weights)}, trust_remote_code=True)
    assert proof.exists()


def test_a_pickle_of_tensors_is_read(checkpoint: Path) -> None:
    weights = checkpoint / "backbone.bin"
    torch.save({"weight": torch.ones(3), "bias": torch.nn.Parameter(torch.ones(2))}, weights)
    assert load(checkpoint, overrides={"backbone": str(weights)}).spec.fingerprint


def test_an_adapter_has_nothing_imported(checkpoint: Path) -> None:
    adapter = {"peft_type": "LORA", "auto_mapping": {"parent_library": "planted", "base_model_class": "X"}}
    (checkpoint / "adapter_config.json").write_text(json.dumps(adapter))
    assert "planted" in complaint(checkpoint)


def test_a_type_is_one_that_is_registered(checkpoint: Path) -> None:
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps({**config, "type": "subprocess.Popen"}))
    with pytest.raises(UsageError, match=r"subprocess\.Popen"):
        load(checkpoint)
