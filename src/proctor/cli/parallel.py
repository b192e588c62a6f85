"""`proctor parallel`: evaluate in several processes at once."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from proctor.benchmarks.rendering import RenderDevice
from proctor.cli.command import Given, RunCommand
from proctor.cli.eval import carry_out
from proctor.config.help import flag_tables
from proctor.config.load import build_settings
from proctor.errors import UsageError
from proctor.events import Audience
from proctor.files import clip
from proctor.parallel.run import run_parallel
from proctor.parallel.setup import ShardOptions

_WORDS = """Evaluate in several processes at once: shards of one plan, watched as one and merged at the end.

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


def _parallel(given: Given[ParallelSettings]) -> int:
    own = given.own
    number = None if own.num_shards == "auto" else own.num_shards
    if number is not None and not 1 <= number <= _MOST_SHARDS:
        raise UsageError(
            f"--num-shards={clip(number, 40)}: must be from 1 to {_MOST_SHARDS}, or auto. Each shard is a "
            "process on this machine."
        )
    settings, options = build_settings(given.tree), ShardOptions(number, own.render_device)
    return carry_out(
        settings,
        lambda watchers: run_parallel(settings, options, Audience(watchers)),
        lambda directory: _resume_command(directory, options),
    )


parallel_command = RunCommand("parallel", _parallel, _WORDS, ("Shards", ParallelSettings), flag_tables)


def _resume_command(directory: Path, options: ShardOptions) -> str:
    flags = [f"--resume={directory}"]
    if options.num_shards is not None:
        flags.append(f"--num-shards={options.num_shards}")
    if options.render_device != "auto":
        flags.append(f"--render-device={options.render_device}")
    return shlex.join(["proctor", "parallel", *flags])
