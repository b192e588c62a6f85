"""The `proctor` command: finds the sub-command and turns errors into one line and an exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

import proctor
from proctor.config.registry import load_object
from proctor.errors import EXIT_OK, EXIT_SIGINT, EXIT_USAGE, ProctorError, UsageError, did_you_mean
from proctor.machine.processes import hear_of_children
from proctor.report.console import PatientConsole

# Loaded when asked for: the doctor must be able to speak where a package that the others import is broken.
COMMANDS = {
    "autotune": ("proctor.cli.autotune:autotune_command", "measure this machine and print the best command"),
    "eval": ("proctor.cli.eval:eval_command", "evaluate a policy on a benchmark"),
    "parallel": ("proctor.cli.parallel:parallel_command", "evaluate in several processes at once, and merge them"),
    "merge": ("proctor.cli.merge:merge_command", "put shards, or partial runs of one plan, together"),
    "compare": ("proctor.cli.compare:compare_command", "say whether one policy is better than another"),
    "report": ("proctor.cli.report:report_command", "write one HTML file about a run, or several side by side"),
    "view": ("proctor.cli.view:view_command", "look at a folder of runs in the browser, also while they go on"),
    "serve": ("proctor.cli.serve:serve_command", "offer a policy to others over openpi's protocol"),
    "list": ("proctor.cli.list:list_command", "show the benchmarks and policies there are, with their tasks"),
    "check-benchmark": (
        "proctor.cli.check_benchmark:check_benchmark_command",
        "play a benchmark and say whether it keeps its contract",
    ),
    "doctor": ("proctor.cli.doctor:doctor_command", "say whether Proctor can run here, and what to do if not"),
}

_HELP = """Proctor evaluates robot policies in simulation.

usage: proctor COMMAND [flags]

{commands}

proctor COMMAND --help tells more; proctor --version tells the version."""

_MOST_SAID = 8_000
"""Characters of an error: a page of differences between two runs, and no more."""


def main() -> None:
    """Run the command line and exit with its status."""
    hear_of_children()
    try:
        status = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        PatientConsole().on_broken_pipe()  # nobody is left to tell
        status = EXIT_OK
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status."""
    errors = Console(stderr=True)
    try:
        return _dispatch(arguments)
    except ProctorError as error:
        errors.print(Text(f"proctor: {_bounded(str(error))}"), soft_wrap=True)
        return error.exit_status
    except KeyboardInterrupt:
        errors.print("proctor: interrupted before anything started")
        return EXIT_SIGINT


def _bounded(message: str) -> str:
    # Whatever a message quotes, it must not fill a terminal or a log.
    return message if len(message) <= _MOST_SAID else f"{message[:_MOST_SAID]}..."


def _dispatch(arguments: Sequence[str]) -> int:
    console = PatientConsole()
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        lines = "\n".join(f"  {name:<15} {words}" for name, (_, words) in COMMANDS.items())
        console.print(_HELP.format(commands=lines), markup=False, highlight=False)
        return EXIT_OK if arguments else EXIT_USAGE
    if arguments[0] in ("--version", "-V", "version"):
        console.print(f"proctor {proctor.__version__}", highlight=False)
        return EXIT_OK
    if arguments[0] not in COMMANDS:
        raise UsageError(
            f"unknown command '{arguments[0]}'.{did_you_mean(arguments[0], COMMANDS)} See: proctor --help"
        )
    command: Callable[[Sequence[str]], int] = load_object(COMMANDS[arguments[0]][0])
    return command(arguments[1:])
