"""`proctor doctor`: whether Proctor's main job can run here, on one screen."""

from __future__ import annotations

import dataclasses
import json
import sys
import textwrap
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from proctor.doctor.examination import examine
from proctor.doctor.findings import Finding, State, first_step
from proctor.errors import EXIT_FAILED, EXIT_OK, UsageError, did_you_mean
from proctor.report.console import PatientConsole

_USAGE = """Say whether Proctor can evaluate policies on Meta-World here, with pictures, and what to do if not.

usage: proctor doctor [--json]

  --json    print the findings as one JSON document

It looks at Python, the packages, drawing, GPUs and the machine's limits; it installs and changes nothing.
The exit status is 0 if the main job can run, else 1. GPUs, videos, checkpoints and servers are optional."""

_FLAGS = ("--json", "--help")

_MARKS: dict[State, tuple[str, str, str]] = {
    "ok": ("✓", "+", "green"),
    "absent": ("–", "-", "dim"),
    "broken": ("✗", "x", "bold red"),
    "note": ("!", "!", "yellow"),
}
"""The mark of each state, the same for terminals without Unicode, and its style."""

_SECTION, _NAME = 12, 12
_INDENT = " " * (_SECTION + 2 + _NAME)


def doctor_command(arguments: Sequence[str]) -> int:
    """Run `proctor doctor`; returns the exit status."""
    console = PatientConsole(highlight=False)
    if any(argument in ("-h", "--help") for argument in arguments):
        console.print(_USAGE, markup=False)
        return EXIT_OK
    for argument in arguments:
        if argument != "--json":
            hint = did_you_mean(argument, _FLAGS)
            raise UsageError(f"unknown flag {argument}.{hint} See: proctor doctor --help")
    with Console(stderr=True).status("looking at this machine"):
        findings = examine()
    step = first_step(findings)
    if "--json" in arguments:
        sys.stdout.write(as_json(findings) + "\n")
    else:
        print_findings(console, findings)
    return EXIT_OK if step is None else EXIT_FAILED


def as_json(findings: Sequence[Finding]) -> str:
    """Return everything that was found as one JSON document."""
    step = first_step(findings)
    found = [dataclasses.asdict(finding) for finding in findings]
    return json.dumps({"ready": step is None, "first_step": step, "findings": found}, indent=2)


def print_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Print a line per finding, and at the end whether the main job can run or what to do first."""
    unicode = console.encoding.lower().startswith("utf")
    section = ""
    for finding in findings:
        for line in _lines(finding, finding.section if finding.section != section else "", console.width, unicode):
            if not unicode:
                line = Text(line.plain.encode(console.encoding, "replace").decode(console.encoding))
            console.print(line, soft_wrap=True)  # never cut: what is to be typed must be whole
        section = finding.section
    step = first_step(findings)
    console.print()
    if step is None:
        text = Text("Ready: Proctor can evaluate policies on Meta-World here, with pictures.", style="green")
    else:
        text = Text.assemble(("Not ready. First: ", "bold red"), (step, "bold"))
    console.print(text, soft_wrap=True)


def _lines(finding: Finding, section: str, width: int, unicode: bool) -> Iterator[Text]:
    mark, plain_mark, style = _MARKS[finding.state]
    # An option that is not there says how to get it in the same line: it is no trouble.
    aside = finding.state == "absent" and not finding.needed and finding.remedy
    text = f"{finding.text}: {finding.remedy}" if aside else finding.text
    room = max(20, width - len(_INDENT))
    rows = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    yield Text.assemble(
        (f"{section:<{_SECTION}}", "bold"),
        (f"{mark if unicode else plain_mark} ", style),
        f"{finding.name:<{_NAME}}",
        (rows[0], "dim" if finding.state == "absent" else ""),
    )
    for row in rows[1:]:
        yield Text(f"{_INDENT}{row}")
    if finding.remedy and not aside:
        arrow = "→" if unicode else ">"
        yield Text.assemble(" " * _SECTION, (f"{arrow} {finding.remedy}", "bold"))
