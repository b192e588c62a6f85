"""`proctor parallel`: evaluate in several processes at once."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from rich.console import Console
from rich.text import Text

from proctor.benchmarks.rendering import RenderDevice
from proctor.cli.autotune import advise, stopped_measuring
from proctor.cli.command import Given, RunCommand
from proctor.cli.run import carry_out
from proctor.config.flags import FlagText, Nested
from proctor.config.help import flag_tables
from proctor.config.load import build_settings, section
from proctor.config.settings import Settings
from proctor.errors import Interrupted, UsageError
from proctor.events import Audience
from proctor.files import clip
from proctor.parallel.run import check_parallel, earlier_runs, run_parallel
from proctor.parallel.setup import ShardOptions
from proctor.report.console import count
from proctor.store.run_directory import RunDirectory

_WORDS = """Evaluate in several processes at once: shards of one plan, watched as one and merged at the end.

usage: proctor parallel --num-shards=N|auto [--render-device=auto|gpu|cpu] [flags of proctor eval]

  proctor parallel --num-shards=2 --policy.path=proctor/metaworld-mt50 --env.type=metaworld --env.obs_type=state \\
    --env.task=easy --eval.n_episodes=5 --output_dir=outputs/sweep
  proctor parallel --resume=outputs/sweep

One process is normally better: `proctor eval` uses all cores, and one copy of the policy answers them all. Shards
pay off with several GPUs, or with a policy that cannot batch. The result is the same, digest for digest.
A shard that dies is started again and goes on. The same command finishes what is missing."""

_MOST_SHARDS = 512


@dataclass(frozen=True, kw_only=True)
class ParallelSettings:
    """The flags of `proctor parallel` besides those of `proctor eval`."""

    num_shards: Annotated[
        int | Literal["auto"] | None,
        "processes that share the plan; auto: what proctor autotune finds best, which takes a minute [as many as "
        "lie in the run directory, else one per GPU that the policy can use, else 1]",
    ] = None
    render_device: Annotated[
        RenderDevice,
        "what draws, for all shards; auto: the GPU where there is one, unless the copies of the policy fill it",
    ] = "auto"


def _parallel(given: Given[ParallelSettings]) -> int:
    own = given.own
    number = None if own.num_shards == "auto" else own.num_shards
    _check_makes_no_shards(given.tree)
    if number is not None and not 1 <= number <= _MOST_SHARDS:
        raise UsageError(
            f"--num-shards={clip(number, 40)}: must be from 1 to {_MOST_SHARDS}, or auto. Each shard is a "
            "process on this machine."
        )
    settings = build_settings(given.tree)
    if own.num_shards == "auto" and not _has_begun(settings):
        check_parallel(settings)
        try:
            settings, number = _autotuned(settings)
        except Interrupted as stopped:
            return stopped_measuring(stopped)
    options = ShardOptions(number, own.render_device)
    return carry_out(
        settings,
        lambda watchers: run_parallel(settings, options, Audience(watchers)),
        lambda directory: _resume_command(directory, options),
    )


parallel_command = RunCommand("parallel", _parallel, _WORDS, ("Shards", ParallelSettings), flag_tables)


def _check_makes_no_shards(tree: Nested) -> None:
    """Refuse to split the plan twice, in words that fit who did it the other time."""
    chosen = section(tree, "eval")
    typed = [name for name in ("num_shards", "shard_id") if isinstance(chosen.get(name), FlagText)]
    if typed:
        flag = f"--eval.{typed[0]}={clip(chosen[typed[0]], 40)}"
        raise UsageError(f"{flag}: proctor parallel makes the shards itself. Use --num-shards=N.")
    if chosen.get("num_shards", 1) == 1:
        return
    if tree.get("resume"):
        place = Path(str(tree["resume"]))
        raise UsageError(
            f"{place} is one shard of {clip(chosen['num_shards'], 20)}. Go on with all of them: "
            f"{shlex.join(['proctor', 'parallel', f'--resume={place.parent}'])}, or with this one: proctor eval"
        )
    raise UsageError(
        "the settings are those of one shard, and proctor parallel makes the shards itself: leave eval.shard_id "
        "and eval.num_shards out of the file."
    )


def _has_begun(settings: Settings) -> bool:
    """Whether there is a run to go on with, whose shards are as many as they are."""
    return settings.output_dir is not None and bool(earlier_runs(RunDirectory(settings.output_dir)))


def _autotuned(settings: Settings) -> tuple[Settings, int]:
    """Return the settings with the number of workers that was found best, and the number of shards."""
    advice = advise(settings)
    workers = settings.eval.batch_size or advice.best_unchanged.choice.workers
    flags = f"--num-shards={advice.shards} --eval.batch_size={workers}"
    found = (
        f"{count(advice.shards, 'shard')} with {count(workers, 'worker')}{' each' if advice.shards > 1 else ''}"
    )
    Console(stderr=True).print(Text(f"{found}; the same without measuring: {flags}"), soft_wrap=True)
    return replace(settings, eval=replace(settings.eval, batch_size=workers)), advice.shards


def _resume_command(directory: Path, options: ShardOptions) -> str:
    flags = [f"--resume={directory}"]
    if options.num_shards is not None:
        flags.append(f"--num-shards={options.num_shards}")
    if options.render_device != "auto":
        flags.append(f"--render-device={options.render_device}")
    return shlex.join(["proctor", "parallel", *flags])
