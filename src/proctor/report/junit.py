"""A run as JUnit XML, as GitHub, GitLab and Jenkins read it: a test case per task, and one for the whole run.

A task fails no test case: what a policy must reach is asked of the run, by `--min_success`, and only then may its
test case be a failure. What could not be run is an error, and what never ran is skipped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

from proctor.report.console import count
from proctor.report.error_groups import ErrorGroup, error_groups
from proctor.report.threshold import ThresholdResult
from proctor.results import Evaluation, Results, ScoredRun, TaskKey, describe_running, task_key
from proctor.store.filesystem import write_bytes
from proctor.store.outcomes import ERROR
from proctor.types import Task

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MOST_ERRORS = 10_000
"""Episodes with errors that are read: what they say is in the first."""


@dataclass
class _Suite:
    """The counts of a suite, and its element."""

    element: ET.Element
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("failures", "errors", "skipped"), 0))

    def add(self, case: ET.Element) -> None:
        self.element.append(case)
        for name in self.counts:
            self.counts[name] += case.find(name.removesuffix("s") if name != "skipped" else name) is not None


def write_junit(path: Path, evaluation: Evaluation, threshold: ThresholdResult | None) -> None:
    """Write the result of a run as JUnit XML. Raises `StoreError`."""
    write_bytes(path, junit(evaluation, threshold))


def junit(evaluation: Evaluation, threshold: ThresholdResult | None) -> bytes:
    """Return the result of a run as JUnit XML."""
    run, results = evaluation.run, evaluation.results
    known = bool(evaluation.info)
    name = _clean(f"{run.benchmark} {run.policy_name}") if known else _clean(evaluation.directory.name)
    suite = _Suite(ET.Element("testsuite"))
    if known:
        suite.element.append(_properties(run))
    suite.add(_whole(evaluation, name, threshold))
    errors = _errors_of_tasks(run) if known else {}
    for task in results.tasks if known else ():
        suite.add(_case(results, task, name, errors.get(task_key(task), [])))
    cases = suite.element.findall("testcase")
    numbers = {"tests": str(len(cases)), **{kind: str(number) for kind, number in suite.counts.items()}}
    seconds = f"{sum(float(case.get('time', '0')) for case in cases):.3f}"
    began = min((session.started_at for session in run.sessions), default=None)
    stamp = (
        {} if began is None else {"timestamp": datetime.fromtimestamp(began, UTC).strftime("%Y-%m-%dT%H:%M:%S")}
    )
    suite.element.attrib.update({"name": name, **numbers, "time": seconds, **stamp})
    top = ET.Element("testsuites", {"name": "proctor", **numbers, "time": seconds})
    top.append(suite.element)
    ET.indent(top)
    return bytes(ET.tostring(top, encoding="utf-8", xml_declaration=True)) + b"\n"


def _whole(evaluation: Evaluation, suite: str, threshold: ThresholdResult | None) -> ET.Element:
    run = evaluation.run
    case = ET.Element("testcase", {"classname": suite, "name": "success rate", "time": "0.000"})
    why = _why_incomplete(evaluation)
    if why is not None:
        _told(case, "error", "Incomplete", why)
    elif threshold is not None and threshold.decision != "passed":
        kind = "failure" if threshold.decision == "failed" else "error"
        _told(case, kind, "MinSuccess", str(threshold))
    lines = [f"success {run.results.overall}"] if run.results.reporting else ["no task reports success"]
    lines += [str(threshold)] if threshold is not None else []
    lines += [words] if (words := describe_running(run.results.overall)) else []
    ET.SubElement(case, "system-out").text = _clean("\n".join([*lines, f"run directory: {run.path}"]))
    return case


def _why_incomplete(evaluation: Evaluation) -> str | None:
    run = evaluation.run
    if evaluation.error is not None:
        return str(evaluation.error)
    if evaluation.info and run.complete:
        return None
    if evaluation.stopped_by is not None:
        return f"stopped by {evaluation.stopped_by.name}"
    left = len(run.plan) - run.ended.ended
    return f"{left} of {count(len(run.plan), 'episode')} have not ended" + (
        f": {run.ending}" if run.ending else ""
    )


def _case(results: Results, task: Task, suite: str, errors: list[ErrorGroup]) -> ET.Element:
    key = task_key(task)
    one, seconds = results.result_of([key]), float(results.ended["seconds"][results.places_of([key])].sum())
    group = f".{task.group}" if task.group != task.name else ""
    case = ET.Element(
        "testcase",
        {"classname": _clean(f"{suite}{group}"), "name": _clean(task.name), "time": f"{seconds:.3f}"},
    )
    if errors:
        number = sum(group.episodes for group in errors)
        _told(
            case,
            "error",
            "EpisodeError",
            f"{count(number, 'episode')} could not be run",
            "\n".join(map(str, errors)),
        )
    elif not results.have([key]):
        ET.SubElement(case, "skipped", {"message": "no episode of this task has ended"})
    reward = f"mean sum of rewards {one.reward:.4g}" if one.reward is not None else ""
    rate = f"success {one.rate}" if task.reports_success else "reports no success"
    ET.SubElement(case, "system-out").text = _clean(", ".join(filter(None, (rate, reward))))
    return case


def _told(case: ET.Element, kind: str, name: str, message: str, more: str = "") -> None:
    ET.SubElement(case, kind, {"message": _clean(message), "type": name}).text = _clean(more or message)


def _properties(run: ScoredRun) -> ET.Element:
    told = {
        "benchmark": run.benchmark,
        "policy": run.policy,
        "seed": run.identity.get("seed"),
        "tags": ", ".join(run.tags),
        "description": run.settings.get("description"),
    }
    properties = ET.Element("properties")
    for name, value in told.items():
        if value not in (None, ""):
            ET.SubElement(properties, "property", {"name": name, "value": _clean(str(value))})
    return properties


def _errors_of_tasks(run: ScoredRun) -> dict[TaskKey, list[ErrorGroup]]:
    found: dict[TaskKey, list[ErrorGroup]] = {}
    failed = run.records.at(run.ended.at(ERROR)[:_MOST_ERRORS])
    for task in run.results.tasks:
        own = error_groups(record for record in failed if record.key[:2] == task_key(task))
        if own:
            found[task_key(task)] = own
    return found


def _clean(text: str) -> str:
    """Return text without the characters that XML cannot have."""
    return _NO_XML.sub("?", text)
