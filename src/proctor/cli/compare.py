"""`proctor compare`: whether one policy is better than another."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.text import Text

from proctor.cli.command import Command
from proctor.comparison.compare import compare_many
from proctor.comparison.result import Comparison, Comparisons, as_document
from proctor.config.settings import comma_list
from proctor.errors import EXIT_OK, EXIT_VERDICT, UsageError, did_you_mean
from proctor.files import clip
from proctor.report.comparison import as_markdown, print_comparisons
from proctor.report.console import PatientConsole, count
from proctor.store.bundles import opened

_WORDS = """Say whether policies differ: rates, difference, interval and verdict per task, group and overall.

  proctor compare outputs/network outputs/expert
  proctor compare outputs/network outputs/expert --markdown > comparison.md
  proctor compare outputs/network outputs/expert --fail-if=worse

Each run is compared with the first, episode by episode where they share task, index and seed."""


_FAIL_IF = ("worse", "not-better")


def _compare(given: argparse.Namespace) -> int:
    if len(given.runs) < 2:
        raise UsageError(
            "name two runs or more, the baseline first: proctor compare A B. See: proctor compare --help"
        )
    if given.json and given.markdown:
        raise UsageError("--json and --markdown: choose one.")
    with ExitStack() as stack:
        runs = [stack.enter_context(opened(path)) for path in given.runs]
        found = compare_many(runs, tasks=given.tasks, alpha=given.alpha, all_pairs=given.all_pairs)
        _show(found, given)
    return EXIT_OK if given.fail_if is None else _gate(found, given.fail_if)


def _gate(found: Comparisons, wanted: str) -> int:
    """Say in one line whether the verdicts are such that the command fails; returns the exit status."""
    incomplete = [run for run in found.runs if not run.complete and run.stopped is None]
    if incomplete:
        one = incomplete[0]
        why = f"{one.shown} is not complete: {one.ended} of {one.planned} episodes have ended"
        return _failed(wanted, f"cannot be judged: {why}")
    bad = [
        one
        for one in found.comparisons
        if one.verdict == "worse" or (wanted == "not-better" and one.verdict != "better")
    ]
    if bad:
        return _failed(
            wanted, f"failed: {bad[0].second.shown} against {bad[0].first.shown}: {bad[0]}{_left_out(bad[0])}"
        )
    told = "; ".join(
        f"{one.second.shown} against {one.first.shown}: {one}{_left_out(one)}" for one in found.comparisons
    )
    Console(stderr=True).print(Text(f"fail-if={wanted} passed: {told}"), soft_wrap=True)
    return EXIT_OK


def _left_out(one: Comparison) -> str:
    return f", {count(one.left_out, 'episode')} left out because of errors" if one.left_out else ""


def _failed(wanted: str, why: str) -> int:
    Console(stderr=True).print(Text(f"fail-if={wanted} {why}"), soft_wrap=True)
    return EXIT_VERDICT


def _verdict(text: str) -> str:
    if text not in _FAIL_IF:
        raise UsageError(
            f"--fail-if={clip(text, 60)}: must be {' or '.join(_FAIL_IF)}.{did_you_mean(text, _FAIL_IF)}"
        )
    return text


def _show(found: Comparisons, given: argparse.Namespace) -> None:
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
    "Nothing is written to the runs. Exit status: 0 whatever the verdict; with --fail-if 5 if the verdict over "
    "all tasks is one to fail for, or a run is not complete; 2 if a directory holds no run.",
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
_add(
    "--fail-if",
    metavar="worse|not-better",
    type=_verdict,
    help="end with status 5 if a run is worse than the one it is compared with; or if it is not better",
)
_add("--json", action="store_true", help="print everything as one JSON document")
_add("--markdown", action="store_true", help="print tables to paste into a pull request")
