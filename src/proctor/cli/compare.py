"""`proctor compare`: whether one policy is better than another."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from proctor.cli.command import Command
from proctor.config.settings import comma_list
from proctor.errors import EXIT_OK, UsageError
from proctor.report.console import PatientConsole

if TYPE_CHECKING:
    from proctor.comparison.result import Comparisons

_WORDS = """Say whether policies differ: rates, difference, interval and verdict per task, group and overall.

  proctor compare outputs/baseline outputs/new
  proctor compare outputs/baseline outputs/new --markdown > comparison.md

Each run is compared with the first, episode by episode where they share task, index and seed."""


def _compare(given: argparse.Namespace) -> int:
    if len(given.runs) < 2:
        raise UsageError(
            "name two runs or more, the baseline first: proctor compare A B. See: proctor compare --help"
        )
    if given.json and given.markdown:
        raise UsageError("--json and --markdown: choose one.")
    with ExitStack() as stack:
        from proctor.comparison.compare import compare_many  # stored runs: `--help` does without
        from proctor.store.bundles import opened

        runs = [stack.enter_context(opened(path)) for path in given.runs]
        found = compare_many(runs, tasks=given.tasks, alpha=given.alpha, all_pairs=given.all_pairs)
        _show(found, given)
    return EXIT_OK


def _show(found: Comparisons, given: argparse.Namespace) -> None:
    from proctor.comparison.result import as_document
    from proctor.report.comparison import as_markdown, print_comparisons

    if given.json:
        sys.stdout.write(json.dumps(as_document(found), indent=2, allow_nan=False) + "\n")
    elif given.markdown:
        sys.stdout.write(as_markdown(found))
    else:
        print_comparisons(PatientConsole(highlight=False), found)


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--alpha={text}: expected a number between 0 and 1, such as 0.05.") from None


compare_command = Command(
    "compare",
    _compare,
    "A B [C...] [flags]",
    _WORDS,
    "Nothing is written to the runs. Exit status: 0 whatever the verdict, 2 if a directory holds no run.",
)
_add = compare_command.add_argument
_add(
    "runs",
    metavar="A B",
    nargs="*",
    type=Path,
    help="run directories, also of shards or of runs that go on, or bundles",
)
_add("--tasks", metavar="NAME,...", type=comma_list, help="only these tasks")
_add("--alpha", type=_share, default=0.05, help="how often equal policies may be called different [0.05]")
_add(
    "--all-pairs",
    action="store_true",
    help="compare each with each, and give letters: who shares one was not told apart",
)
_add("--json", action="store_true", help="print everything as one JSON document")
_add("--markdown", action="store_true", help="print tables to paste into a pull request")
