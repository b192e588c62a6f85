"""The `proctor` command: finds the sub-command and turns errors into one line and an exit status."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import proctor
from proctor.cli.unforeseen import report_unforeseen, say
from proctor.config.help_pages import FlagList, print_flags, print_words
from proctor.config.registry import load_object
from proctor.errors import EXIT_OK, EXIT_SIGINT, EXIT_USAGE, ProctorError, UsageError, did_you_mean
from proctor.files import reason
from proctor.machine.processes import open_file_limit
from proctor.report.console import PatientConsole

if TYPE_CHECKING:
    from proctor.cli.command import Command, RunCommand
    from proctor.cli.train import TrainCommand

# Loaded when asked for: the doctor must be able to speak where a package that the others import is broken.
COMMANDS = {
    "autotune": ("proctor.cli.autotune:autotune_command", "measure this machine and print the best command"),
    "eval": ("proctor.cli.eval:eval_command", "evaluate a policy on a benchmark"),
    "parallel": ("proctor.cli.parallel:parallel_command", "evaluate in several processes at once, and merge them"),
    "merge": ("proctor.cli.merge:merge_command", "put shards, or partial runs of one plan, together"),
    "record": ("proctor.cli.record:record_command", "record demonstrations of a policy as a LeRobotDataset"),
    "train": ("proctor.cli.train:train_command", "train a policy, and evaluate its checkpoints beside"),
    "show": (
        "proctor.cli.show:show_command",
        "show what a stored run came to, as a table, CSV, JSON or JUnit XML",
    ),
    "compare": ("proctor.cli.compare:compare_command", "say whether one policy is better than another"),
    "diff": ("proctor.cli.diff:diff_command", "say in what a run differs from another harness's result, and why"),
    "report": ("proctor.cli.report:report_command", "write one HTML file about a run, or several side by side"),
    "view": ("proctor.cli.view:view_command", "look at a folder of runs in the browser, also while they go on"),
    "replay": ("proctor.cli.replay:replay_command", "run stored episodes again without their policy, and compare"),
    "film": ("proctor.cli.film:film_command", "make videos of a run's failures, or of any episodes, afterwards"),
    "tag": ("proctor.cli.tag:tag_command", "change the tags, description and notes of a stored run"),
    "bundle": ("proctor.cli.bundle:bundle_command", "write a run into one small file, to share and to verify"),
    "verify": ("proctor.cli.verify:verify_command", "prove, by a sample, that a run or bundle is what it says"),
    "card": ("proctor.cli.card:card_command", "write a run's result into a model card for Hugging Face's Hub"),
    "serve": ("proctor.cli.serve:serve_command", "offer a policy to others over openpi's protocol"),
    "list": ("proctor.cli.list:list_command", "show the benchmarks and policies there are, with their tasks"),
    "init": ("proctor.cli.init:init_command", "write a policy or a benchmark to begin with, one file that runs"),
    "check-benchmark": (
        "proctor.cli.check_benchmark:check_benchmark_command",
        "play a benchmark and say whether it keeps its contract",
    ),
    "completion": (
        "proctor.cli.completion:completion_command",
        "print what makes a shell complete Proctor's commands",
    ),
    "doctor": ("proctor.cli.doctor:doctor_command", "say whether Proctor can run here, and what to do if not"),
}

OTHER_NAMES = {"eval-autotune": "autotune", "eval-parallel": "parallel"}

_HELP = """Proctor evaluates robot policies in simulation.

usage: proctor COMMAND [flags]"""

_MORE = """proctor COMMAND --help tells more, with examples; proctor --version tells the version.
eval-parallel and eval-autotune are other names of parallel and autotune.
eval "$(proctor completion bash)" completes commands, flags and values on Tab; zsh and fish likewise."""

_LEAST_FILES = 64


def run(arguments: Sequence[str], interrupted: Callable[[], bool] = lambda: False) -> int:
    """Run one command and return its exit status. Nothing is raised, whatever happens.

    Args:
        arguments: the command line without the program's name.
        interrupted: whether Ctrl-C was pressed; what it then raises may have become another error on its way.
    """
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt as stopped:
        say(str(stopped) or "interrupted")  # a command may know what that means for its work
        return EXIT_SIGINT
    except BaseException as error:  # SystemExit, too: only code that is not ours raises it
        if interrupted():
            say("interrupted")
            return EXIT_SIGINT
        if isinstance(error, ProctorError):
            say(str(error))
            return error.exit_status
        return report_unforeseen(error, arguments)


def _dispatch(arguments: Sequence[str]) -> int:
    console = PatientConsole()
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print_words(console, _HELP)
        print_flags(console, "Commands", FlagList([(name, words, "") for name, (_, words) in COMMANDS.items()]))
        print_words(console, _MORE)
        return EXIT_OK if arguments else EXIT_USAGE
    if arguments[0] in ("--version", "-V", "version"):
        console.print(f"proctor {proctor.__version__}", highlight=False)
        return EXIT_OK
    name = OTHER_NAMES.get(arguments[0], arguments[0])
    if name not in COMMANDS:
        known = {*COMMANDS, *OTHER_NAMES}
        raise UsageError(f"unknown command '{name}'.{did_you_mean(name, known)} See: proctor --help")
    _check_surroundings()
    command: Command | RunCommand[Any] | TrainCommand = load_object(COMMANDS[name][0])
    if {"-h", "--help"} & set(arguments[1:]):
        command.show_help(console)
        return EXIT_OK
    return command(arguments[1:])


def _check_surroundings() -> None:
    """Refuse to start where no command can work, in words of what is wrong there."""
    try:
        Path.cwd()
    except OSError as error:
        raise UsageError(f"the current directory is gone: {reason(error)}. Change to another: cd ~") from None
    files = open_file_limit()
    if files < _LEAST_FILES:
        raise UsageError(
            f"only {files} files may be open at once here, and Proctor needs {_LEAST_FILES}. Run: ulimit -n 1024"
        )
