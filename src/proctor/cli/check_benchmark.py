"""`proctor check-benchmark`: whether a benchmark keeps its contract."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from proctor.config.flags import Nested, whole_number
from proctor.config.load import section, tree_from_flags
from proctor.config.settings import MOST_SEED
from proctor.conformance.check import check_tree
from proctor.conformance.results import CheckResult, State
from proctor.conformance.score import Extent
from proctor.errors import EXIT_FAILED, EXIT_OK, UsageError, did_you_mean
from proctor.files import clip
from proctor.report.console import Mark, MarkedLine, PatientConsole, print_marked

_USAGE = """Play a benchmark in processes of its own and say whether it keeps its contract.

usage: proctor check-benchmark NAME [--env.* flags] [--tasks=a,b] [--episodes=2] [--steps=20] [--json]

  proctor check-benchmark metaworld --tasks=reach-v3,push-v3
  proctor check-benchmark my_benchmark.py:Mine --env.wind=0.5 --policy.path=my_policy.py:Scripted

  NAME         a benchmark's name, file.py:Class or module:Class; see: proctor list benchmarks
  --tasks      names of tasks, or all [three, of different groups]
  --episodes   different episodes of each task [2]
  --steps      steps of each that are compared [20]
  --seed       episode i has seed + i [1000]
  --env.*      the benchmark's settings, as for proctor eval; --env.python names another interpreter
  --policy.*   a policy that can do the tasks, to see what follows a success [expert, where there is one]
  --json       print the results as one JSON document

The exit status is 0 if every check passed, 1 if one failed, 2 if the benchmark cannot be checked here."""

_MOST = {"episodes": 1_000, "steps": 1_000_000, "seed": MOST_SEED - 1_000}
_OWN = {"tasks", *_MOST}
_MARKS: dict[State, Mark] = {"passed": "good", "failed": "bad", "note": "note", "skipped": "none"}
_WORDS: dict[State, str] = {"passed": "passed", "failed": "failed", "note": "with a note", "skipped": "skipped"}
_NAME = 19


def check_benchmark_command(arguments: Sequence[str]) -> int:
    """Run `proctor check-benchmark`; returns the exit status."""
    console = PatientConsole(highlight=False)
    if any(argument in ("-h", "--help") for argument in arguments):
        console.print(_USAGE, markup=False)
        return EXIT_OK
    tree, extent = _parse([argument for argument in arguments if argument != "--json"])
    with Console(stderr=True).status("") as status:
        results = check_tree(
            tree["env"], tree.get("policy"), extent, lambda words: status.update(f"{tree['env']['type']}: {words}")
        )
    failed = [result for result in results if not result.ok]
    if "--json" in arguments:
        document = {"ok": not failed, "checks": [dataclasses.asdict(result) for result in results]}
        console.out(json.dumps(document, indent=2), highlight=False)
    else:
        _print(console, str(tree["env"]["type"]), results)
    return EXIT_FAILED if failed else EXIT_OK


def _parse(arguments: Sequence[str]) -> tuple[Nested, Extent]:
    rest = list(arguments)
    name = rest.pop(0) if rest and not rest[0].startswith("-") and "=" not in rest[0] else ""
    tree = tree_from_flags(rest)
    own = {key: _text(tree.pop(key)) for key in _OWN & tree.keys()}
    for key in tree:
        if key not in ("env", "policy"):
            known = {f"--{flag}" for flag in (*_OWN, "json", "env.task", "policy.type")}
            raise UsageError(
                f"unknown flag --{key}.{did_you_mean(f'--{key}', known)} See: proctor check-benchmark --help"
            )
    tree["env"] = env = section(tree, "env")
    if "policy" in tree:
        tree["policy"] = section(tree, "policy")
    if name:
        env["type"] = name
    if not env.get("type"):
        raise UsageError("name a benchmark: proctor check-benchmark NAME. See: proctor list benchmarks")
    tasks = [task.strip() for task in own.pop("tasks", "").split(",") if task.strip()]
    numbers: dict[str, Any] = {key: whole_number(key, text, 0, _MOST[key]) for key, text in own.items()}
    return tree, Extent(tasks, **numbers)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else clip(value)


def _print(console: Console, name: str, results: Sequence[CheckResult]) -> None:
    for result in results:
        line = MarkedLine(_MARKS[result.state], result.name, result.text, result.remedy)
        print_marked(console, line, 0, _NAME)
    numbers = {state: sum(result.state == state for result in results) for state in _MARKS}
    told = ", ".join(f"{number} {_WORDS[state]}" for state, number in numbers.items() if number)
    broken = bool(numbers["failed"])
    verdict = f"{name} {'does not keep' if broken else 'keeps'} its contract: {told}."
    console.print()
    console.print(Text(verdict, style="bold red" if broken else "green"), soft_wrap=True)
