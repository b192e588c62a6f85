"""`proctor report`: one HTML file about a run, or several side by side."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.text import Text

from proctor.cli.command import Command
from proctor.errors import EXIT_OK, UsageError
from proctor.files import check_output_file
from proctor.report.console import PatientConsole
from proctor.store.bundles import opened

_WORDS = """Write one HTML file about a run, or about several side by side, that needs no network and no Proctor.

  proctor report outputs/expert
  proctor report outputs/network outputs/expert --output=comparison.html

Every run writes its own report.html at its end; this writes it again, elsewhere, or for several runs, which are
compared with the first."""


def _report(given: argparse.Namespace) -> int:
    if not given.directories:
        raise UsageError("name a run directory: proctor report DIR. See: proctor report --help")
    from proctor.report.page.page import REPORT, write_report

    def tell(line: str) -> None:
        Console(stderr=True).print(Text(line), soft_wrap=True)

    output: Path | None = given.output
    if output is not None:
        check_output_file(output)
    with ExitStack() as stack:
        runs = [stack.enter_context(opened(path)) for path in given.directories]
        if output is None and runs != given.directories:
            output = Path.cwd() / REPORT  # beside no run: a bundle is a file
        path = write_report(runs, output, embed_videos=given.embed_videos, tell=tell)
    PatientConsole().print(Text(f"report: {path}"), soft_wrap=True)
    return EXIT_OK


report_command = Command(
    "report",
    _report,
    "DIR [DIR...] [--output=FILE] [--embed-videos]",
    _WORDS,
    "Exit status: 0 written, 2 a directory holds no run, 1 the file cannot be written.",
)
report_command.add_argument(
    "directories",
    metavar="DIR",
    nargs="*",
    type=Path,
    help="a run directory, also of a run that goes on, or a bundle",
)
report_command.add_argument(
    "--output",
    metavar="FILE",
    type=Path,
    help="the file [report.html in the run directory; of several runs in the current one]",
)
report_command.add_argument(
    "--embed-videos",
    action="store_true",
    help="put the videos into the file, so that it can be mailed; else they are linked",
)
