"""`proctor list`: the benchmarks and policies there are, from which packages, and their tasks."""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
import os
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from proctor.cli.command import Command
from proctor.config.help import settings_table
from proctor.config.help_pages import FlagList
from proctor.config.settings import EnvSettings, PolicySettings
from proctor.errors import EXIT_OK, UsageError, did_you_mean
from proctor.report.console import PatientConsole, count

if TYPE_CHECKING:
    from proctor.availability import Entry, Kind

_WORDS = """Show the benchmarks and kinds of policies there are, which package each is from, and their tasks.

  proctor list  # everything, a line each
  proctor list benchmarks metaworld  # all tasks of one, with prompts and step limits, and its settings
  proctor list policies --json  # for programs"""

_KINDS: dict[str, Kind] = {"benchmarks": "benchmark", "policies": "policy"}
_THREADS = "OPENBLAS_NUM_THREADS"
_UNBROKEN = 10_000
"""Columns where no terminal sets them: a row stays a line, for grep and awk."""


def _list(given: argparse.Namespace) -> int:
    _import_numpy_alone()
    from proctor.availability import list_available

    console = PatientConsole(highlight=False)
    words = list(given.words)
    kinds = [words.pop(0)] if words and words[0] in _KINDS else list(_KINDS)
    if len(words) > 1:
        raise UsageError(f"'{words[1]}': one name at most. See: proctor list --help")
    name = words[0] if words else ""
    everything = {plural: list_available(_KINDS[plural]) for plural in kinds}
    found = {plural: [e for e in entries if name in ("", e.name)] for plural, entries in everything.items()}
    if name:
        found = {plural: entries for plural, entries in found.items() if entries}
    if not found:
        known = sorted({entry.name for entries in everything.values() for entry in entries})
        what = _KINDS[kinds[0]] if len(kinds) == 1 else "benchmark or policy"
        raise UsageError(
            f"there is no {what} '{name}'.{did_you_mean(name, [*known, *_KINDS])} Known: {', '.join(known)}."
        )
    if given.json:
        document = {plural: [_plain(entry, bool(name)) for entry in entries] for plural, entries in found.items()}
        console.out(json.dumps(document, indent=2), highlight=False)
    elif name:
        for entries in found.values():
            for entry in entries:
                _print_one(console, entry)
    else:
        _print_all(console, found)
    return EXIT_OK


def _import_numpy_alone() -> None:
    """Import NumPy, which comes with the classes, without its threads: nothing is computed, and they cost more."""
    before = os.environ.get(_THREADS)
    os.environ[_THREADS] = "1"
    try:
        import numpy  # noqa: F401
    finally:
        os.environ.pop(_THREADS) if before is None else os.environ.update({_THREADS: before})


list_command = Command(
    "list",
    _list,
    "[benchmarks|policies] [NAME] [--json]",
    _WORDS,
    """It opens no simulator. A benchmark that has to open one to know its tasks is shown without them.
Other packages add theirs by entry points: see docs/add-a-benchmark.md.""",
)
list_command.add_argument("words", metavar="NAME", nargs="*", help="which kind, and which of them")
list_command.add_argument("--json", action="store_true", help="print everything as one JSON document")


def _print_all(console: Console, found: dict[str, list[Entry]]) -> None:
    for number, (plural, entries) in enumerate(found.items()):
        if number:
            console.print()
        table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)
        for heading in (plural, "package", "tasks" if plural == "benchmarks" else "", "what"):
            if heading:
                table.add_column(heading, no_wrap=heading != "what", overflow="fold")
        for entry in entries:
            cells: list[Text] = [Text(entry.name, style="cyan"), Text(f"{entry.package} {entry.version}".strip())]
            if entry.kind == "benchmark":
                cells.append(Text(_extent(entry)))
            table.add_row(*cells, _state(entry))
        _print_table(console, table)


def _print_table(console: Console, table: Table | FlagList) -> None:
    if console.is_terminal:
        console.print(table)
        return
    page = io.StringIO()
    Console(file=page, width=_UNBROKEN).print(table)
    for line in page.getvalue().splitlines():
        console.out(line.rstrip(), highlight=False)


def _extent(entry: Entry) -> str:
    if entry.catalogue is None:
        return "–"
    if not entry.catalogue:
        return "named by --env.task"
    return f"{len(entry.tasks)} in {count(len(entry.catalogue), 'group')}"


def _state(entry: Entry) -> Text:
    if entry.state == "ready":
        return Text(entry.about)
    if entry.state == "absent":
        return Text.assemble(("not installed: ", "yellow"), entry.reason)
    return Text.assemble(("broken: ", "bold red"), entry.reason)


def _print_one(console: Console, entry: Entry) -> None:
    console.print(
        Text.assemble(
            (entry.name, "bold cyan"), f"  {entry.kind} of {entry.package} {entry.version} ({entry.target})"
        ),
        soft_wrap=True,
    )
    if entry.about:
        console.print(Text(entry.about), soft_wrap=True)
    if entry.state != "ready":
        console.print(_state(entry), soft_wrap=True)
    base = EnvSettings if entry.kind == "benchmark" else PolicySettings
    if entry.settings is not None and entry.settings is not base:
        own = {field.name for field in dataclasses.fields(base)}
        console.print(Text("\nsettings", style="bold"))
        prefix = "env." if entry.kind == "benchmark" else "policy."
        _print_table(console, settings_table(prefix, entry.settings, own))
    if entry.catalogue:
        _print_tasks(console, entry)
    elif entry.kind == "benchmark" and entry.settings is not None:
        console.print(Text(f"\ntasks: {_unknown(entry)}"), soft_wrap=True)


def _unknown(entry: Entry) -> str:
    if entry.catalogue is None:
        return "known when its simulator is opened, by proctor eval"
    return "named by --env.task"


def _print_tasks(console: Console, entry: Entry) -> None:
    groups = entry.catalogue or {}
    console.print(Text("\ngroups", style="bold"))
    for group, tasks in groups.items():
        console.print(Text.assemble((f"  {group}", "cyan"), f"  {count(len(tasks), 'task')}"), soft_wrap=True)
    console.print()
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("tasks", style="cyan", no_wrap=True)
    table.add_column("groups", no_wrap=True)
    table.add_column("steps", justify="right")
    table.add_column("prompt", overflow="fold")
    for task in entry.tasks:
        members = [group for group, tasks in groups.items() if task.name in {each.name for each in tasks}]
        table.add_row(Text(task.name), Text(", ".join(members)), str(task.max_steps), Text(task.prompt))
    _print_table(console, table)


def _plain(entry: Entry, with_tasks: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        name: getattr(entry, name) for name in ("name", "package", "version", "target", "state", "reason", "about")
    }
    if entry.kind == "benchmark":
        catalogue = entry.catalogue
        document["groups"] = (
            None if catalogue is None else {group: [t.name for t in tasks] for group, tasks in catalogue.items()}
        )
        if with_tasks and catalogue is not None:
            document["tasks"] = [
                {"name": task.name, "prompt": task.prompt, "max_steps": task.max_steps} for task in entry.tasks
            ]
    return document
