"""`proctor diff`: a run beside another harness's result, or beside the other harness itself, step by step."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from proctor.cli.command import Command
from proctor.cli.unforeseen import say
from proctor.diff.findings import LiveDiff
from proctor.diff.live import diff_live, question_of
from proctor.diff.sources import HarnessResult, read_result
from proctor.diff.stored import EpisodePair, StoredDiff, diff_results
from proctor.errors import EXIT_FAILED, EXIT_OK, UsageError
from proctor.report.console import PatientConsole, count, printable
from proctor.store.bundles import opened
from proctor.store.stored_run import StoredRun
from proctor.types import Episode

MOST_LINES = 200
"""Episodes that are named one by one."""

_WORDS = """Say in what a run differs from another harness's result, or from the other harness itself.

  proctor diff outputs/expert outputs/network
  proctor diff outputs/expert outputs/network/eval_info.json

OTHER is LeRobot's eval_info.json, a result of vla-eval, or another run or bundle of Proctor's.

  proctor diff outputs/act --live
  proctor diff outputs/act reach-v3:7 --live --harness=my_loop.py:make

--live steps one episode (the first, unless one is named) in LeRobot's own environment and loop, or in yours, goes
through it with ours, and says what differs first and why."""


def _diff(given: argparse.Namespace) -> int:
    if given.live:
        return _diff_live(given)
    for flag in ("harness", "python", "steps"):
        if getattr(given, flag) is not None:
            raise UsageError(f"--{flag} is for --live.")
    if len(given.words) != 2:
        raise UsageError("name a run and another result: proctor diff RUN OTHER. See: proctor diff --help")
    with read_result(Path(given.words[0])) as first, read_result(Path(given.words[1])) as second:
        if first.run is None:
            raise UsageError(
                f"{first.shown} is {first.kind}, and the first must be a run or bundle of Proctor's: "
                "proctor diff RUN OTHER."
            )
        found = diff_results(first, second)
        if given.json:
            json.dump(as_document(found), sys.stdout, indent=2)
            sys.stdout.write("\n")
        else:
            print_stored(found, PatientConsole(highlight=False))
    return EXIT_OK if found.same else EXIT_FAILED


def _diff_live(given: argparse.Namespace) -> int:
    if not 1 <= len(given.words) <= 2:
        raise UsageError("name a run, and an episode of it if not the first: proctor diff RUN TASK:EPISODE --live")
    path = Path(given.words[0])
    with opened(path) as directory:
        run = StoredRun.open(directory)
        question = question_of(run, "".join(given.words[1:]), given.harness, given.steps or 0)
        python = given.python or (run.settings.get("policy") or {}).get("python")
        if not given.json:
            say(f"stepping {question.episode} in the other harness and in ours; every step is drawn")
        found = diff_live(question, python)
        found = dataclasses.replace(found, notes=[*found.notes, *_stored_note(run, found, question.episode)])
    if given.json:
        json.dump(found.to_wire(), sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        print_live(found, str(path), PatientConsole(highlight=False))
    return EXIT_FAILED if found.differences else EXIT_OK


def _stored_note(run: StoredRun, found: LiveDiff, episode: Episode) -> list[str]:
    """Say whether the stored episode went the way that both went here, where both went one way."""
    with run.table() as table:
        kept = table.trajectory(episode.key) if run.plan.place_of(episode.key) is not None else None
    if found.differences or kept is None:
        return []
    steps = min(kept.steps, len(found.rewards))
    same = kept.rewards[:steps].tolist() == list(found.rewards)[:steps]
    if same:
        return ["the stored episode has the same rewards"]
    return ["the stored episode has other rewards: versions, device or renderer are not those of the run here"]


def print_live(found: LiveDiff, path: str, console: PatientConsole) -> None:
    """Print what differs, the first first."""

    def tell(line: str) -> None:
        console.print(printable(line), soft_wrap=True)

    tell(
        f"{path}: {found.task} episode {found.index} (seed {found.seed}) beside {found.harness}, "
        f"{count(found.steps, 'step')}, {found.ended}"
    )
    for place, one in enumerate(found.differences):
        tell(f"{'first difference' if place == 0 else 'also'}: {one}")
        if one.values:
            tell(f"  {one.values}")
    for note in found.notes:
        tell(f"note: {note}")
    if not found.differences:
        tell("nothing differs: beginning, observations, prompt, policy input, actions, rewards, success and end")
    elif len(found.differences) > 1:
        tell("Each was found with everything before it as the other harness had it: none follows from another.")


def print_stored(found: StoredDiff, console: PatientConsole) -> None:
    """Print two results beside each other."""

    def tell(line: str) -> None:
        console.print(printable(line), soft_wrap=True)

    for name, result in (("A", found.first), ("B", found.second)):
        tell(f"{name}  {result.shown}: {_described(result)}")
    if found.settings:
        tell("settings that differ:")
    for one in found.settings:
        tell(f"  {one.name}: A {one.first}, B {one.second}")
    tell(f"paired {found.paired_by}: {count(len(found.pairs), 'episode')}")
    for line in (*found.notes, *found.unpaired[:MOST_LINES]):
        tell(f"  {line}")
    console.print(_rates(found))
    for pair in found.differing[:MOST_LINES]:
        tell(_line(pair))
    if len(found.differing) > MOST_LINES:
        tell(f"and {len(found.differing) - MOST_LINES} more")
    rounded = sum(pair.same and pair.rewards == "rounding" for pair in found.pairs)
    but = f" ({rounded} of them equal but for rounding of the sum of rewards)" if rounded else ""
    tell(f"{len(found.pairs) - len(found.differing)} of {count(len(found.pairs), 'episode')} the same{but}")


def _described(result: HarnessResult) -> str:
    settings = ", ".join(f"{name}={value}" for name, value in result.settings.items())
    parts = [
        result.kind,
        f"{count(result.episodes, 'episode')} of {count(len(result.tasks), 'task')}",
        *([f"{count(result.errors, 'error')} among them"] if result.errors else []),
        *([settings] if settings else []),
        *([f"it does not say {result.unknown}"] if result.unknown else []),
    ]
    return "; ".join(parts)


def _rates(found: StoredDiff) -> Table:
    table = Table(header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("task", overflow="fold")
    for heading in ("A", "B", "differ"):
        table.add_column(heading, justify="right", no_wrap=True)
    for task in found.tasks:
        rates = (f"{won}/{ended}" for won, ended in (task.first.rate, task.second.rate))
        table.add_row(printable(task.name), *rates, str(sum(not pair.same for pair in task.pairs)))
    return table


def _line(pair: EpisodePair) -> str:
    first, second = pair.first, pair.second
    parts = []
    if first.error != second.error:
        parts.append("A could not run it" if first.error else "B could not run it")
    elif not pair.same_success:
        parts.append(f"success: A {first.success}, B {second.success}")
    if pair.rewards == "different":
        parts.append(f"sum of rewards: A {first.sum_reward!r}, B {second.sum_reward!r}")
    if None not in (first.steps, second.steps) and first.steps != second.steps:
        parts.append(f"steps: A {first.steps}, B {second.steps}")
    if pair.where is not None:
        where = pair.where
        values = f": A {where.stored}, B {where.replayed}" if where.stored else ""
        parts.append(f"first at step {where.step}, {where.field}{values}")
    seed = "" if first.seed is None else f" (seed {first.seed})"
    return f"{pair.task} episode {first.index}{seed}: {'; '.join(parts) or 'other digests'}"


def as_document(found: StoredDiff) -> dict[str, Any]:
    """Return two results beside each other as plain values."""
    return {
        "same": found.same,
        "A": _side(found.first),
        "B": _side(found.second),
        "settings": [one._asdict() for one in found.settings],
        "paired_by": found.paired_by,
        "n_paired": len(found.pairs),
        "notes": [*found.notes],
        "unpaired": [*found.unpaired],
        "tasks": [
            {"task": task.name, "A": task.first.rate, "B": task.second.rate, "n_paired": len(task.pairs)}
            for task in found.tasks
        ],
        "n_differing": len(found.differing),
        "n_rounding": sum(pair.same and pair.rewards == "rounding" for pair in found.pairs),
        "differing": [
            {
                "task": pair.task,
                "episode_index": pair.first.index,
                "seed": pair.first.seed,
                "A": _episode(pair.first),
                "B": _episode(pair.second),
                "sum_rewards": pair.rewards,
                "first": None if pair.where is None else pair.where._asdict(),
            }
            for pair in found.differing
        ],
    }


def _side(result: HarnessResult) -> dict[str, Any]:
    return {
        "path": result.shown,
        "kind": result.kind,
        "settings": dict(result.settings),
        "n_episodes": result.episodes,
        "n_errors": result.errors,
    }


def _episode(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in ("success", "sum_reward", "steps", "error")}


def _steps(text: str) -> int:
    try:
        steps = int(text)
    except ValueError:
        steps = 0
    if steps < 1:
        raise UsageError(f"--steps={text}: expected a whole number of 1 or more.")
    return steps


diff_command = Command(
    "diff",
    _diff,
    "RUN OTHER [flags], or RUN [TASK:EPISODE] --live [flags]",
    _WORDS,
    "Exit status: 0 nothing differs, 1 something does, 2 there is nothing to compare.",
)
_add = diff_command.add_argument
_add("words", metavar="RUN OTHER", nargs="*", help="a run directory or bundle, and what to put beside it")
_add("--live", action="store_true", help="step an episode in the other harness and in ours")
_add("--harness", metavar="FILE:NAME", help="what makes the other harness: module:factory [LeRobot's own loop]")
_add("--python", metavar="PATH", help="interpreter that has what both need [the run's --policy.python, or this]")
_add("--steps", type=_steps, help="steps to compare at most [to the end]")
_add("--json", action="store_true", help="print everything as one JSON document")
