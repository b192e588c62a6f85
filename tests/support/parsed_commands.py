"""Whether a command line is one that Proctor takes, by its own parser, without running anything."""

from __future__ import annotations

import copy
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proctor.cli.command import Command, Given, RunCommand
from proctor.cli.main import COMMANDS, OTHER_NAMES
from proctor.cli.train import TrainCommand
from proctor.config.flags import Nested
from proctor.config.load import (
    SECTIONS,
    build_settings,
    known_names,
    or_embedded,
    parsed_flags,
    section_classes,
)
from proctor.config.registry import load_object
from proctor.errors import UsageError, unknown_flag
from proctor.training.settings import TrainFlags, training_settings

_SETTINGS = ("eval", "parallel", "record", "autotune")
"""Commands whose settings are those of a whole run."""

_STORED = re.compile(r"--(?:resume|failed|config_path|follow)[= ]")
_SOME_RUN = ("--policy.type=random", "--env.type=metaworld")
_NOWHERE = re.compile(r"(--policy\.path=)(?!ws:|wss:|[^=]*:|[\w.-]+/[\w.-]+$).*")


def check_command(words: Sequence[str]) -> None:
    """Raise `UsageError` if a command, a flag or a value is not one that Proctor takes.

    What lies on the reader's disk (a run, a checkpoint, a dataset) is taken as it is named.
    """
    if not words or words[0] in ("--help", "--version"):
        return
    name = OTHER_NAMES.get(words[0], words[0])
    if name not in COMMANDS:
        raise UsageError(f"unknown command '{name}'")
    arguments = [word for word in words[1:] if word != "..."]
    if "--help" in arguments:
        return
    command: Any = copy.copy(load_object(COMMANDS[name][0]))
    if isinstance(command, TrainCommand):
        _check_training(arguments)
        return
    assert isinstance(command, Command | RunCommand)
    command._run = lambda given: _check_run(name, given)
    command(_without_what_is_stored(arguments))


def _check_run(name: str, given: Any) -> int:
    if isinstance(given, Given):
        tree = or_embedded(given.tree)
        if name == "autotune":  # measures the benchmark alone where no policy is named
            tree.setdefault("policy", {"type": "random"})
        if name in _SETTINGS:
            build_settings(tree)
        else:
            _check_names(tree)
    return 0


def _check_names(tree: Nested) -> None:
    """Check the settings of a command that has others from a run."""
    whole = {"policy": {"type": "random"}, "env": {"type": "metaworld"}}
    known = known_names(section_classes(whole))
    named = {
        f"{key}.{field}" if key in SECTIONS else key
        for key, values in tree.items()
        for field in (values if isinstance(values, dict) else ("",))
    }
    for name in named - known:
        raise unknown_flag(f"--{name}", [f"--{each}" for each in known])


def _without_what_is_stored(arguments: Sequence[str]) -> list[str]:
    """Return a command line in which nothing has to be on this disk but the page's own files."""
    kept = [_NOWHERE.sub(r"\1user/checkpoint", word) for word in arguments if not _STORED.match(f"{word} ")]
    kept = [re.sub(r"^--((?:env|policy)\.python)=.*", r"--\1=/bin/sh", word) for word in kept]
    if len(kept) < len(arguments) and any(_STORED.match(f"{word} ") for word in arguments):
        kept = [*(flag for flag in _SOME_RUN if not _has(kept, flag)), *kept]
    return kept


def _has(words: Sequence[str], flag: str) -> bool:
    section = flag.partition(".")[0]
    return any(word.startswith((f"{section}.type=", f"{section}.path=")) for word in words)


def _check_training(arguments: Sequence[str]) -> None:
    flags = parsed_flags(arguments, TrainFlags, "proctor train")
    if "resume" in flags:
        return
    with tempfile.TemporaryDirectory() as folder:
        if "dataset.root" in flags:
            (Path(folder) / "meta").mkdir()
            (Path(folder) / "meta" / "info.json").write_text("{}")
            flags["dataset.root"] = folder
        training = training_settings(flags)
    if training.evaluation is not None:
        policy = {"type": "random"}
        build_settings({**training.evaluation, "policy": policy})
