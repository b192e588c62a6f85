"""The result of a run, made from its table alone: whoever has the table can write it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proctor.benchmarks.protocol import Episode, Task
from proctor.store.atomic import write_json
from proctor.store.episodes import EpisodeTable
from proctor.store.eval_info import build_eval_info
from proctor.store.identity import Identity
from proctor.store.records import EpisodeRecord
from proctor.store.run_directory import RunDirectory


def write_result(
    directory: RunDirectory, table: EpisodeTable, tasks: Sequence[Task], plan: Sequence[Episode]
) -> tuple[list[EpisodeRecord], dict[str, Any]]:
    """Write the result's file; returns the records of the plan's episodes and what was written."""
    kept = counted(plan, table)
    planned = {episode.key for episode in kept}
    records = [record for record in table.records() if record.key in planned]
    identity: Identity = table.meta("identity")
    wall, startup = table.wall_and_startup()
    info = build_eval_info(
        tasks,
        records,
        directory=directory.path,
        wall_seconds=wall,
        startup_seconds=startup,
        versions=_versions(identity),
        run={
            "complete": len(records) == len(kept),
            "n_planned": len(plan),
            "n_repeated": sum(episode.repeats for episode in plan),
            "stopped": table.meta("stopped"),
            "shard": directory.shard and {"id": directory.shard.number, "of": directory.shard.of},
            "seed": identity["seed"],
            "reproducible": table.meta("reproducible"),
            "identity": identity,
        },
    )
    write_json(directory.result, info)
    return records, info


def counted(plan: Sequence[Episode], table: EpisodeTable) -> Sequence[Episode]:
    """Return the part of the plan that the result is about: all of it, or up to where a rule ended the run.

    What ended beyond that place is kept, for when the run is continued, but counted it would favour quick ones.
    """
    stopped = table.meta("stopped")
    return plan if stopped is None else plan[: stopped["episodes"]]


def _versions(identity: Identity) -> dict[str, str]:
    return {
        **identity["versions"],
        **({"gl_renderer": identity["renderer"]} if identity["renderer"] else {}),
        "cpu": identity["machine"]["cpu"],
    }
