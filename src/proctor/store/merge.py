"""Several runs of one plan as one: what they share, where they contradict each other, and taking them over."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from proctor.errors import IdentityError, StoreError, UsageError
from proctor.files import check_folder
from proctor.identity import Identity, differences
from proctor.plan import Plan, make_plan
from proctor.policies.protocol import PolicySpec
from proctor.store.episodes import EpisodeTable
from proctor.store.outcomes import FAILURE, SUCCESS, UNKNOWN
from proctor.store.run_directory import DATABASE, SHARD_DIRECTORIES, RunDirectory
from proctor.store.schema import EpisodeRecord
from proctor.store.sqlite_file import is_begun
from proctor.store.stored_run import StoredRun
from proctor.store.videos import bring_video, links_among
from proctor.types import EpisodeKey, Task

_MOST_SHOWN = 5


@dataclass(frozen=True)
class Sources:
    """Runs that belong together."""

    runs: Sequence[StoredRun]
    identity: Identity
    tasks: Sequence[Task]
    per_task: int
    only: str | None
    reproducible: bool
    policy_spec: PolicySpec | None
    twice: int
    """How many episodes more than one of them has finished, with equal digests."""
    stopped: Mapping[str, Any] | None
    """Where a rule ended one of them; of several, the one that came furthest."""

    @property
    def plan(self) -> Plan:
        """All episodes of all of them."""
        return make_plan(self.tasks, self.per_task, self.identity["seed"], self.only)


def find_runs(directories: Iterable[Path]) -> list[Path]:
    """Return the runs in the given directories: the directory itself, and its shards. Raises `UsageError`."""
    found: dict[Path, None] = {}
    for directory in directories:
        check_folder(directory, "run directory")
        inside = [directory, *sorted(directory.glob(SHARD_DIRECTORIES))]
        runs = [place.absolute() for place in inside if is_begun(place / DATABASE)]
        if not runs:
            raise UsageError(f"{directory} holds no run and no shards of one: there is no {DATABASE}.")
        found.update(dict.fromkeys(runs))
    return list(found)


def check_runs(directories: Sequence[Path], output: Path) -> Sources:
    """Make sure that runs are of one plan and contradict each other nowhere; `output` may be one of them.

    Raises:
        IdentityError: two have other settings, policies or machines; says in what.
        StoreError: two have other results of the same episode; shows both.
    """
    # A launcher names the directories of its shards beforehand: in one that had no time to begin there is nothing.
    runs = [run for run in map(StoredRun, directories) if run.tasks]
    if not runs:
        raise UsageError(f"{directories[0]} was never started: there is nothing to merge.")
    first = runs[0]
    for run in runs:
        _check_same(first, run)
    per_task = max(run.per_task for run in runs)
    choices = {run.only for run in runs}
    return Sources(
        runs,
        first.identity,
        first.tasks,
        per_task=per_task,
        # Runs of other parts of the plan are together a run of all of these.
        only=None if None in choices else ",".join(sorted(filter(None, choices))),
        reproducible=all(run.reproducible for run in runs),
        policy_spec=first.policy_spec,
        twice=_check_results(runs, make_plan(first.tasks, per_task, first.identity["seed"]), output),
        stopped=max(
            (run.stopped for run in runs if run.stopped is not None),
            key=lambda stop: stop["episodes"],
            default=None,
        ),
    )


def take_over(sources: Sources, output: RunDirectory, table: EpisodeTable) -> list[str]:
    """Bring everything of the sources into one run: videos first, so that no record names a missing one.

    Returns what was left out and why, a line each.
    """
    left_out = []
    table.set_meta("identity", sources.identity)
    table.set_meta("n_episodes", sources.per_task)
    table.set_meta("only", sources.only)
    table.set_meta("reproducible", sources.reproducible)
    table.set_meta("policy_spec", None if sources.policy_spec is None else sources.policy_spec.to_wire())
    table.set_meta("tasks", [task.to_wire() for task in sources.tasks])
    for run in sources.runs:
        if run.path == output.path:
            continue
        filmed = run.all_ended.filmed if os.path.lexists(run.path / "videos") else []
        for key in filmed:
            bring_video(run.path, key, output.path)
        left_out.append(links_among(run.path, filmed))
        with run.table() as source:
            table.absorb(source)
    # A run that was ended because of what it had shown stays that, unless the rest of the plan has been run too.
    stopped = sources.stopped
    if stopped is not None and sum(1 for _ in table.episodes()) == len(sources.plan):
        stopped = None
    table.set_meta("stopped", stopped)
    return [line for line in left_out if line is not None]


def _check_same(first: StoredRun, second: StoredRun) -> None:
    lines = [f"  {key}: {before} and {now}" for key, before, now in differences(first.identity, second.identity)]
    if lines:
        raise IdentityError(
            f"{first.path} and {second.path} are not runs of one plan; a rate over both would mean nothing:\n"
            + "\n".join(lines)
        )


def _check_results(runs: Sequence[StoredRun], plan: Plan, output: Path) -> int:
    """Refuse runs that contradict each other; returns how many episodes more than one has finished.

    What is finished once cannot contradict anything, so only of the others are digests looked at.
    """
    if len(runs) == 1:
        return 0
    first = np.full(len(plan), -1, np.int16)
    times = np.zeros(len(plan), np.int16)
    conflicts: list[str] = []
    for number, run in enumerate(runs):
        own = run.all_ended
        finished = plan.places_of(own.plan)[own.at(FAILURE, SUCCESS, UNKNOWN)]
        times[finished] += run.path != output
        for before in np.unique(first[finished]).tolist():
            if before >= 0:
                again = finished[first[finished] == before]
                conflicts += _conflicts(runs[before], run, [plan[place].key for place in again.tolist()])
        first[finished[first[finished] < 0]] = number
    if conflicts:
        more = f"\n  and {len(conflicts) - _MOST_SHOWN} more" if len(conflicts) > _MOST_SHOWN else ""
        raise StoreError(
            "the same episode came out differently, so one of these runs is not what it says:\n"
            + "\n".join(conflicts[:_MOST_SHOWN])
            + more
            + "\nNothing was merged. Leave out the run that you do not trust."
        )
    return int((times > 1).sum())


def _conflicts(first: StoredRun, second: StoredRun, keys: Sequence[EpisodeKey]) -> Iterator[str]:
    for one, other in zip(first.find(keys), second.find(keys), strict=True):
        if one.digests != other.digests:
            yield (
                f"  {other.task} episode {other.episode_index}:\n"
                f"    {first.path}: {_describe(one)}\n    {second.path}: {_describe(other)}"
            )


def _describe(record: EpisodeRecord) -> str:
    outcome = {True: "success", False: "failure", None: "success unknown"}[record.success]
    pixels = f", of pixels {record.pixel_digest[:16]}" if record.pixel_digest else ""
    return (
        f"{outcome}, {record.steps} steps, sum of rewards {record.sum_reward}, "
        f"digest {(record.digest or 'none')[:16]}{pixels}"
    )
