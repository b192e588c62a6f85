"""Meta-World's fifty tasks: named sets, LeRobot's groups, and the words for each.

A task's place in a group is its id.

A checkpoint needs the very words it was trained on. LeRobot ships its own; where LeRobot is installed they are
read from it, without importing it. Otherwise the words below are used. A file overrides either.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proctor.errors import UsageError, did_you_mean
from proctor.files import clip, reason

EASY = (
    "button-press-v3", "button-press-topdown-v3", "button-press-topdown-wall-v3", "button-press-wall-v3",
    "coffee-button-v3", "dial-turn-v3", "door-close-v3", "door-lock-v3", "door-open-v3", "door-unlock-v3",
    "drawer-close-v3", "drawer-open-v3", "faucet-close-v3", "faucet-open-v3", "handle-press-v3",
    "handle-press-side-v3", "handle-pull-v3", "handle-pull-side-v3", "lever-pull-v3", "plate-slide-v3",
    "plate-slide-back-v3", "plate-slide-back-side-v3", "plate-slide-side-v3", "reach-v3", "reach-wall-v3",
    "window-close-v3", "window-open-v3", "peg-unplug-side-v3",
)  # fmt: skip
MEDIUM = (
    "basketball-v3", "bin-picking-v3", "box-close-v3", "coffee-pull-v3", "coffee-push-v3", "hammer-v3",
    "peg-insert-side-v3", "push-wall-v3", "soccer-v3", "sweep-v3", "sweep-into-v3",
)  # fmt: skip
HARD = ("assembly-v3", "hand-insert-v3", "pick-out-of-hole-v3", "pick-place-v3", "push-v3", "push-back-v3")
VERY_HARD = ("shelf-place-v3", "disassemble-v3", "stick-pull-v3", "stick-push-v3", "pick-place-wall-v3")
MT10 = (
    "reach-v3", "push-v3", "pick-place-v3", "door-open-v3", "drawer-open-v3", "drawer-close-v3",
    "button-press-topdown-v3", "peg-insert-side-v3", "window-open-v3", "window-close-v3",
)  # fmt: skip
# Meta-World's own order, which its one-hot task vectors follow; it is not quite alphabetical.
MT50 = (
    "assembly-v3", "basketball-v3", "bin-picking-v3", "box-close-v3", "button-press-topdown-v3",
    "button-press-topdown-wall-v3", "button-press-v3", "button-press-wall-v3", "coffee-button-v3",
    "coffee-pull-v3", "coffee-push-v3", "dial-turn-v3", "disassemble-v3", "door-close-v3", "door-lock-v3",
    "door-open-v3", "door-unlock-v3", "hand-insert-v3", "drawer-close-v3", "drawer-open-v3", "faucet-open-v3",
    "faucet-close-v3", "hammer-v3", "handle-press-side-v3", "handle-press-v3", "handle-pull-side-v3",
    "handle-pull-v3", "lever-pull-v3", "pick-place-wall-v3", "pick-out-of-hole-v3", "pick-place-v3",
    "plate-slide-v3", "plate-slide-side-v3", "plate-slide-back-v3", "plate-slide-back-side-v3",
    "peg-insert-side-v3", "peg-unplug-side-v3", "soccer-v3", "stick-push-v3", "stick-pull-v3", "push-v3",
    "push-wall-v3", "push-back-v3", "reach-v3", "reach-wall-v3", "shelf-place-v3", "sweep-into-v3", "sweep-v3",
    "window-open-v3", "window-close-v3",
)  # fmt: skip

GROUPS = {"easy": EASY, "medium": MEDIUM, "hard": HARD, "very_hard": VERY_HARD, "mt10": MT10, "mt50": MT50}

MAX_STEPS = 500


OWN: dict[str, str] = {
    "assembly-v3": "lift the ring and put it over the peg",
    "basketball-v3": "drop the ball through the hoop",
    "bin-picking-v3": "move the block from one bin to the other",
    "box-close-v3": "put the lid on the box",
    "button-press-topdown-v3": "press the button down from above",
    "button-press-topdown-wall-v3": "reach over the wall and press the button down from above",
    "button-press-v3": "press the button",
    "button-press-wall-v3": "reach around the wall and press the button",
    "coffee-button-v3": "press the button of the coffee machine",
    "coffee-pull-v3": "pull the mug away from the coffee machine",
    "coffee-push-v3": "push the mug under the coffee machine",
    "dial-turn-v3": "turn the dial half way round",
    "disassemble-v3": "lift the ring off the peg",
    "door-close-v3": "close the door",
    "door-lock-v3": "lock the door by turning the lock clockwise",
    "door-open-v3": "open the door",
    "door-unlock-v3": "unlock the door by turning the lock counterclockwise",
    "drawer-close-v3": "push the drawer shut",
    "drawer-open-v3": "pull the drawer open",
    "faucet-close-v3": "turn the faucet clockwise",
    "faucet-open-v3": "turn the faucet counterclockwise",
    "hammer-v3": "drive the nail into the wall with the hammer",
    "hand-insert-v3": "put the gripper into the hole",
    "handle-press-side-v3": "press the handle down from the side",
    "handle-press-v3": "press the handle down",
    "handle-pull-side-v3": "pull the handle up from the side",
    "handle-pull-v3": "pull the handle up",
    "lever-pull-v3": "pull the lever up a quarter turn",
    "peg-insert-side-v3": "slide the peg into the hole at the side",
    "peg-unplug-side-v3": "pull the peg out sideways",
    "pick-out-of-hole-v3": "take the block out of the hole",
    "pick-place-v3": "carry the block to the goal",
    "pick-place-wall-v3": "carry the block over the wall to the goal",
    "plate-slide-back-side-v3": "slide the plate sideways out of the goal",
    "plate-slide-back-v3": "slide the plate back out of the goal",
    "plate-slide-side-v3": "slide the plate sideways into the goal",
    "plate-slide-v3": "slide the plate into the goal",
    "push-back-v3": "pull the block back to the goal",
    "push-v3": "push the block to the goal",
    "push-wall-v3": "push the block around the wall to the goal",
    "reach-v3": "move the gripper to the goal",
    "reach-wall-v3": "move the gripper over the wall to the goal",
    "shelf-place-v3": "put the block on the shelf",
    "soccer-v3": "push the ball into the goal",
    "stick-pull-v3": "pull the box with the stick",
    "stick-push-v3": "push the box with the stick",
    "sweep-into-v3": "sweep the block into the hole",
    "sweep-v3": "sweep the block off the table",
    "window-close-v3": "slide the window shut",
    "window-open-v3": "slide the window open",
}


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
