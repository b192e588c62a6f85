"""What can be known of a LeRobot checkpoint without lerobot: its flags, and the words where it cannot run.

The policies themselves are tested in `tests/lerobot_policies`, by `make test-lerobot`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from proctor.benchmarks.metaworld.benchmark import MetaWorld
from proctor.config.load import build_settings, settings_from_flags
from proctor.config.plain_values import to_plain
from proctor.errors import UsageError
from proctor.policies.lerobot.checkpoint import check_lerobot
from proctor.policies.lerobot.policy import LeRobotPolicy, LeRobotSettings

ENV = ("--env.type=metaworld", "--env.task=reach-v3")


def policy(*flags: str) -> LeRobotSettings:
    settings = settings_from_flags([*ENV, *flags]).policy
    assert isinstance(settings, LeRobotSettings)
    return settings


def test_a_directory_and_a_hub_id_are_checkpoints(tmp_path: Path) -> None:
    assert policy(f"--policy.path={tmp_path}").type == "lerobot"
    assert policy("--policy.path=lerobot/act_metaworld").type == "lerobot"


@pytest.mark.parametrize("path", ["nowhere", "a/b/c", "/no/such/directory"])
def test_what_is_neither_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="there is no such directory, and it is neither a hub id"):
        settings_from_flags([*ENV, f"--policy.path={path}"])


def test_every_other_flag_is_a_field_of_the_checkpoints_config(tmp_path: Path) -> None:
    found = policy(
        f"--policy.path={tmp_path}", "--policy.n_action_steps=10", "--policy.use_amp=true",
        "--policy.rtc_config.enabled=false", "--policy.device=cuda:0,cuda:1", "--policy.batch_size=4",
    )  # fmt: skip
    assert found.overrides == {"n_action_steps": 10, "use_amp": True, "rtc_config": {"enabled": False}}
    assert (found.device, found.batch_size) == ("cuda:0,cuda:1", 4)


def test_overrides_survive_the_way_through_a_file(tmp_path: Path) -> None:
    flags = [*ENV, f"--policy.path={tmp_path}", "--policy.n_action_steps=10"]
    settings = settings_from_flags(flags)
    assert build_settings(to_plain(settings)) == settings
    again = to_plain(settings)
    again["policy"]["n_action_steps"] = 20
    changed = build_settings(again).policy
    assert isinstance(changed, LeRobotSettings)
    assert changed.overrides == {"n_action_steps": 20}


def test_trust_in_remote_code_reaches_the_policy(tmp_path: Path) -> None:
    assert not policy(f"--policy.path={tmp_path}").trust_remote_code
    assert policy(f"--policy.path={tmp_path}", "--trust_remote_code=true").trust_remote_code


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="LeRobot runs on this Python")
def test_a_python_that_is_too_old_for_lerobot(tmp_path: Path) -> None:
    spec = MetaWorld(settings_from_flags([*ENV, f"--policy.path={tmp_path}"]).env).spec
    with pytest.raises(UsageError) as caught:
        LeRobotPolicy.from_settings(policy(f"--policy.path={tmp_path}"), spec)
    assert "needs Python >= 3.12" in str(caught.value)
    assert "--policy.python=" in str(caught.value)


@pytest.mark.parametrize("version", ["0.4.4", "0.5.0rc1", "0.6.1", "0.10.0"])
def test_a_lerobot_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 12, 0))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    if version != "0.4.4":
        check_lerobot()
        return
    with pytest.raises(UsageError, match=r"has lerobot 0\.4\.4; at least 0\.5 is needed"):
        check_lerobot()
