"""A policy runs on the device that was asked for, or nobody is left in doubt where it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from harness import flags
from hidden_policies import save_hidden
from lerobot_checkpoints import edit_json
from lerobot_runs import load, settings_tree
from proctor.errors import UsageError

without_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")


@pytest.mark.parametrize("device", ["mps", "xpu", "xpu:0", "meta", pytest.param("cuda", marks=without_cuda)])
def test_a_device_that_policies_cannot_run_on_is_refused_in_one_line(device: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load(save_hidden(tmp_path / "checkpoint"), device=device)
    message = str(caught.value)
    assert message.startswith(f"--policy.device={device}: ")
    assert "Use --policy.device=cpu" in message
    assert "\n" not in message


def test_the_command_ends_before_any_simulator_starts(tmp_path: Path) -> None:
    tree = settings_tree(tmp_path / "run", save_hidden(tmp_path / "checkpoint"), policy={"device": "mps"})
    done = subprocess.run(
        [sys.executable, "-m", "proctor", "eval", *flags(tree)], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 2, done.stderr
    assert "proctor: --policy.device=mps" in done.stderr


@without_cuda
@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps", "xpu"])
def test_a_checkpoint_that_says_another_device_runs_on_the_cpu_with_a_note(device: str, tmp_path: Path) -> None:
    checkpoint = save_hidden(tmp_path / "checkpoint")
    edit_json(checkpoint / "config.json", device=device)
    spec = load(checkpoint, device=None).spec
    assert spec.identity["device"] == "cpu"
    assert any(f"device={device}" in note and "it runs on cpu" in note for note in spec.notes), spec.notes
    assert not load(checkpoint, device="cpu").spec.notes


@without_cuda
def test_the_note_is_seen(tmp_path: Path) -> None:
    checkpoint = save_hidden(tmp_path / "checkpoint")
    edit_json(checkpoint / "config.json", device="cuda")
    small = {"eval": {"n_episodes": 1, "batch_size": 1}, "env": {"task": "reach-v3"}, "display": "plain"}
    command = [
        sys.executable,
        "-m",
        "proctor",
        "eval",
        *flags(settings_tree(tmp_path / "run", checkpoint, **small)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "says device=cuda" in " ".join((done.stdout + done.stderr).split())


def test_a_checkpoint_that_says_cpu_has_nothing_to_say(tmp_path: Path) -> None:
    assert load(save_hidden(tmp_path / "checkpoint"), device=None).spec.notes == ()


@without_cuda
def test_a_device_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such device"):
        load(save_hidden(tmp_path / "checkpoint"), device="gpu7")
