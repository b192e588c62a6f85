"""`proctor show`: what a stored run came to, again: as the table of its end, or for programs."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from proctor.cli.command import Command
from proctor.errors import EXIT_OK, UsageError, did_you_mean
from proctor.files import as_written_by_proctor, check_output_file, clip
from proctor.report.console import PatientConsole, moment, printable
from proctor.store.bundles import is_bundle, opened

if TYPE_CHECKING:
    from proctor.results import Evaluation, ScoredRun

_WORDS = """Show what a stored run came to: its table, errors, how it ended, and where its files are.

  proctor show outputs/expert
  proctor show outputs/expert --csv=episodes > episodes.csv
  proctor show outputs/expert --min_success=0.8 --junit=junit.xml

A run directory or a bundle will do, also of a run that goes on. --csv, --json and --junit have the same numbers;
their columns are in docs/ci.md."""

_TABLES = ("episodes", "rates")


def _show(given: argparse.Namespace) -> int:
    if len(given.runs) != 1:
        raise UsageError("name one run directory or bundle: proctor show RUN. See: proctor show --help")
    if given.csv is not None and given.json:
        raise UsageError("--csv and --json: choose one.")
    if given.csv is not None and given.csv not in _TABLES:
        hint = did_you_mean(given.csv, _TABLES)
        raise UsageError(f"--csv={clip(given.csv, 60)}: must be episodes or rates.{hint}")
    if given.min_success is None and given.min_success_by is not None:
        raise UsageError("--min_success_by says how --min_success is meant: give that too.")
    if given.junit is not None:
        check_output_file(given.junit, "junit")
    with opened(given.runs[0]) as place, as_written_by_proctor(given.runs[0]):
        return _show_run(place, given)


def _show_run(place: Path, given: argparse.Namespace) -> int:
    from proctor.eval_info import eval_info
    from proctor.report.junit import write_junit
    from proctor.report.tables import TABLES
    from proctor.report.threshold import Threshold, judge
    from proctor.results import Evaluation, ScoredRun
    from proctor.store.filesystem import finite

    run = ScoredRun.open(place)
    with run.table():
        evaluation = Evaluation(run, eval_info(run))
    asked = Threshold.of({"min_success": given.min_success, "min_success_by": given.min_success_by})
    threshold = asked or Threshold.of(run.settings)
    result = None if threshold is None else judge(run, threshold)
    if given.csv is not None:
        TABLES[given.csv](run, sys.stdout)
    elif given.json:
        sys.stdout.write(json.dumps(finite(evaluation.info), indent=2, allow_nan=False) + "\n")
    else:
        _print(evaluation, given.runs[0])
    if given.junit is not None:
        write_junit(given.junit, evaluation, result)
    if result is not None:
        aside = given.csv is not None or given.json or (asked and result.decision != "passed")
        PatientConsole(stderr=bool(aside)).print(Text(str(result)), soft_wrap=True)
    return EXIT_OK if result is None or asked is None else result.exit_status


def _print(evaluation: Evaluation, named: Path) -> None:
    from proctor.report.summary import print_outcome

    run, console = evaluation.run, PatientConsole(highlight=False)

    def tell(name: str, words: object) -> None:
        if words not in (None, ""):
            console.print(Text(f"{name + ':':<12} ") + printable(str(words)), soft_wrap=True)

    tell("run", named)
    tell("policy", run.policy)
    tell("benchmark", f"{run.benchmark}, seed {run.identity.get('seed')}")
    tell("tags", ", ".join(run.tags))
    tell("description", run.labels["description"])
    for line in str(run.labels["notes"] or "").splitlines():
        tell("notes", line)
    print_outcome(console, evaluation)
    if run.sessions:
        tell("began", moment(min(session.started_at for session in run.sessions)))
    tell("ended", _ending(run))
    if is_bundle(named):
        return
    for name, path in (
        ("results", run.directory.result),
        ("report", run.path / "report.html"),
        ("videos", run.path / "videos"),
        ("dataset", run.path / "dataset"),
        ("logs", run.directory.logs),
    ):
        if path.exists():
            tell(name, path)


def _ending(run: ScoredRun) -> str:
    if run.stopped is not None:
        return f"by its rule, after {len(run.plan)} episodes"
    if run.complete:
        return "every planned episode has ended"
    left = len(run.plan) - run.ended.ended
    return f"not yet: {left} of {len(run.plan)} episodes to go" + (f" ({run.ending})" if run.ending else "")


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= 1:
        raise UsageError(f"--min_success={clip(text, 60)}: must be more than 0 and at most 1, such as 0.8.")
    return rate


def _by(text: str) -> str:
    if text not in ("rate", "lower"):
        raise UsageError(f"--min_success_by={clip(text, 60)}: must be rate or lower.")
    return text


show_command = Command(
    "show",
    _show,
    "RUN [--csv=episodes|rates] [--json] [--junit=FILE] [--min_success=RATE]",
    _WORDS,
    "Nothing is written to the run. Exit status: 0 shown; with --min_success: 0 reached, 4 missed, 3 not decided, "
    "because episodes are missing or ended in an error; 2 there is no run.",
)
_add = show_command.add_argument
_add("runs", metavar="RUN", nargs="*", type=Path, help="a run directory, also of a run that goes on, or a bundle")
_add("--csv", metavar="episodes|rates", help="print a table as CSV: episodes, or rates of tasks, groups and all")
_add("--json", action="store_true", help="print everything as one JSON document, as in eval_info.json")
_add("--junit", metavar="FILE", type=Path, help="write the result as JUnit XML, a test case per task")
_add(
    "--min_success",
    metavar="RATE",
    type=_rate,
    help="success rate that the run must reach [what it was run with, without changing the exit status]",
)
_add("--min_success_by", metavar="rate|lower", type=_by, help="the rate, or the lower end of its interval [rate]")
