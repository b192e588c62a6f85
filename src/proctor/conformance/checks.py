"""Checks that need no comparison: what a benchmark says of itself, each play by itself, what a step draws."""

from __future__ import annotations

from collections import Counter

from proctor.config.plain_values import to_plain
from proctor.conformance import schedule
from proctor.conformance.players import PlayerReports
from proctor.conformance.results import CheckResult, judged
from proctor.conformance.self_report import SelfReport
from proctor.conformance.subject import Subject
from proctor.conformance.trace import Aspect
from proctor.report.console import count
from proctor.types import Task

_MOST_WORDS = 500


def check_claims(subject: Subject, reports: PlayerReports) -> list[CheckResult]:
    """Return the results that need no episode."""
    return [_imports(reports.self_reports[0]), _tasks(subject), _processes(subject, reports.self_reports)]


def _imports(self_report: SelfReport) -> CheckResult:
    faults = {}
    if self_report.modules:
        faults["simulator"] = f"making the benchmark imports {', '.join(self_report.modules)}"
    if self_report.libraries:
        faults["GL"] = f"making the benchmark loads {', '.join(self_report.libraries)}"
    passed = (
        "making the object loads no simulator and no GL; it opens one to tell its tasks, as it says"
        if self_report.opens_to_tell
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


def _processes(subject: Subject, self_reports: list[SelfReport]) -> CheckResult:
    """Settings reach a worker as plain values; there the benchmark must say what it says here."""
    here, faults = to_plain(subject.facts), {}
    for self_report in self_reports:
        if self_report.unsteady:
            faults["twice asked"] = self_report.unsteady
        for field in ("tasks", "spec", "versions"):
            if self_report.facts[field] != here[field]:
                faults[field] = "other ones in another process, from the same settings"
    return judged(
        "settings",
        faults,
        f"the same tasks, in the same order, and the same spec in {len(self_reports)} processes",
        "tasks() and spec must follow from the settings alone, in a fixed order (no set, no file that comes and "
        "goes); a worker gets paths as text and tuples as lists",
    )


_ASPECTS: dict[Aspect, tuple[str, str]] = {
    "observations": (
        "the keys that were looked at, and no others, with the spec's shapes and dtypes, all finite",
        "observe() returns exactly the keys of the last look, each an array as `spec` says",
    ),
    "actions": (
        "actions of the stated size, at and between the stated bounds, are taken and left as they are",
        "copy the action before you clip or scale it: it is the policy's, and part of the episode's digest",
    ),
    "outcomes": (
        "a finite reward, three booleans, metrics that are numbers",
        "return Outcome(reward=float, terminated=bool, truncated=bool, success=bool, metrics={str: float})",
    ),
    "arrays": (
        "what observe() returned is not changed by later steps and episodes",
        "return a copy of what the simulator goes on writing to",
    ),
}


def check_contract(subject: Subject, reports: PlayerReports) -> list[CheckResult]:
    """Return the results that need a single play each."""
    results = [_playable(subject, reports)]
    for aspect, (passed, remedy) in _ASPECTS.items():
        faults: dict[str, str] = {}
        for (task, _), trace in reports.traces.items():
            if aspect in trace.problems:
                faults.setdefault(subject.name(task), trace.problems[aspect])
        results.append(judged(aspect, faults, passed, remedy))
    return results


def _playable(subject: Subject, reports: PlayerReports) -> CheckResult:
    """Look at the first play of each process: what later ones raise belongs to what happened before them."""
    faults = {
        subject.name(task): trace.error
        for (task, name), trace in reports.traces.items()
        if trace.error and name in (schedule.FIRST, schedule.AGAIN)
    }
    return judged(
        "simulators",
        faults,
        "every simulator is built, reset, stepped and looked at",
        "debug it with: proctor eval --policy.type=random --eval.use_async_envs=false and the same --env flags",
    )


_DEAR, _ALIKE = 0.005, 1.3
"""Seconds that make a step worth a word, and how much dearer a look has to be at least if it is what draws."""


def check_drawing(subject: Subject, reports: PlayerReports) -> CheckResult:
    """Judge by the calls of known drawing functions; where there are none, say what a look costs."""
    name = "drawing"
    if not any(feature.drawn for feature in subject.facts.spec.every.values()):
        return CheckResult(name, "skipped", "the spec has no drawn feature")
    traces = reports.traces.values()
    blind, draws = sum(t.blind_steps for t in traces), sum(t.blind_draws for t in traces)
    looks, drawn = sum(t.looks for t in traces), sum(t.look_draws for t in traces)
    if draws:
        text = f"{count(blind, 'step')} that nobody looked at drew {count(draws, 'time')}"
        if not reports.self_reports[0].draws_on_look:
            return CheckResult(name, "note", f"{text}: looking less saves nothing, as draws_on_look says")
        return CheckResult(
            name,
            "failed",
            text,
            "draw in observe(), or in step() only what its look names; else draws_on_look = False",
        )
    if drawn:
        return CheckResult(
            name, "passed", f"{count(blind, 'step')} without a look drew nothing, {looks} looks did"
        )
    step = sum(t.blind_seconds for t in traces) / max(1, blind)
    look = sum(t.look_seconds for t in traces) / max(1, looks)
    cost = f"processor time: {1000 * step:.2g} ms a step without a look, {1000 * look:.2g} ms a look"
    if step > _DEAR and look < _ALIKE * step:
        return CheckResult(name, "note", f"{cost}; it may draw at every step")
    return CheckResult(name, "passed", cost)


_WARM = 3
"""Rounds after which libraries have opened what they keep for ever."""

_MEMORY = 16 << 20
"""Bytes a round that are worth a word; allocators keep a few for themselves."""


def check_lifetime(reports: PlayerReports, rounds: int) -> CheckResult:
    """Compare what is held after the last round with what is held after the first few."""
    name, remedy = (
        "close",
        "close() must free what make_simulator() and reset() opened: files, threads, processes, GL",
    )
    if reports.leak_error:
        fault = {"building and closing it again": reports.leak_error}
        return judged(name, fault, "", remedy)
    early, late = reports.holdings[min(_WARM, len(reports.holdings)) - 1], reports.holdings[-1]
    since = len(reports.holdings) - _WARM
    faults = {}
    for target, number in late.descriptors.items():
        more = number - early.descriptors.get(target, 0)
        if more > 0:
            faults[f"{count(more, 'descriptor')} more"] = f"of {target}, after {since} more times"
    for what, more in (("thread", late.threads - early.threads), ("process", late.children - early.children)):
        if more > 0:
            plural = {"thread": "threads", "process": "child processes"}[what]
            faults[f"{more} more {plural if more > 1 else what}"] = f"after {since} more times"
    memory = (late.memory - early.memory) / max(1, since)
    if not faults and memory > _MEMORY:
        text = f"nothing is left open, but memory grows by {memory / 2**20:.0f} MiB with every simulator"
        return CheckResult(name, "note", text)
    return judged(name, faults, f"nothing is left after {rounds} simulators were built and closed", remedy)
