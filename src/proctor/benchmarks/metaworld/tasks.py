"""Meta-World's fifty tasks: named sets, LeRobot's groups, and the words for each, all written in `tasks.json`.

A task's place in a group is its id.

A checkpoint needs the very words it was trained on. LeRobot ships its own; where LeRobot is installed they are
read from it, without importing it. Otherwise our own are used. A file overrides either.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proctor.errors import UsageError, did_you_mean
from proctor.files import clip, reason

_WRITTEN: dict[str, Any] = json.loads(Path(__file__).with_name("tasks.json").read_text(encoding="utf-8"))

GROUPS: dict[str, tuple[str, ...]] = {name: tuple(tasks) for name, tasks in _WRITTEN["groups"].items()}
"""LeRobot's groups by difficulty, and Meta-World's own sets in its own order, which its one-hot vectors follow."""

MT10, MT50 = GROUPS["mt10"], GROUPS["mt50"]

OWN: dict[str, str] = _WRITTEN["prompts"]
"""Our words for each task."""

MAX_STEPS = 500


def load_prompts(override: Path | None) -> dict[str, str]:
    """Return the prompt of every task: our words, LeRobot's over them, the user's file over both."""
    prompts = {**OWN, **_lerobot_prompts()}
    if override is not None:
        prompts.update(_read_override(override))
    return prompts


def _lerobot_prompts() -> dict[str, str]:
    # find_spec of the top package runs no code of it; its sub-packages would import torch.
    found = importlib.util.find_spec("lerobot")
    for root in (found.submodule_search_locations or ()) if found is not None else ():
        try:
            descriptions: Any = json.loads((Path(root) / "envs" / "metaworld_config.json").read_text())
            return _only_known(descriptions["TASK_DESCRIPTIONS"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # a LeRobot without that file: ours will do
    return {}


def _only_known(words: Mapping[str, Any]) -> dict[str, str]:
    return {task: str(text) for task, text in words.items() if task in OWN}


def _read_override(path: Path) -> dict[str, str]:
    from proctor.config.yaml_files import YamlError, read_yaml  # here: workers never read a file

    try:
        words = read_yaml(path)
    except YamlError as error:
        raise UsageError(f"--env.prompts={path}: {clip(str(error), 300)}") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"--env.prompts={clip(str(path), 300)}: {reason(error)}.") from None
    if not isinstance(words, dict):
        raise UsageError(f"--env.prompts={path}: expected a mapping of task names to prompts.")
    for task in words:
        if task not in OWN:
            raise UsageError(
                f"--env.prompts={path}: '{clip(task)}' is no Meta-World task.{did_you_mean(str(task), MT50)}"
            )
    return _only_known(words)
