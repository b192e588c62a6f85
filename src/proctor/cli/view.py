"""`proctor view`: a folder of runs in the browser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.text import Text

from proctor.config.flags import whole_number
from proctor.config.settings import MOST_PORT
from proctor.errors import EXIT_OK, UsageError, did_you_mean
from proctor.files import check_folder
from proctor.report.console import PatientConsole

DEFAULT_ROOT = Path("outputs/eval")

_USAGE = """Look at a folder of runs in the browser: list, live progress, episodes with videos, comparison.

usage: proctor view [ROOT] [--host=HOST] [--port=PORT] [--open]

  proctor view
  proctor view outputs --port=0 --open

ROOT is a folder with run directories at any depth [outputs/eval]. It is only read: nothing in it is changed.

  --host=HOST   address to listen on; any but this machine's own lets others see the runs [127.0.0.1]
  --port=PORT   port to listen on; 0: a free one, which is printed [8642]
  --open        open the page in the browser

Ctrl-C ends it. Exit status: 130 ended by Ctrl-C, 2 there is no such folder or the port is taken."""

_FLAGS = ("--host", "--port", "--open")


class _Wish(NamedTuple):
    root: Path
    host: str
    port: int
    open: bool


def view_command(arguments: Sequence[str]) -> int:
    """Run `proctor view`; returns the exit status."""
    console = PatientConsole()
    if any(argument in ("-h", "--help") for argument in arguments):
        console.print(_USAGE, markup=False, highlight=False)
        return EXIT_OK
    wish = _parse(arguments)
    from proctor.machine.names import LOCAL
    from proctor.viewer.server import serve

    def announce(address: str) -> None:
        if wish.host not in LOCAL:
            words = "whoever can reach this address can see the runs, without any password"
            console.print(Text(words, style="yellow"))
        console.print(Text(f"viewing {wish.root} at {address} (Ctrl-C stops)"), soft_wrap=True)
        if wish.open:
            import webbrowser

            webbrowser.open(address)

    return serve(wish.root, wish.host, wish.port, announce)


def _parse(arguments: Sequence[str]) -> _Wish:
    roots: list[Path] = []
    values = {"--host": "127.0.0.1", "--port": "8642"}
    show = False
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, equals, value = argument.partition("=")
        if name in values:
            if not equals and not rest:
                raise UsageError(f"{name} needs a value: {name}=VALUE. See: proctor view --help")
            values[name] = value if equals else rest.pop(0)
        elif argument == "--open":
            show = True
        elif argument.startswith("-"):
            raise UsageError(f"unknown flag {argument}.{did_you_mean(name, _FLAGS)} See: proctor view --help")
        else:
            roots.append(Path(argument))
    if len(roots) > 1:
        raise UsageError(f"name one folder, not {len(roots)}; runs below it are found at any depth.")
    root = roots[0] if roots else DEFAULT_ROOT
    check_folder(root, remedy="" if roots else "Name the folder that your runs are in: proctor view ROOT")
    return _Wish(root, values["--host"], whole_number("port", values["--port"], 0, MOST_PORT), show)
