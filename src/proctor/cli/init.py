"""`proctor init`: a policy or a benchmark to begin with, in one file that runs as it is."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from rich.text import Text

from proctor.cli.command import Command
from proctor.errors import EXIT_OK, UsageError, did_you_mean
from proctor.files import clip, given_path
from proctor.report.console import PatientConsole

TEMPLATES = Path(__file__).parent / "templates"
KINDS = ("policy", "benchmark")

_WORDS = """Write a policy or a benchmark to begin with: one file that runs as it is, with what each method is for.

  proctor init policy
  proctor init policy grasp.py
  proctor init benchmark my_tasks.py

The command that runs it is printed. A file that is there already is left alone."""


def _init(given: argparse.Namespace) -> int:
    kind, *names = given.words or [""]
    if kind not in KINDS:
        what = f"'{clip(kind, 60)}': " if kind else ""
        raise UsageError(
            f"{what}say policy or benchmark: proctor init policy my_policy.py.{did_you_mean(kind, KINDS)}"
        )
    if len(names) > 1:
        raise UsageError(f"'{clip(names[1], 60)}': one file at a time. See: proctor init --help")
    path = Path(names[0] if names else f"my_{kind}")
    path = path if path.suffix == ".py" else path.with_name(f"{path.name}.py")
    with given_path(path):
        _write_new(path, (TEMPLATES / f"{kind}.py").read_text())
    console = PatientConsole(highlight=False)
    console.print(Text(f"written: {path}"), soft_wrap=True)
    for command in commands(kind, path):
        console.print(Text(f"  {shlex.join(command)}"), soft_wrap=True)
    return EXIT_OK


def _write_new(path: Path, text: str) -> None:
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path}: there is no directory {path.absolute().parent}.")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} is there already, and is left as it is. Name another file.") from None


def commands(kind: str, path: Path) -> list[list[str]]:
    """Return the commands that try a template."""
    if kind == "policy":
        task = ["--env.type=metaworld", "--env.obs_type=state", "--env.task=reach-v3"]
        return [["proctor", "eval", f"--policy.path={path}:MyPolicy", *task, "--eval.n_episodes=2"]]
    benchmark, policy = f"{path}:MyBenchmark", f"--policy.path={path}:scripted"
    return [
        ["proctor", "check-benchmark", benchmark, policy],
        ["proctor", "eval", f"--env.type={benchmark}", policy, "--eval.n_episodes=10"],
    ]


init_command = Command(
    "init",
    _init,
    "policy|benchmark [FILE]",
    _WORDS,
    "Exit status: 0 written, 2 the file is there already, or cannot be written.",
)
init_command.add_argument(
    "words",
    metavar="policy|benchmark",
    nargs="*",
    help="which of them, and the file to write [my_policy.py or my_benchmark.py]",
)
