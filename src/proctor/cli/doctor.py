"""`proctor doctor`: whether Proctor's main job can run here, on one screen."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from proctor.cli.command import Command
from proctor.doctor.examination import examine
from proctor.doctor.findings import Finding, State, first_step
from proctor.errors import EXIT_FAILED, EXIT_OK
from proctor.report.console import Mark, MarkedLine, PatientConsole, print_marked

_MARKS: dict[State, Mark] = {"ok": "good", "absent": "none", "broken": "bad", "note": "note"}

_SECTION, _NAME = 12, 12


def _doctor(given: argparse.Namespace) -> int:
    with Console(stderr=True).status("looking at this machine"):
        findings = examine()
    if given.json:
        sys.stdout.write(as_json(findings) + "\n")
    else:
        print_findings(PatientConsole(highlight=False), findings)
    return EXIT_OK if first_step(findings) is None else EXIT_FAILED


doctor_command = Command(
    "doctor",
    _doctor,
    "[--json]",
    "Say whether Proctor can evaluate policies on Meta-World here, with pictures, and what to do if not.",
    """It looks at Python, the packages, drawing, GPUs and the machine's limits; it installs and changes nothing.
The exit status is 0 if the main job can run, else 1. GPUs, videos, checkpoints and servers are optional.""",
)
doctor_command.add_argument("--json", action="store_true", help="print the findings as one JSON document")


def as_json(findings: Sequence[Finding]) -> str:
    """Return everything that was found as one JSON document."""
    step = first_step(findings)
    found = [dataclasses.asdict(finding) for finding in findings]
    return json.dumps({"ready": step is None, "first_step": step, "findings": found}, indent=2)


def print_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Print a line per finding, and at the end whether the main job can run or what to do first."""
    section = ""
    for finding in findings:
        print_marked(
            console, _line(finding, finding.section if finding.section != section else ""), _SECTION, _NAME
        )
        section = finding.section
    step = first_step(findings)
    console.print()
    if step is None:
        text = Text("Ready: Proctor can evaluate policies on Meta-World here, with pictures.", style="green")
    else:
        text = Text.assemble(("Not ready. First: ", "bold red"), (step, "bold"))
    console.print(text, soft_wrap=True)


def _line(finding: Finding, section: str) -> MarkedLine:
    # An option that is not there says how to get it in the same line: it is no trouble.
    aside = finding.state == "absent" and not finding.needed and finding.remedy
    text = f"{finding.text}: {finding.remedy}" if aside else finding.text
    return MarkedLine(_MARKS[finding.state], finding.name, text, "" if aside else finding.remedy, section)
