"""`proctor card`: a run's result in the forms of Hugging Face's model cards."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.text import Text

from proctor.cli.command import Command
from proctor.cli.unforeseen import say
from proctor.errors import EXIT_OK, UsageError
from proctor.report.console import PatientConsole

_WORDS = """Write a run's result into a model's folder, as Hugging Face's Hub reads it: model-index in README.md,
and .eval_results/*.yaml if the Hub lists the benchmark. All else in README.md is kept, byte for byte.

  mkdir -p model && proctor card outputs/network --to=model
  proctor card outputs/network --to=model --benchmark=my-team/metaworld --task-id=easy

A run directory or a bundle will do. The run must be complete, or stopped by a rule, and of a whole plan. Errors
count as failures here."""


def _card(given: argparse.Namespace) -> int:
    if given.run is None:
        raise UsageError(
            "name a run directory or bundle: proctor card RUN --to=MODEL_DIR. See: proctor card --help"
        )
    if given.to is None:
        raise UsageError("name the model's folder: proctor card RUN --to=MODEL_DIR")
    if (given.benchmark is None) != (given.task_id is None):
        raise UsageError("--benchmark and --task-id go together: the dataset's id on the Hub, and a task in it.")
    from proctor.report.card import Listing, evaluated_elsewhere, write_card
    from proctor.results import ScoredRun
    from proctor.store.bundles import content_hash, is_bundle, opened

    listing = None if given.benchmark is None else Listing(given.benchmark, given.task_id)
    with opened(given.run) as place:
        run = ScoredRun.open(place)
        bundle = content_hash(given.run) if is_bundle(given.run) else None
        changed = write_card(run, given.to, given.name, listing, bundle)
        other = evaluated_elsewhere(run, given.to)
    if other is not None:
        say(f"note: the run evaluated {other}. Make sure that this is the model in {given.to}.")
    console = PatientConsole()
    for path in changed:
        console.print(Text(f"written: {path}"), soft_wrap=True)
    if not changed:
        console.print(Text(f"{given.to} says so already; nothing was changed"), soft_wrap=True)
    return EXIT_OK


card_command = Command(
    "card",
    _card,
    "RUN --to=MODEL_DIR [--name=MODEL] [--benchmark=ORG/DATASET --task-id=TASK]",
    _WORDS,
    "Exit status: 0 written or there already, 2 the run has no result to publish or the card cannot be added to, "
    "1 a file cannot be written.",
)
card_command.add_argument("run", metavar="RUN", nargs="?", type=Path, help="a run directory or bundle")
card_command.add_argument(
    "--to", metavar="MODEL_DIR", type=Path, help="the model's folder; README.md is made if missing"
)
card_command.add_argument(
    "--name", metavar="MODEL", help="what a new model-index calls the model [the folder's name]"
)
card_command.add_argument(
    "--benchmark", metavar="ORG/DATASET", help="the dataset that the Hub has registered as this benchmark"
)
card_command.add_argument("--task-id", metavar="TASK", help="the benchmark's task, as its eval.yaml names it")
