"""What cannot work is refused before any simulator starts, in one line that says what to do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from lerobot_checkpoints import edit_json, save_act
from lerobot_runs import benchmark, load
from proctor.errors import UsageError
from proctor.types import BenchmarkSpec

Checkpoint = Callable[[str], Path]


def complaint(path: Path | str, spec: BenchmarkSpec | None = None, **settings: Any) -> str:
    with pytest.raises(UsageError) as caught:
        load(path, spec, **settings)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture
def act(checkpoint: Checkpoint, tmp_path: Path) -> Path:
    return Path(shutil.copytree(checkpoint("act"), tmp_path / "act"))


def test_missing_weights(act: Path) -> None:
    weights = load_file(act / "model.safetensors")
    gone = sorted(weights)[:2]
    save_file({key: value for key, value in weights.items() if key not in gone}, act / "model.safetensors")
    message = complaint(act)
    assert "2 weights are missing" in message
    assert gone[0] in message


def test_unexpected_weights(act: Path) -> None:
    weights = load_file(act / "model.safetensors")
    save_file({**weights, "model.extra": weights[min(weights)].clone()}, act / "model.safetensors")
    assert "model.extra" in complaint(act)


def test_no_weights_at_all(act: Path) -> None:
    (act / "model.safetensors").unlink()
    assert "model.safetensors is missing" in complaint(act)


def test_missing_statistics(act: Path) -> None:
    (file,) = act.glob("policy_preprocessor_*normalizer*.safetensors")
    stats = load_file(file)
    save_file({key: value for key, value in stats.items() if not key.startswith("observation.state")}, file)
    message = complaint(act)
    assert "statistics" in message
    assert "observation.state" in message


def test_no_processors(act: Path) -> None:
    (act / "policy_preprocessor.json").unlink()
    assert "migrate_policy_normalization" in complaint(act)


def test_another_camera_with_the_rename_that_fits(tmp_path: Path) -> None:
    path = save_act(tmp_path / "top", train_steps=1, image_key="observation.images.top")
    message = complaint(path)
    assert "observation.images.top (3, 64, 64)" in message
    assert "observation.image (64, 64, 3)" in message
    rename = json.loads(message.partition("--rename_map='")[2].partition("'")[0])
    policy = load(path, benchmark().renamed(rename))
    assert policy.spec.observation_keys == ("observation.images.top", "observation.state")


def test_a_rename_saved_with_the_checkpoint_is_honoured(tmp_path: Path) -> None:
    path = save_act(tmp_path / "top", train_steps=1, image_key="observation.images.top")
    steps = json.loads((path / "policy_preprocessor.json").read_text())
    for step in steps["steps"]:
        if step.get("registry_name") == "rename_observations_processor":
            step["config"]["rename_map"] = {"observation.image": "observation.images.top"}
    (path / "policy_preprocessor.json").write_text(json.dumps(steps))
    assert set(load(path).spec.observation_keys or ()) == {"observation.image", "observation.state"}


def test_another_image_size(act: Path) -> None:
    message = complaint(act, benchmark(side=96))
    assert "(3, 64, 64)" in message
    assert "--env.observation_height=64 --env.observation_width=64" in message


def test_a_state_of_another_size(act: Path) -> None:
    config = json.loads((act / "config.json").read_text())
    config["input_features"]["observation.state"]["shape"] = [7]
    edit_json(act / "config.json", **config)
    assert "observation.state of shape (7,)" in complaint(act)


def test_actions_of_another_size(act: Path) -> None:
    config = json.loads((act / "config.json").read_text())
    config["output_features"]["action"]["shape"] = [7]
    edit_json(act / "config.json", **config)
    assert "actions of 7 numbers" in complaint(act)


def test_an_unknown_field(act: Path) -> None:
    message = complaint(act, overrides={"n_action_step": 5})
    assert "--policy.n_action_step" in message
    assert "Did you mean 'n_action_steps'?" in message


def test_a_value_that_the_config_refuses(act: Path) -> None:
    assert "n_action_steps" in complaint(act, overrides={"n_action_steps": 21})
    assert "chunk_size" in complaint(act, overrides={"chunk_size": "many"})


def test_a_type_that_this_lerobot_does_not_know(act: Path) -> None:
    edit_json(act / "config.json", type="gpt17")
    message = complaint(act)
    assert "'gpt17'" in message
    assert "act" in message


def test_a_directory_that_is_no_checkpoint(tmp_path: Path) -> None:
    assert "config.json" in complaint(tmp_path)


def test_a_hub_id_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    message = complaint("nobody/nothing")
    assert "nobody/nothing" in message
    assert "HF_HUB_OFFLINE" in message


def test_a_device_that_is_not_here(act: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert "no CUDA device" in complaint(act, device="cuda")
    assert "no such device" in complaint(act, device="gpu7")


def test_where_it_lies_does_not_matter_but_what_it_holds_does(act: Path, tmp_path: Path) -> None:
    first = load(act).spec.fingerprint
    moved = Path(shutil.copytree(act, tmp_path / "moved"))
    assert load(moved).spec.fingerprint == first
    assert load(moved, overrides={"n_action_steps": 5}).spec.fingerprint != first
    weights = load_file(moved / "model.safetensors")
    weights[min(weights)] += 1e-3
    save_file(weights, moved / "model.safetensors")
    assert load(moved).spec.fingerprint != first


def test_a_peft_adapter(act: Path, tmp_path: Path, checkpoint: Checkpoint) -> None:
    from lerobot.policies.factory import get_policy_class
    from peft import LoraConfig, get_peft_model

    base = checkpoint("act")
    policy = get_policy_class("act").from_pretrained(base)
    adapted = get_peft_model(policy, LoraConfig(r=2, target_modules=["linear1"], init_lora_weights=False))
    adapted.peft_config["default"].base_model_name_or_path = str(base)
    place = tmp_path / "adapter"
    adapted.save_pretrained(place)
    for file in (*base.glob("*.json"), *base.glob("policy_*")):
        shutil.copy(file, place)
    edit_json(place / "config.json", use_peft=True)
    assert "model.safetensors" not in {file.name for file in place.iterdir()}
    with_adapter, without = load(place), load(base)
    assert with_adapter.spec.fingerprint != without.spec.fingerprint
    assert any("lora" in name for name, _ in with_adapter._trial.forward.pool.new().policy.named_modules())
