"""Checks on what a benchmark says of itself: what comes with its import, its tasks, its settings."""

from __future__ import annotations

from collections import Counter

from proctor.config.wire import to_plain
from proctor.conformance.introduction import Introduction
from proctor.conformance.playing import Seen
from proctor.conformance.results import CheckResult, judged
from proctor.conformance.subject import Subject
from proctor.report.console import count
from proctor.types import Task

_MOST_WORDS = 500


def check_claims(subject: Subject, seen: Seen) -> list[CheckResult]:
    """Return the results that need no episode."""
    return [_imports(seen.introductions[0]), _tasks(subject), _processes(subject, seen.introductions)]


def _imports(introduction: Introduction) -> CheckResult:
    faults = {}
    if introduction.modules:
        faults["simulator"] = f"making the benchmark imports {', '.join(introduction.modules)}"
    if introduction.libraries:
        faults["GL"] = f"making the benchmark loads {', '.join(introduction.libraries)}"
    passed = (
        "making the object loads no simulator and no GL; it opens one to tell its tasks, as it says"
        if introduction.opens_to_tell
        else "the object, its tasks and its spec need no simulator and no GL"
    )
    return judged(
        "imports",
        faults,
        passed,
        "import the simulator in make_simulator(), or set opens_to_tell if only it knows the spec or the tasks",
    )


def _tasks(subject: Subject) -> CheckResult:
    tasks = subject.facts.tasks
    faults = {} if tasks else {"tasks()": "returns none"}
    for task in tasks:
        fault = _fault(task)
        if fault:
            faults[f"task {task.name!r}"] = fault
    twice = Counter((task.group, task.task_id) for task in tasks).most_common(1)
    if twice and twice[0][1] > 1:
        (group, number), times = twice[0]
        faults[f"group {group!r}"] = f"has {times} tasks with task_id {number}"
    groups = len({task.group for task in tasks})
    told = f"{count(len(tasks), 'task')} in {count(groups, 'group')}, {len(subject.tasks)} of them played"
    silent = [task.name for task in tasks if not str(task.prompt).strip()]
    if silent and not faults:
        return CheckResult("tasks", "note", f"{told}; no prompt, for policies that take one, in {silent[0]}")
    return judged(
        "tasks",
        faults,
        told,
        "group and task_id together name a task; every task has a name, a prompt and a step limit of at least 1",
    )


def _fault(task: Task) -> str:
    for field in ("group", "name", "prompt"):
        text = getattr(task, field)
        if not isinstance(text, str) or not (text.strip() or field == "prompt"):
            return f"{field} is {text!r}"
        if len(text) > _MOST_WORDS:
            return f"{field} has {len(text)} characters"
    for field, least in (("task_id", 0), ("max_steps", 1)):
        number = getattr(task, field)
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            return f"{field} is {number!r}"
    return ""


def _processes(subject: Subject, introductions: list[Introduction]) -> CheckResult:
    """Settings reach a worker as plain values; there the benchmark must say what it says here."""
    here, faults = to_plain(subject.facts), {}
    for introduction in introductions:
        if introduction.unsteady:
            faults["twice asked"] = introduction.unsteady
        for field in ("tasks", "spec", "versions"):
            if introduction.facts[field] != here[field]:
                faults[field] = "other ones in another process, from the same settings"
    return judged(
        "settings",
        faults,
        f"the same tasks, in the same order, and the same spec in {len(introductions)} processes",
        "tasks() and spec must follow from the settings alone, in a fixed order (no set, no file that comes and "
        "goes); a worker gets paths as text and tuples as lists",
    )
