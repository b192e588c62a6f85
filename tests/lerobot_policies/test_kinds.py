"""Of LeRobot's kinds of policies the one of a checkpoint is imported; the others are there when asked for."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

_OPEN = """
import sys
from proctor.errors import UsageError
from proctor.policies.lerobot.checkpoint import load, open_checkpoint
def others():
    names = "fastwam", "groot", "pi0", "smolvla", "xvla"
    return [name for name in names if f"lerobot.policies.{name}.modeling_{name}" in sys.modules]
try:
    opened = open_checkpoint(sys.argv[1], {}, "cpu", False)
except UsageError as error:
    print("found:", error)
else:
    loaded = load(opened, keep_renames=True, fixed_prompts=False)
    print("found:", type(opened.config).__name__, type(loaded.policy).__name__, *others())
"""
_THE_REST = """
import lerobot.policies
assert "datasets" not in sys.modules  # groot's configuration is there, and its package alone needs the library
assert lerobot.policies.groot.GrootConfig.__name__ == "GrootConfig" and others() == ["groot"]
from lerobot.policies import PI0Config, make_policy
from lerobot.configs import PreTrainedConfig
from lerobot.policies.act.configuration_act import ACTConfig
assert lerobot.policies is sys.modules["lerobot.policies"]
assert lerobot.policies.ACTConfig is ACTConfig is type(opened.config)
assert PreTrainedConfig.get_choice_class("pi0") is PI0Config
assert not hasattr(lerobot.policies, "NoSuchPolicy")
print("found:", *others())
"""


def run(script: str, checkpoint: Path) -> list[str]:
    done = subprocess.run([sys.executable, "-c", script, str(checkpoint)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    marked = [line.partition("found: ") for line in done.stdout.splitlines()]
    return [found for before, mark, found in marked if mark and not before]  # LeRobot prints of its own


def test_one_kind_is_imported_and_the_others_when_they_are_asked_for(checkpoint: Callable[[str], Path]) -> None:
    alone, rest = run(_OPEN + _THE_REST, checkpoint("act"))
    assert alone == "ACTConfig ACTPolicy"
    assert rest == "fastwam groot pi0 smolvla xvla"


def test_a_step_of_another_kind_is_found(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    shutil.copytree(checkpoint("act"), place)
    file = place / "policy_preprocessor.json"
    document = json.loads(file.read_text())
    document["steps"].append({"registry_name": "pi0_new_line_processor", "config": {}})
    file.write_text(json.dumps(document))
    assert run(_OPEN, place) == ["ACTConfig ACTPolicy fastwam groot pi0 smolvla xvla"]


@pytest.mark.parametrize("kind", ["nothing", "../act", "act.modeling_act", "factory", "", 7])
def test_a_kind_that_is_not_lerobots_is_refused_with_all_that_are(
    checkpoint: Callable[[str], Path], tmp_path: Path, kind: object
) -> None:
    place = tmp_path / "checkpoint"
    shutil.copytree(checkpoint("act"), place)
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**config, "type": kind}))
    (line,) = run(_OPEN, place)
    assert f"is of type {kind!r}, which the installed lerobot does not know. It knows act, " in line
    assert all(f" {name}," in line for name in ("diffusion", "pi0", "smolvla", "vqbet"))
