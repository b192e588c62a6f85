"""`proctor record`: demonstrations of a policy, as a LeRobotDataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from proctor.cli.command import Given, RunCommand
from proctor.cli.run import evaluate_here
from proctor.config.flags import FlagText, Nested
from proctor.config.help import flag_tables
from proctor.config.load import build_settings, section
from proctor.config.settings import AtLeast
from proctor.errors import UsageError
from proctor.files import clip

_WORDS = """Record demonstrations of a policy, on all cores, as one LeRobotDataset v3.

usage: proctor record --demonstrations=N --policy.type=KIND --env.type=BENCHMARK --env.task=TASKS [flags]

  proctor record --demonstrations=5 --policy.type=expert --env.type=metaworld --env.task=easy --env.obs_type=state
  proctor record --demonstrations=200 --noise=0,0.1,0.25,0.5 --policy.type=expert --env.type=metaworld \\
    --env.task=mt50 --env.obs_type=state --output_dir=outputs/demonstrations
  proctor record --resume=outputs/demonstrations

The dataset is OUTPUT_DIR/dataset. It has the first N successes of every task, so it is the same for any number of
workers, after crashes and after a resume. Pictures are recorded if the --env settings have any; Meta-World's
--env.obs_type=state has none. Seeds are others than an evaluation's: --seed is 1000000 unless you choose it."""

_SEED = 1_000_000
"""Of the first episode. Evaluations begin at 1000, and a policy is not to be tested on what it was trained on."""

_DEMONSTRATIONS = 50
_TRIES = 10
"""Episodes of a task for each demonstration, at the most: a policy that succeeds less often teaches little."""


@dataclass(frozen=True, kw_only=True)
class RecordSettings:
    """The flags of `proctor record` besides those of `proctor eval`."""

    demonstrations: Annotated[
        int | None, AtLeast(1), f"episodes of every task in the dataset [{_DEMONSTRATIONS}]"
    ] = None
    only_success: Annotated[bool | None, "false: the first episodes of every task, failures too [true]"] = None
    noise: Annotated[
        str | None,
        "noise on executed actions, as a share of half their range; labels stay clean. Of a comma list each "
        "episode takes one [0]",
    ] = None


def _record(given: Given[RecordSettings]) -> int:
    return evaluate_here(build_settings(_as_run(given.own, given.tree)), "record")


record_command = RunCommand("record", _record, _WORDS, ("Demonstrations", RecordSettings), flag_tables)


def _as_run(own: RecordSettings, tree: Nested) -> Nested:
    """Return the settings of the run that records: as given, else as in a file or the run that goes on."""
    chosen, resumed = section(tree, "eval"), tree.get("resume")
    for name in ("recording", "demonstrations", "only_success", "noise"):
        if isinstance(chosen.get(name), FlagText):
            instead = "it records in any case" if name == "recording" else f"use --{name.replace('_', '-')}"
            raise UsageError(f"--eval.{name}: leave it out here; {instead}.")
    if resumed:
        _check_goes_on(own, chosen, resumed)
    only_success = own.only_success if own.only_success is not None else chosen.get("only_success", True)
    number = own.demonstrations or chosen.get("demonstrations") or (None if resumed else _DEMONSTRATIONS)
    if number is not None:
        chosen["demonstrations"] = number if only_success else 0
        if not isinstance(chosen.get("n_episodes"), FlagText):
            tries = _TRIES * number if only_success else number
            chosen["n_episodes"] = max(tries, chosen.get("n_episodes", 0)) if resumed else tries
    if own.noise is not None:
        chosen["noise"] = own.noise
    if not resumed:
        tree.setdefault("seed", _SEED)
        tree.setdefault("job_name", "record")
    return {**tree, "eval": {**chosen, "recording": True, "only_success": only_success}}


def _check_goes_on(own: RecordSettings, stored: Nested, directory: str) -> None:
    """Refuse to go on with a run that was not recorded from its first episode on, or recorded other ones."""
    if not stored.get("recording"):
        raise UsageError(
            f"--resume={clip(directory)}: that run was not recorded, so it has no demonstrations to go on with. "
            "Record into a new --output_dir."
        )
    before = bool(stored.get("only_success", False))
    if own.only_success is not None and own.only_success != before:
        raise UsageError(
            f"--only-success={str(own.only_success).lower()}: the run in {clip(directory)} was recorded with "
            f"{str(before).lower()}. Record into a new --output_dir."
        )
