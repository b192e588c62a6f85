"""In what two runs differ besides their policies, so that a difference may not be the policies' own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from proctor.comparison.runs import StoredRun
from proctor.store.identity import Identity, differences
from proctor.types import Task

# What a policy is, and how it is fitted to the benchmark, differs on purpose; pairing sees to tasks and seeds.
_EXPECTED = ("policy", "rename_map", "tasks", "spec", "seed")
_CHOOSES_TASKS = ("task_ids",)
_MOST_TASKS = 3


class Circumstance(NamedTuple):
    """Something that is not the same in two runs, as text."""

    name: str
    first: str
    second: str


def differing(first: StoredRun, second: StoredRun) -> list[Circumstance]:
    """Return what two runs do not share although it may change outcomes: versions, settings, limits, renderer."""
    ours, theirs = _relevant(first.identity), _relevant(second.identity)
    if not (ours["renderer"] and theirs["renderer"]):
        ours["renderer"] = theirs["renderer"] = None  # one policy does not look at pictures
    return [
        *(Circumstance(*difference) for difference in differences(ours, theirs)),
        *_of_tasks("step limit", first, second, lambda task: task.max_steps),
        *_of_tasks("prompt", first, second, lambda task: task.prompt),
    ]


def _relevant(identity: Identity) -> Identity:
    kept = {key: value for key, value in identity.items() if key not in _EXPECTED}
    kept["env"] = {key: value for key, value in identity["env"].items() if key not in _CHOOSES_TASKS}
    kept.setdefault("renderer", None)
    return kept


def _of_tasks(name: str, first: StoredRun, second: StoredRun, read: Callable[[Task], Any]) -> list[Circumstance]:
    theirs: dict[str, list[Any]] = {}
    for task in second.tasks:  # two groups may have a task of one name
        theirs.setdefault(task.name, []).append(read(task))
    apart = [
        Circumstance(f"{name} of {task.name}", repr(read(task)), repr(theirs[task.name][0]))
        for task in first.tasks
        if task.name in theirs and read(task) not in theirs[task.name]
    ]
    if len(apart) > _MOST_TASKS:
        shown = apart[0]
        return [shown._replace(name=f"{shown.name} and of {len(apart) - 1} other tasks")]
    return apart
