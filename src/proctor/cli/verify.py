"""`proctor verify`: prove, by a sample, that a run or a bundle is what it says."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.text import Text

from proctor.cli.command import Given, RunCommand
from proctor.cli.replay import MOST_LINES, ReplayProgress, named_run, status_of, tables
from proctor.cli.unforeseen import say
from proctor.config.help import settings_table
from proctor.config.help_pages import FlagList
from proctor.config.settings import AtLeast, AtMost, Locates, PolicySettings
from proctor.errors import EXIT_EPISODE_ERRORS, EXIT_FAILED, EXIT_OK, EXIT_SIGINT, EXIT_SIGTERM, EXIT_USAGE
from proctor.report.console import PatientConsole, count

if TYPE_CHECKING:
    from proctor.plan import Plan
    from proctor.replay.differences import EpisodeDifference
    from proctor.replay.policy_check import PolicyCheck
    from proctor.replay.replayer import Replay
    from proctor.results import ScoredRun

_SEVERITY = (EXIT_OK, EXIT_EPISODE_ERRORS, EXIT_USAGE, EXIT_FAILED, EXIT_SIGTERM, EXIT_SIGINT)
"""Exit statuses of the parts: the last of these is that of the whole."""

_WORDS = """Prove, by a sample, that a run or a bundle is what it says.

usage: proctor verify RUN_OR_BUNDLE [--sample=59] [--policy.path=CHECKPOINT] [flags]

  proctor verify outputs/expert --sample=5
  proctor verify outputs/network --policy.path=proctor/metaworld-mt50 --sample=5

Episodes are drawn at random and replayed: their outcomes follow from their stored actions, or not. With the policy
they are also run again: the actions are the policy's own, or not. What that proves of all episodes is said.

Exit status: 0 nothing differs, 1 something does, 3 some of it could not be proved, 2 nothing to verify."""


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
    from proctor.replay.replayer import check_names_no_code
    from proctor.results import ScoredRun
    from proctor.store.bundles import content_hash, is_bundle, opened

    path = named_run(given.own.run, "verify")
    console = PatientConsole(highlight=False)
    with opened(path) as directory:
        run = ScoredRun.open(directory)
        if is_bundle(path):
            check_names_no_code(run, given.tree)
            console.print(Text(f"bundle {path}: sha256 {content_hash(path)}"), soft_wrap=True)
        return _verify_run(run, given, console)


def _verify_run(run: ScoredRun, given: Given[VerifyFlags], console: Console) -> int:
    from proctor.engine.interrupts import Interrupts
    from proctor.replay.policy_check import check_policy
    from proctor.replay.replayer import Replayer, replayable
    from proctor.replay.verification import draw, new_seed, not_covered

    whole, _ = replayable(run)
    seed = new_seed() if given.own.sample_seed is None else given.own.sample_seed
    sample = draw(whole, given.own.sample, seed)
    _introduce(run, whole, len(sample), seed, console)
    settings = {**given.tree, "eval": {"batch_size": given.own.workers}}
    policy = settings.pop("policy", None)
    watcher = ReplayProgress(Console(stderr=True, highlight=False))
    with Interrupts() as interrupts, Replayer(run, settings, given.own.pixels, say) as replayer:
        replay = replayer.replay(sample, watcher, interrupts)
        seen = replayer.seen
    statuses = [_conclude_replay(replay, len(whole), console)]
    with_policy = policy is not None and replay.ending.error is None and replay.ending.stopped_by is None
    if with_policy:
        check = check_policy(run, sample, seen, {**settings, "policy": policy}, watcher)
        statuses.append(_conclude_policy(check, run, len(whole), console))
    if rest := not_covered(run, whole, with_policy):
        console.print(Text(f"not covered: {'; '.join(rest)}"), soft_wrap=True)
    return max(statuses, key=_SEVERITY.index)


def _introduce(run: ScoredRun, whole: Plan, sample: int, seed: int, console: Console) -> None:
    from proctor.replay.verification import result_in_question

    ended = run.ended
    errors = f", {count(ended.errors, 'error')}" if ended.errors else ""
    console.print(
        Text(
            f"{run.benchmark}, policy {run.policy}, seed {run.identity['seed']}: {ended.finished} of "
            f"{count(len(run.plan), 'planned episode')} finished{errors}, {len(whole)} with actions"
        ),
        soft_wrap=True,
    )
    console.print(Text(f"to be verified: {result_in_question(run, whole)}"), soft_wrap=True)
    console.print(f"sample of {sample}, drawn with --sample-seed={seed}")


def _conclude_replay(replay: Replay, population: int, console: Console) -> int:
    from proctor.replay.verification import sample_of

    _list(replay.differing, console)
    sample = sample_of(replay, population)
    compared = "beginnings, observations, rewards, success, endings, digests"
    pixels = f"; pixels not checkable here: {replay.pixels}" if replay.pixels else ""
    words = "they are not what is stored" if sample.differing else "the outcomes follow from the stored actions"
    proved = "" if not sample.differing and sample.doubtful + sample.cut_off else f"; {words}"
    console.print(Text(f"by replay: {sample.statement()}{proved} ({compared}{pixels})"), soft_wrap=True)
    if replay.elsewhere and not replay.differing:  # else it is said as what may be behind the difference
        console.print(Text(f"not as in the run: {'; '.join(replay.elsewhere)}"), soft_wrap=True)
    return status_of(replay, (), console)


def _conclude_policy(check: PolicyCheck, run: ScoredRun, population: int, console: Console) -> int:
    """Say whether the actions are the policy's own, and with what they were compared; returns the exit status."""
    _list(check.differing, console)
    sample = check.sample(population)
    words = "; the actions are not this policy's" if check.others else ""
    if not sample.doubtful and not sample.cut_off:
        words = "; the actions are the policy's own"
    console.print(Text(f"with the policy: {sample.statement('act otherwise')}{words}"), soft_wrap=True)
    if check.apart:
        console.print(f"{count(len(check.apart), 'episode')} of the policy's own actions differ in something else")
    if check.pixels:
        console.print(Text(f"pixels not checkable here: {check.pixels}"), soft_wrap=True)
    if check.elsewhere:
        console.print(Text(f"not as in the run: {'; '.join(check.elsewhere)}"), soft_wrap=True)
    if not run.reproducible:
        console.print("the run is marked as not reproducible: its own policy may act otherwise another time")
    for line in check.failed[:MOST_LINES]:
        say(f"not run again: {line}")
    if check.stopped_by is not None:
        return EXIT_SIGINT if check.stopped_by is signal.SIGINT else EXIT_SIGTERM
    if check.others or check.apart or (check.misled and not check.pixels):
        return EXIT_FAILED
    return EXIT_EPISODE_ERRORS if check.misled or check.failed else EXIT_OK


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
