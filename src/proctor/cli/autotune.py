"""`proctor autotune`: measure this machine with a policy and a benchmark, and say how to run them."""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated

from rich.console import Console
from rich.text import Text

from proctor.cli.command import Given, RunCommand
from proctor.cli.unforeseen import say
from proctor.config.load import build_settings
from proctor.config.settings import Settings
from proctor.engine.interrupts import Interrupts
from proctor.errors import EXIT_OK, EXIT_SIGINT, EXIT_SIGTERM, Interrupted, ProctorError
from proctor.machine.scratch import keep, scratch_folder
from proctor.report.console import PatientConsole
from proctor.tuning.advice import Advice, make_advice
from proctor.tuning.null_policy import NULL_POLICY
from proctor.tuning.report import advice_as_json, print_advice

_WORDS = """Measure this machine with a policy and a benchmark, and print the command that runs them best.

usage: proctor autotune EVAL-FLAGS [--json]

  proctor autotune --policy.path=proctor/metaworld-mt50 --env.type=metaworld --env.obs_type=state --env.task=easy
  proctor autotune --env.type=metaworld --env.task=easy

It takes the flags of `proctor eval`, runs real workers and the real policy for about a minute, and stores nothing.
What it finds: what cores, drawing and the policy take, what limits the run, how quick the run will be, and which
workers, batch, placement and renderer are best. Without a policy it measures the benchmark alone.
Meanwhile the machine should have nothing else to do."""


@dataclass(frozen=True)
class AutotuneSettings:
    """The flags of `proctor autotune` besides those of `proctor eval`."""

    json: Annotated[bool, "print all that was found as one JSON document"] = False


def _autotune(given: Given[AutotuneSettings]) -> int:
    arguments = [argument for argument in given.arguments if argument != "--json"]
    if not given.tree.get("policy"):
        given.tree["policy"] = {"type": NULL_POLICY}
        arguments.insert(0, "--policy.path=POLICY")
    settings = build_settings(given.tree)
    if settings.passed_over_note is not None:
        say(settings.passed_over_note)
    try:
        advice = advise(settings)
    except Interrupted as stopped:
        return stopped_measuring(stopped)
    console = PatientConsole()
    command = paste_ready(arguments, advice)
    if given.own.json:
        console.out(advice_as_json(advice, command), highlight=False)
    else:
        print_advice(console, advice, command)
    return EXIT_OK


autotune_command = RunCommand("autotune", _autotune, _WORDS, ("Autotune", AutotuneSettings), list)


def stopped_measuring(stopped: Interrupted) -> int:
    """Say that a signal ended the measurements; returns the exit status."""
    Console(stderr=True).print("stopped; nothing was stored")
    return EXIT_SIGTERM if stopped.args[0] is signal.SIGTERM else EXIT_SIGINT


def advise(settings: Settings) -> Advice:
    """Measure, and say what is done meanwhile on standard error. Raises `Interrupted` with the signal."""
    begun, errors = time.monotonic(), Console(stderr=True)

    def tell(what: str) -> None:
        errors.print(Text(f"{time.monotonic() - begun:4.0f} s  {what}", style="dim"), soft_wrap=True)

    with ExitStack() as stack:
        logs = stack.enter_context(scratch_folder("proctor-autotune-"))
        interrupts = stack.enter_context(Interrupts())
        try:
            with interrupts.abruptly():
                return make_advice(settings, logs, stack, interrupts, tell)
        except Interrupted:
            raise Interrupted(interrupts.first) from None
        except ProctorError as error:
            if str(logs) in str(error):
                keep(logs)  # the user is told to look there
            raise


def paste_ready(flags: Sequence[str], advice: Advice) -> str:
    """Return the command line that runs what was given, with the settings that were found."""
    chosen = {f"--{name}": value for name, value in advice.flags.items()}
    kept: list[str] = []
    rest = list(flags)
    while rest:
        token = rest.pop(0)
        name, equals, _ = token.partition("=")
        bare = "--" + name.removeprefix("--").replace("-", "_")
        if bare not in chosen:
            kept.append(token)
        elif not equals and rest and not rest[0].startswith("--"):
            rest.pop(0)
    words = [f"{name}={value}" for name, value in advice.environment.items()]
    start = ["eval"] if advice.shards == 1 else ["parallel", f"--num-shards={advice.shards}"]
    return " ".join(
        [*words, shlex.join(["proctor", *start, *kept, *[f"{name}={value}" for name, value in chosen.items()]])]
    )
