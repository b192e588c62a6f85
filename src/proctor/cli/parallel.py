"""`proctor parallel`: evaluate in several processes at once."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from rich.console import Console
from rich.text import Text

from proctor.benchmarks.rendering import RenderDevice
from proctor.cli.eval import after_run, conclude
from proctor.config.help import flag_tables, settings_table
from proctor.config.load import build_settings, tree_from_flags, validated
from proctor.config.settings import Settings
from proctor.errors import EXIT_OK, UsageError
from proctor.events import Audience
from proctor.files import clip
from proctor.parallel.run import run_parallel
from proctor.parallel.setup import ShardOptions
from proctor.report.console import PatientConsole
from proctor.report.display import make_display
from proctor.store.run_directory import SHARD_DIRECTORIES
from proctor.trackers.run_trackers import Trackers

_USAGE = """Evaluate in several processes at once: shards of one plan, watched as one and merged at the end.

usage: proctor parallel --num-shards=N|auto [--render-device=auto|gpu|cpu] [flags of proctor eval]

  proctor parallel --num-shards=4 --policy.path=CHECKPOINT --env.type=metaworld --env.task=easy
  proctor parallel --resume=outputs/sweep

One process is normally better: `proctor eval` uses all cores, and one copy of the policy answers them all. Shards
pay off with several GPUs, or with a policy that cannot batch. The result is the same, digest for digest.
A shard that dies is started again and goes on. The same command finishes what is missing."""

_MOST_SHARDS = 512


@dataclass(frozen=True, kw_only=True)
class ParallelSettings:
    """The flags of `proctor parallel` besides those of `proctor eval`."""

    num_shards: Annotated[
        int | Literal["auto"],
        "processes that share the plan; auto: as many as lie in the run directory, else one per GPU that the "
        "policy can use, else 1",
    ] = "auto"
    render_device: Annotated[
        RenderDevice,
        "what draws, for all shards; auto: the GPU where there is one, unless the copies of the policy fill it",
    ] = "auto"


def parallel_command(arguments: Sequence[str]) -> int:
    """Run `proctor parallel`; returns the exit status."""
    console = PatientConsole()
    if any(argument in ("-h", "--help") for argument in arguments):
        _print_help(console)
        return EXIT_OK
    settings, options = _settings(arguments)
    display = make_display(console, settings)
    with Trackers(settings, display.note) as trackers:
        evaluation = run_parallel(settings, options, Audience([display, trackers]))
        resume = _again(evaluation.directory, options)
        with after_run(evaluation, resume):
            trackers.conclude(evaluation)
    directory = evaluation.directory
    logs = [evaluation.run.directory.logs, *sorted(directory.glob(f"{SHARD_DIRECTORIES}/logs"))]
    with after_run(evaluation, resume):
        return conclude(evaluation, console, display, resume, logs)


def _settings(arguments: Sequence[str]) -> tuple[Settings, ShardOptions]:
    names = [field.name for field in dataclasses.fields(ParallelSettings)]
    tree = tree_from_flags(arguments)
    own: ParallelSettings = validated(
        "", ParallelSettings, {name: tree.pop(name) for name in names if name in tree}
    )
    if own.num_shards != "auto" and not 1 <= own.num_shards <= _MOST_SHARDS:
        raise UsageError(
            f"--num-shards={clip(own.num_shards, 40)}: must be from 1 to {_MOST_SHARDS}, or auto. Each shard is a "
            "process on this machine."
        )
    number = None if own.num_shards == "auto" else own.num_shards
    return build_settings(tree), ShardOptions(number, own.render_device)


def _again(directory: Path, options: ShardOptions) -> str:
    flags = [f"--resume={directory}"]
    if options.num_shards is not None:
        flags.append(f"--num-shards={options.num_shards}")
    if options.render_device != "auto":
        flags.append(f"--render-device={options.render_device}")
    return shlex.join(["proctor", "parallel", *flags])


def _print_help(console: Console) -> None:
    console.print(_USAGE, markup=False, highlight=False)
    for title, table in [("Shards", settings_table("", ParallelSettings)), *flag_tables()]:
        console.print()
        console.print(Text(title, style="bold"))
        console.print(table)
