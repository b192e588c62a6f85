"""The command in a report runs the same evaluation again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from harness import tiny_tree
from proctor.config.load import build_settings, settings_from_flags
from proctor.config.plain_values import to_plain
from proctor.report.page.settings import command_of


def stored(**tree: Any) -> dict[str, Any]:
    """Return settings as `config.yaml` has them."""
    plain: dict[str, Any] = to_plain(build_settings(tree))
    return {key: value for key, value in plain.items() if key not in ("output_dir", "resume", "display")}


METAWORLD: dict[str, Any] = {"type": "metaworld", "task": "easy"}


@pytest.mark.parametrize(
    "tree",
    [
        {"policy": {"type": "expert"}, "env": METAWORLD},
        {"policy": {"type": "random"}, "env": {**METAWORLD, "obs_type": "state", "one_hot": True}, "seed": 7},
        {
            "policy": {
                "path": "user/checkpoint",
                "n_action_steps": 10,
                "device": "cpu",
                "note": "007",
                "deep": {"er": 1e-5},
            },
            "env": METAWORLD,
            "rename_map": {"observation.image": "it's a 'name'; rm -rf $HOME"},
            "eval": {"n_episodes": 3, "use_async_envs": True, "stop_grace": 2.5},
            "trust_remote_code": True,
            "job_name": "two words",
        },
        {
            "policy": {"type": "zero"},
            "env": {**METAWORLD, "prompts": "/tmp/with space.yaml"},
            "limits": {"step": 9},
        },
    ],
)
def test_the_command_means_the_settings_of_the_run(tree: dict[str, Any]) -> None:
    settings = stored(**tree)
    command = command_of(settings)
    assert command is not None
    program, subcommand, *flags = shlex.split(command.replace("\\\n", ""))
    assert (program, subcommand) == ("proctor", "eval")
    assert to_plain(settings_from_flags(flags)) == {
        **settings,
        "output_dir": None,
        "resume": None,
        "display": "auto",
    }


def test_what_has_its_default_is_left_out() -> None:
    command = command_of(stored(policy={"type": "expert"}, env=METAWORLD))
    assert command == "proctor eval \\\n  --policy.type=expert \\\n  --env.type=metaworld \\\n  --env.task=easy"


def test_files_of_the_user_are_named_and_not_run(tmp_path: Path) -> None:
    settings = stored(**tiny_tree(tmp_path / "run", eval={"shard_id": 1, "num_shards": 2}))
    settings["env"]["type"] = f"{tmp_path / 'gone.py'}:Tiny"
    command = command_of(settings)
    assert command is not None
    assert "gone.py:Tiny" in command
    assert "shard" not in command


def test_a_live_object_has_no_command() -> None:
    assert command_of({"policy": {"type": "python", "path": "live:Mine"}, "env": METAWORLD}) is None
