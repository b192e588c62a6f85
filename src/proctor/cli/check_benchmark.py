"""`proctor check-benchmark`: whether a benchmark keeps its contract."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from rich.console import Console
from rich.text import Text

from proctor.cli.command import Given, RunCommand
from proctor.config.load import section
from proctor.config.settings import MOST_SEED, AtLeast, AtMost
from proctor.conformance.results import CheckResult, State
from proctor.conformance.schedule import Extent
from proctor.conformance.suite import check_tree
from proctor.errors import EXIT_FAILED, EXIT_OK, UsageError
from proctor.report.console import Mark, MarkedLine, PatientConsole, print_marked

_WORDS = """Play a benchmark in processes of its own and say whether it keeps its contract.

usage: proctor check-benchmark NAME [--env.* flags] [--tasks=a,b] [--episodes=2] [--steps=20] [--json]

  proctor check-benchmark metaworld --tasks=reach-v3,push-v3
  proctor init benchmark my_benchmark.py  # a template to begin with
  proctor check-benchmark my_benchmark.py:MyBenchmark --policy.path=my_benchmark.py:scripted

NAME is a benchmark's name, file.py:Class or module:Class; see: proctor list benchmarks. --env.* are its settings,
as for proctor eval; --env.python names another interpreter. --policy.* name a policy that can do the tasks, to
see what follows a success [expert, where there is one].

The exit status is 0 if every check passed, 1 if one failed, 2 if the benchmark cannot be checked here."""

_MARKS: dict[State, Mark] = {"passed": "good", "failed": "bad", "note": "note", "skipped": "none"}
_VERDICTS: dict[State, str] = {
    "passed": "passed",
    "failed": "failed",
    "note": "with a note",
    "skipped": "skipped",
}
_NAME = 19


@dataclass(frozen=True, kw_only=True)
class CheckSettings:
    """The flags of `proctor check-benchmark` besides the benchmark's and the policy's."""

    tasks: Annotated[str, "names of tasks, or all [three, of different groups]"] = ""
    episodes: Annotated[int, AtMost(1_000), "different episodes of each task"] = 2
    steps: Annotated[int, AtMost(1_000_000), "steps of each that are compared"] = 20
    seed: Annotated[int, AtLeast(0), AtMost(MOST_SEED - 1_000), "episode i has seed + i"] = 1000
    json: Annotated[bool, "print the results as one JSON document"] = False


def _check(given: Given[CheckSettings]) -> int:
    own, tree = given.own, given.tree
    env, policy = section(tree, "env"), section(tree, "policy") if "policy" in tree else None
    if not env.get("type"):
        raise UsageError("name a benchmark: proctor check-benchmark NAME. See: proctor list benchmarks")
    tasks = [task.strip() for task in own.tasks.split(",") if task.strip()]
    extent = Extent(tasks, episodes=own.episodes, steps=own.steps, seed=own.seed)
    with Console(stderr=True).status("") as status:
        results = check_tree(env, policy, extent, lambda words: status.update(f"{env['type']}: {words}"))
    failed = [result for result in results if not result.ok]
    console = PatientConsole(highlight=False)
    if own.json:
        document = {"ok": not failed, "checks": [dataclasses.asdict(result) for result in results]}
        console.out(json.dumps(document, indent=2), highlight=False)
    else:
        _print(console, str(env["type"]), results)
    return EXIT_FAILED if failed else EXIT_OK


check_benchmark_command = RunCommand(
    "check-benchmark", _check, _WORDS, ("Checks", CheckSettings), list, ("env", "policy"), first="env.type"
)


def _print(console: Console, name: str, results: Sequence[CheckResult]) -> None:
    for result in results:
        line = MarkedLine(_MARKS[result.state], result.name, result.text, result.remedy)
        print_marked(console, line, 0, _NAME)
    numbers = {state: sum(result.state == state for result in results) for state in _MARKS}
    told = ", ".join(f"{number} {_VERDICTS[state]}" for state, number in numbers.items() if number)
    broken = bool(numbers["failed"])
    verdict = f"{name} {'does not keep' if broken else 'keeps'} its contract: {told}."
    console.print()
    console.print(Text(verdict, style="bold red" if broken else "green"), soft_wrap=True)
