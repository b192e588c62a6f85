"""`proctor verify`: prove, by a sample, that a run or a bundle is what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.text import Text

from proctor.cli.command import Given, RunCommand
from proctor.cli.replay import MOST_LINES, ReplayProgress, named_run, status_of, tables
from proctor.cli.unforeseen import say
from proctor.config.help import settings_table
from proctor.config.help_pages import FlagList
from proctor.config.settings import AtLeast, AtMost, Locates, PolicySettings
from proctor.engine.interrupts import Interrupts
from proctor.errors import EXIT_FAILED
from proctor.replay.differences import EpisodeDifference
from proctor.replay.replayer import Replay, Replayer, check_names_no_code, replayable
from proctor.replay.verification import draw, new_seed, policy_differences, statement
from proctor.report.console import PatientConsole, count
from proctor.store.bundles import content_hash, is_bundle, opened
from proctor.store.stored_run import StoredRun

_WORDS = """Prove, by a sample, that a run or a bundle is what it says.

usage: proctor verify RUN_OR_BUNDLE [--sample=59] [--policy.path=CHECKPOINT] [flags]

  proctor verify outputs/expert --sample=5
  proctor verify outputs/network --policy.path=proctor/metaworld-mt50 --sample=5

Episodes are drawn at random and replayed: their outcomes follow from their stored actions, or not. With the policy
they are also run again: the actions are the policy's own, or not. What that proves of all episodes is said.

Exit status: 0 nothing differs, 1 something does, 3 some of it could not be replayed, 2 nothing to verify."""


@dataclass(frozen=True, kw_only=True)
class VerifyFlags:
    """The flags of `proctor verify` besides those of benchmark and policy."""

    run: Annotated[Path | None, Locates("given"), "run directory or bundle; the first word is taken for it"] = None
    sample: Annotated[
        int, AtLeast(1), "how many episodes are drawn; 59 of many find 1 in 20 with 95 % confidence"
    ] = 59
    sample_seed: Annotated[
        int | None, AtLeast(0), AtMost(2**63 - 1), "draw the same sample again [the system's randomness]"
    ] = None
    pixels: Annotated[bool, "draw and compare pictures, where the policy looked at some"] = True
    workers: Annotated[int, AtLeast(0), AtMost(10_000), "simulator workers; 0: as for a run"] = 0


def _tables() -> list[tuple[str, FlagList]]:
    return [
        ("Policy, to see whether the actions are its own", settings_table("policy.", PolicySettings)),
        *tables(),
    ]


def _verify(given: Given[VerifyFlags]) -> int:
    path = named_run(given.own.run, "verify")
    console = PatientConsole(highlight=False)
    with opened(path) as directory:
        run = StoredRun.open(directory)
        if is_bundle(path):
            check_names_no_code(run, given.tree)
            console.print(Text(f"bundle {path}: sha256 {content_hash(path)}"), soft_wrap=True)
        return _verify_run(run, given, console)


def _verify_run(run: StoredRun, given: Given[VerifyFlags], console: Console) -> int:
    whole, without = replayable(run)
    seed = new_seed() if given.own.sample_seed is None else given.own.sample_seed
    sample = draw(whole, given.own.sample, seed)
    _introduce(run, len(whole), len(sample), seed, console)
    settings = {**given.tree, "eval": {"batch_size": given.own.workers}}
    policy = settings.pop("policy", None)
    watcher = ReplayProgress(Console(stderr=True, highlight=False))
    with Interrupts() as interrupts, Replayer(run, settings, given.own.pixels, say) as replayer:
        replay = replayer.replay(sample, watcher, interrupts)
        seen = replayer.seen
    status = _conclude_replay(replay, without, len(whole), console)
    if policy is None or replay.ending.error is not None or replay.ending.stopped_by is not None:
        return status
    differing = policy_differences(run, sample, seen, {**settings, "policy": policy}, watcher)
    _list(differing, console)
    words = "the actions are the policy's own" if not differing else "the actions are not this policy's"
    console.print(
        Text(f"with the policy: {statement(len(differing), len(sample), len(whole))}; {words}"), soft_wrap=True
    )
    if differing and replay.elsewhere:
        console.print(Text(f"not as in the run: {'; '.join(replay.elsewhere)}"), soft_wrap=True)
    return EXIT_FAILED if differing else status


def _introduce(run: StoredRun, whole: int, sample: int, seed: int, console: Console) -> None:
    ended = run.ended
    errors = f", {count(ended.errors, 'error')}" if ended.errors else ""
    console.print(
        Text(
            f"{run.benchmark}, policy {run.policy}, seed {run.identity['seed']}: {ended.finished} of "
            f"{count(len(run.plan), 'planned episode')} finished{errors}, {whole} with actions"
        ),
        soft_wrap=True,
    )
    console.print(f"sample of {sample}, drawn with --sample-seed={seed}")


def _conclude_replay(replay: Replay, without: Sequence[str], population: int, console: Console) -> int:
    _list(replay.differing, console)
    replayed = replay.same + len(replay.differing)
    compared = "beginnings, observations, rewards, success, endings, digests"
    pixels = f"; pixels not checkable here: {replay.pixels}" if replay.pixels else ""
    words = (
        "the outcomes follow from the stored actions" if not replay.differing else "they are not what is stored"
    )
    if replayed:
        said = f"by replay: {statement(len(replay.differing), replayed, population)}; {words} ({compared}{pixels})"
        console.print(Text(said), soft_wrap=True)
    return status_of(replay, without, console)


def _list(differing: Sequence[EpisodeDifference], console: Console) -> None:
    for one in differing[:MOST_LINES]:
        console.print(Text(str(one)), soft_wrap=True)
    if len(differing) > MOST_LINES:
        console.print(f"and {len(differing) - MOST_LINES} more")


verify_command = RunCommand(
    "verify",
    _verify,
    _WORDS,
    ("Flags", VerifyFlags),
    _tables,
    sections=("env", "limits", "policy"),
    first="run",
)
