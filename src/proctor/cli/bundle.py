"""`proctor bundle`: a run in one small file."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.text import Text

from proctor.cli.command import Command
from proctor.errors import EXIT_OK, UsageError
from proctor.files import check_output_file
from proctor.report.console import PatientConsole, count
from proctor.store.bundles import SUFFIX, write_bundle
from proctor.store.stored_run import StoredRun

_WORDS = """Write a run into one small file: settings, identity, plan, outcomes, digests and actions.

  proctor bundle outputs/expert
  proctor bundle outputs/expert --output=mine.proctor

No paths, secrets, names of machines, times, logs or videos are in it. It opens in report, view, compare, replay
and verify, and its hash names exactly this result."""


def _bundle(given: argparse.Namespace) -> int:
    if len(given.runs) != 1:
        raise UsageError("name one run directory: proctor bundle RUN. See: proctor bundle --help")
    run = StoredRun.open(given.runs[0])
    output = given.output or Path(f"{run.path.name}{SUFFIX}")
    check_output_file(output)
    name = write_bundle(run, output)
    size = output.stat().st_size
    words = f"{output}: {count(run.ended.ended, 'episode')}, {size / 1e6:.2f} MB, sha256 {name}"
    PatientConsole(highlight=False).print(Text(words), soft_wrap=True)
    return EXIT_OK


bundle_command = Command(
    "bundle",
    _bundle,
    "RUN [--output=FILE]",
    _WORDS,
    "Exit status: 0 written, 2 there is no run, 1 the file cannot be written.",
)
bundle_command.add_argument(
    "runs", metavar="RUN", nargs="*", type=Path, help="a run directory, also of a run that goes on"
)
bundle_command.add_argument(
    "--output",
    metavar="FILE",
    type=Path,
    help=f"the file [the directory's name and {SUFFIX}, in the current directory]",
)
