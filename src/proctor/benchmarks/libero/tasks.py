"""LIBERO's five suites: their tasks in order, the words for each, step limits, how many initial states there are.

The names lie in `tasks.json`, so that planning a run needs neither LIBERO nor its files. `make test-libero`
compares them with hf-libero's own.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

MAX_STEPS = {
    "libero_spatial": 280,
    "libero_object": 280,
    "libero_goal": 300,
    "libero_10": 520,
    "libero_90": 400,
}
"""LeRobot's step limits; LIBERO itself has none. Its keys are the suites."""

INITIAL_STATES = 50
"""How many fixed initial states every task has."""

_SCENE = re.compile(r"[A-Z_]+_SCENE\d+_")


@cache
def suites() -> dict[str, tuple[str, ...]]:
    """Return the tasks of every suite; a task's place is its id."""
    names = json.loads(Path(__file__).with_name("tasks.json").read_text(encoding="utf-8"))
    return {suite: tuple(tasks) for suite, tasks in names.items()}


def prompt(task: str) -> str:
    """Return the words for a task: its name without the scene, as LIBERO and LeRobot have them.

    >>> prompt("KITCHEN_SCENE10_close_the_top_drawer_of_the_cabinet")
    'close the top drawer of the cabinet'
    """
    return _SCENE.sub("", task, count=1).replace("_", " ")
