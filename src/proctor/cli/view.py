"""`proctor view`: a folder of runs in the browser."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.text import Text

from proctor.cli.command import Command
from proctor.config.flags import whole_number
from proctor.config.settings import MOST_PORT
from proctor.errors import UsageError
from proctor.files import check_folder
from proctor.report.console import PatientConsole

DEFAULT_ROOT = Path("outputs/eval")

_WORDS = """Look at a folder of runs in the browser: list, live progress, episodes with videos, comparison.

  proctor view
  proctor view outputs --port=0 --open

The folder is only read, but for films of episodes that you ask for on their pages."""


def _view(given: argparse.Namespace) -> int:
    if len(given.roots) > 1:
        raise UsageError(f"name one folder, not {len(given.roots)}; runs below it are found at any depth.")
    named = given.roots[0] if given.roots else DEFAULT_ROOT
    from proctor.store.bundles import opened  # stored runs: `--help` does without

    with opened(named) as root:
        return _serve(root, named, given)


def _serve(root: Path, named: Path, given: argparse.Namespace) -> int:
    check_folder(root, remedy="" if given.roots else "Name the folder that your runs are in: proctor view ROOT")
    from proctor.machine.addresses import LOCAL
    from proctor.viewer.server import serve

    def announce(address: str) -> None:
        console = PatientConsole()
        if given.host not in LOCAL:
            words = "whoever can reach this address can see the runs, without any password"
            console.print(Text(words, style="yellow"))
        console.print(Text(f"viewing {named} at {address} (Ctrl-C stops)"), soft_wrap=True)
        if given.open:
            import webbrowser

            webbrowser.open(address)

    return serve(root, given.host, given.port, announce)


view_command = Command(
    "view",
    _view,
    "[ROOT] [--host=HOST] [--port=PORT] [--open]",
    _WORDS,
    "Ctrl-C ends it. Exit status: 130 ended by Ctrl-C, 2 there is no such folder or the port is taken.",
)
_add = view_command.add_argument
_add(
    "roots",
    metavar="ROOT",
    nargs="*",
    type=Path,
    help=f"a folder with run directories at any depth, or a bundle [{DEFAULT_ROOT}]",
)
_add(
    "--host",
    default="127.0.0.1",
    help="address to listen on; any but this machine's own lets others see the runs [127.0.0.1]",
)
_add(
    "--port",
    type=lambda text: whole_number("port", text, 0, MOST_PORT),
    default=8642,
    help="port to listen on; 0: a free one, which is printed [8642]",
)
_add("--open", action="store_true", help="open the page in the browser")
