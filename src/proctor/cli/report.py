"""`proctor report`: one HTML file about a run, or several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from proctor.errors import EXIT_OK, UsageError, did_you_mean
from proctor.files import check_regular, given_path
from proctor.report.console import PatientConsole

_USAGE = """Write one HTML file about a run, or about several side by side, that needs no network and no Proctor.

usage: proctor report DIR [DIR...] [--output=FILE] [--embed-videos]

  proctor report outputs/eval/2026-01-31/12-00-00_metaworld_expert
  proctor report outputs/baseline outputs/new --output=comparison.html

DIR is a run directory, also of a run that goes on. Every run writes its own report.html at its end; this writes it
again, elsewhere, or for several runs, which are compared with the first.

  --output=FILE    the file [report.html in the run directory; of several runs in the current one]
  --embed-videos   put the videos into the file, so that it can be mailed; else they are linked

Exit status: 0 written, 2 a directory holds no run, 1 the file cannot be written."""

_FLAGS = ("--output", "--embed-videos")


class _Wish(NamedTuple):
    directories: list[Path]
    output: Path | None
    embed_videos: bool


def report_command(arguments: Sequence[str]) -> int:
    """Run `proctor report`; returns the exit status."""
    console = PatientConsole()
    if any(argument in ("-h", "--help") for argument in arguments):
        console.print(_USAGE, markup=False, highlight=False)
        return EXIT_OK
    from proctor.report.page.page import write_report

    wish = _parse(arguments)

    def tell(line: str) -> None:
        Console(stderr=True).print(Text(line), soft_wrap=True)

    path = write_report(wish.directories, wish.output, embed_videos=wish.embed_videos, tell=tell)
    console.print(Text(f"report: {path}"), soft_wrap=True)
    return EXIT_OK


def _parse(arguments: Sequence[str]) -> _Wish:
    directories: list[Path] = []
    output: Path | None = None
    embed = False
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, equals, value = argument.partition("=")
        name = name.replace("_", "-") if name.startswith("--") else name
        if name == "--output":
            if not equals and not rest:
                raise UsageError("--output needs a value: --output=FILE")
            output = Path(value if equals else rest.pop(0))
        elif name == "--embed-videos" and not equals:
            embed = True
        elif argument.startswith("-"):
            raise UsageError(f"unknown flag {argument}.{did_you_mean(name, _FLAGS)} See: proctor report --help")
        else:
            directories.append(Path(argument))
    if not directories:
        raise UsageError("name a run directory: proctor report DIR. See: proctor report --help")
    if output is not None:
        with given_path(output, "output"):
            if output.is_dir():
                raise UsageError(f"--output={output} is a directory. Name a file in it.")
            check_regular(output)
            if not output.absolute().parent.is_dir():
                raise UsageError(f"--output={output}: there is no directory {output.absolute().parent}.")
    return _Wish(directories, output, embed)
