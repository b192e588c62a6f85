"""Every command in LeRobot's documentation, Makefile and CI is understood here, or refused in one line."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from proctor.config.lerobot_fields import ENVS, EVALUATION
from proctor.config.load import settings_from_flags
from proctor.config.plain_values import to_plain
from proctor.config.registry import BENCHMARKS
from proctor.errors import UsageError

EVAL_FIELDS = ("n_episodes", "batch_size", "use_async_envs", "recording", "recording_repo_id", "recording_private")
LIST = Path(__file__).with_name("lerobot_commands.txt")
LOCAL = ("pi05_libero_finetuned",)
"""Checkpoints that a command takes from the current directory."""


def commands() -> tuple[list[list[str]], list[list[str]]]:
    """Return the flags of the commands for environments that are here, and of the others."""
    ours, others = LIST.read_text().split("# For others, or for none.")
    return tuple(  # type: ignore[return-value]
        [shlex.split(line)[1:] for line in part.splitlines() if line.startswith("lerobot-eval")]
        for part in (ours, others)
    )


OURS, OTHERS = commands()


@pytest.fixture(autouse=True)
def _checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for flags in OURS:
        path = next((flag.partition("=")[2] for flag in flags if flag.startswith("--policy.path=")), "")
        if path.startswith(("outputs/", "tests/")) or path in LOCAL:
            (tmp_path / path).mkdir(parents=True, exist_ok=True)


def test_there_are_as_many_commands_as_lerobot_has() -> None:
    assert (len(OURS), len(OTHERS)) == (41, 30)


@pytest.mark.parametrize("flags", OURS, ids=lambda flags: " ".join(flags)[:60])
def test_a_command_of_lerobots_is_understood(flags: list[str]) -> None:
    settings = settings_from_flags(flags)
    given = dict(flag.removeprefix("--").split("=", 1) for flag in flags)
    told = {words.partition(":")[0] for words in settings.passed_over}
    assert told == {name for name in given if name in ("env.fps", "env.render_mode")}
    plain = to_plain(settings)
    of_network = plain["policy"].pop("overrides")
    for name, text in given.items():
        section, dot, field = name.partition(".")
        found = plain[section].get(field, of_network.get(field, "nothing")) if dot else plain[section]
        if name == "policy.type":
            found = of_network["type"]
        elif name == "policy.path" and Path(text).exists():
            text = str(Path(text).absolute())
        elif name == "output_dir":
            text = str(Path(text))
        assert name in told or found == text or found == yaml.safe_load(text), name
    assert settings.policy.type == "lerobot"


def test_the_page_for_those_who_come_from_lerobot_names_every_flag() -> None:
    page = (Path(__file__).parents[2] / "docs" / "coming-from-lerobot.md").read_text()
    top = EVALUATION - {"env", "eval", "policy"}
    names = {*top, *(f"env.{name}" for fields in ENVS.values() for name in fields)}
    names |= {f"eval.{name}" for name in EVAL_FIELDS} | {"policy.path", "policy.type", "config_path"}
    assert sorted(name for name in names if f"`--{name}" not in page) == []


@pytest.mark.parametrize("flags", OTHERS, ids=lambda flags: " ".join(flags)[:60])
def test_a_command_for_another_simulator_is_told_which_there_are(flags: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        settings_from_flags(flags)
    message = str(refused.value)
    assert message.startswith("--env.type")
    assert "\n" not in message
    assert all(name in message for name in BENCHMARKS)
