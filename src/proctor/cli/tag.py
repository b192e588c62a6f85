"""`proctor tag`: change what a user says of a stored run: its tags, its description, its notes."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from proctor.cli.command import Command
from proctor.config.settings import comma_list
from proctor.errors import EXIT_OK, UsageError
from proctor.report.console import PatientConsole, printable
from proctor.store.bundles import is_bundle

_WORDS = """Change the tags, the description and the notes of runs that are stored. With none of them: show them.

  proctor tag outputs/expert --tags=baseline,easy --description="scripted experts"
  proctor tag outputs/expert outputs/network --add=paper --remove=easy
  proctor tag outputs/expert --notes=

What is empty is removed. A run's result, its identity and the hash of its bundle stay as they are; bundles have
none of these words. A run that goes on cannot be changed."""


def _tag(given: argparse.Namespace) -> int:
    if not given.runs:
        raise UsageError("name a run directory: proctor tag RUN --tags=a,b. See: proctor tag --help")
    if given.tags is not None and (given.add or given.remove):
        raise UsageError("--tags says which tags there are; use it without --add and --remove.")
    console = PatientConsole(highlight=False)
    for path in given.runs:
        if is_bundle(path):
            raise UsageError(f"{path} is a bundle, which has no tags and no notes. Name a run directory.")
    for path in given.runs:
        labels = _change(path, given)
        shown = {**labels, "tags": ", ".join(labels["tags"])}
        words = "; ".join(f"{name}: {value}" for name, value in shown.items() if value)
        console.print(Text(f"{path}: ") + printable(words or "no tags, description or notes"), soft_wrap=True)
    return EXIT_OK


def _change(path: Path, given: argparse.Namespace) -> Mapping[str, Any]:
    from proctor.eval_info import write_eval_info
    from proctor.report.summary import write_run_report
    from proctor.results import Evaluation, ScoredRun
    from proctor.store.lock import RunLock

    run = ScoredRun.open(path)
    wanted = _wanted(run.labels, given)
    if wanted == run.labels:
        return wanted
    with RunLock(run.path):
        run = ScoredRun.open(path)  # it may have gone on until now
        wanted = _wanted(run.labels, given)
        stored = {**wanted, "tags": ",".join(wanted["tags"]) or None}
        run.directory.write_config({**run.settings, **stored})
        run = ScoredRun.open(path)
        if run.directory.result.exists():
            info = write_eval_info(run)
            if (run.path / "report.html").exists():
                write_run_report(Evaluation(run, info))
    return run.labels


def _wanted(labels: Mapping[str, Any], given: argparse.Namespace) -> dict[str, Any]:
    tags = labels["tags"] if given.tags is None else given.tags
    kept = [tag for tag in [*tags, *given.add] if tag not in given.remove]
    found = {**labels, "tags": list(dict.fromkeys(kept))}
    for name in ("description", "notes"):
        text = getattr(given, name)
        if text is not None:
            found[name] = text or None
    return found


tag_command = Command(
    "tag",
    _tag,
    "RUN... [--tags=A,B] [--add=A,B] [--remove=A,B] [--description=TEXT] [--notes=TEXT]",
    _WORDS,
    "Exit status: 0 changed or shown, 2 there is no run, or it goes on, 1 a file cannot be written.",
)
_add = tag_command.add_argument
_add("runs", metavar="RUN", nargs="*", type=Path, help="run directories")
_add("--tags", metavar="A,B", type=comma_list, help="the tags, instead of those there are")
_add("--add", metavar="A,B", type=comma_list, default=[], help="tags to add")
_add("--remove", metavar="A,B", type=comma_list, default=[], help="tags to take away")
_add("--description", metavar="TEXT", type=lambda text: str(text), help="one line on what the run is for")
_add("--notes", metavar="TEXT", type=lambda text: str(text), help="what is to be remembered of it")
