"""`proctor compare`: whether one policy is better than another."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proctor.comparison.compare import compare_many
from proctor.comparison.result import as_document
from proctor.errors import EXIT_OK, UsageError, did_you_mean
from proctor.report.comparison import as_markdown, print_comparisons
from proctor.report.console import PatientConsole

_USAGE = """Say whether policies differ: rates, difference, interval and verdict per task, group and overall.

usage: proctor compare A B [C...] [flags]

  proctor compare outputs/baseline outputs/new
  proctor compare outputs/baseline outputs/new --markdown > comparison.md

A, B, C are run directories, also of shards or of runs that go on. Each is compared with the first, episode by
episode where they share task, index and seed.

  --tasks=NAME,...  only these tasks
  --alpha=0.05      how often equal policies may be called different
  --all-pairs       compare each with each, and give letters: who shares one was not told apart
  --json            print everything as one JSON document
  --markdown        print tables to paste into a pull request

Nothing is written to the runs. Exit status: 0 whatever the verdict, 2 if a directory holds no run."""

_SWITCHES = ("--json", "--markdown", "--all-pairs")
_VALUES = ("--tasks", "--alpha")


def compare_command(arguments: Sequence[str]) -> int:
    """Run `proctor compare`; returns the exit status."""
    console = PatientConsole(highlight=False)
    if any(argument in ("-h", "--help") for argument in arguments):
        console.print(_USAGE, markup=False)
        return EXIT_OK
    paths, options, switches = _parse(arguments)
    found = compare_many(paths, all_pairs="--all-pairs" in switches, **options)
    if "--json" in switches:
        sys.stdout.write(json.dumps(as_document(found), indent=2, allow_nan=False) + "\n")
    elif "--markdown" in switches:
        sys.stdout.write(as_markdown(found))
    else:
        print_comparisons(console, found)
    return EXIT_OK


def _parse(arguments: Sequence[str]) -> tuple[list[Path], dict[str, Any], set[str]]:
    paths: list[Path] = []
    options: dict[str, Any] = {}
    switches: set[str] = set()
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, equals, value = argument.partition("=")
        name = name.replace("_", "-") if name.startswith("--") else name
        if name in _VALUES:
            if not equals and not rest:
                raise UsageError(f"{name} needs a value: {name}=VALUE. See: proctor compare --help")
            options[name[2:]] = _value(name, value if equals else rest.pop(0))
        elif name in _SWITCHES and not equals:
            switches.add(name)
        elif argument.startswith("-"):
            hint = did_you_mean(name, (*_SWITCHES, *_VALUES))
            raise UsageError(f"unknown flag {argument}.{hint} See: proctor compare --help")
        else:
            paths.append(Path(argument))
    if len(paths) < 2:
        raise UsageError(
            "name two runs or more, the baseline first: proctor compare A B. See: proctor compare --help"
        )
    if {"--json", "--markdown"} <= switches:
        raise UsageError("--json and --markdown: choose one.")
    return paths, options, switches


def _value(name: str, text: str) -> Any:
    if name == "--tasks":
        return [task for task in text.split(",") if task]
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--alpha={text}: expected a number between 0 and 1, such as 0.05.") from None
