"""`proctor merge`: put shards, or partial runs of one plan, together."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from rich.console import Console
from rich.text import Text

from proctor.cli.command import Command
from proctor.engine.merging import MergedRun, merge_runs
from proctor.errors import EXIT_EPISODE_ERRORS, EXIT_OK, UsageError
from proctor.plan import spans
from proctor.report.console import PatientConsole, count
from proctor.report.summary import print_summary, write_run_report

_WORDS = """Put shards, or partial runs of one plan, together into one run.

  proctor merge outputs/sweep  # the shards in outputs/sweep, into outputs/sweep itself
  proctor merge node1/run node2/run --output_dir=outputs/all

The merged run is what one process would have made: same records, same eval_info.json; `proctor eval --resume`
finishes what is missing."""

_ENDING = """Exit status: 0 complete, 3 episodes are missing or ended in an error, 1 two runs contradict each
other, 2 they do not belong together."""

_MOST_TASKS = 8


def _merge(given: argparse.Namespace) -> int:
    if not given.directories:
        raise UsageError("name the runs to merge: proctor merge DIR... See: proctor merge --help")
    console = PatientConsole()
    merged = merge_runs(given.directories, given.output_dir)
    console.print(
        Text(f"{count(len(merged.sources), 'run')}: {', '.join(map(str, merged.sources))}"), soft_wrap=True
    )
    if merged.twice:
        console.print(f"{count(merged.twice, 'episode')} ran more than once, with equal digests", highlight=False)
    for line in merged.left_out:
        Console(stderr=True).print(Text(line), soft_wrap=True)
    print_summary(console, merged.evaluation, write_run_report(merged.evaluation))
    return _conclude(merged, Console(stderr=True))


merge_command = Command("merge", _merge, "DIR... [--output_dir=DIR]", _WORDS, _ENDING)
merge_command.add_argument(
    "directories",
    metavar="DIR",
    nargs="*",
    type=Path,
    help="a run directory, or one that holds shard_K_of_N directories",
)
merge_command.add_argument(
    "--output_dir", type=Path, metavar="DIR", help="where the merged run goes [where its shards are]"
)


def _conclude(merged: MergedRun, errors: Console) -> int:
    resume = f"proctor eval --resume={shlex.quote(str(merged.evaluation.directory))}"
    if merged.missing:
        gaps = [f"{task} {', '.join(spans(indices))}" for task, indices in merged.missing.items()]
        more = f" and {len(gaps) - _MOST_TASKS} more tasks" if len(gaps) > _MOST_TASKS else ""
        total = sum(map(len, merged.missing.values()))
        errors.print(
            Text(f"{count(total, 'episode')} missing: {'; '.join(gaps[:_MOST_TASKS])}{more}"), soft_wrap=True
        )
        ending = merged.evaluation.info["run"]["ending"]
        if ending is not None:
            errors.print(Text(f"Why, as the last of them tells: {ending}"), soft_wrap=True)
        errors.print(Text(f"To run them: {resume}"), soft_wrap=True)
        return EXIT_EPISODE_ERRORS
    if any(record.status == "error" for record in merged.evaluation.records):
        errors.print(Text(f"To try the episodes with errors again: {resume}"), soft_wrap=True)
        return EXIT_EPISODE_ERRORS
    return EXIT_OK
